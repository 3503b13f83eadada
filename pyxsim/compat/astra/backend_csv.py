"""backend_end_to_end.csv and backend_dim_info.csv, which the analytical backend of ASTRA-sim 1 writes.

A row per run: times in microseconds, MiB that NPU 0 sent, in total and by dimension, and the cost of links, switches
and network cards in dollars; then the mean time of a chunk in each dimension.
"""

from __future__ import annotations

import csv
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from pyxsim.errors import InputError
from pyxsim.file_entries import PathLike
from pyxsim.results.result import Result
from pyxsim.textfile import csv_text

END_TO_END, DIMENSIONS = "backend_end_to_end.csv", "backend_dim_info.csv"
MOST_DIMENSIONS = 7  # columns of the first file
_ROWS = 10  # of each run in the second one
_HEAD = ("RunName", "CommsTime", "ComputeTime", "ExposedCommsTime", "Cost", "TotalPayloadSize")
_HEAD_2 = ("RunName", "DimensionIndex", "AverageChunkLatency")
_MIB = 1 << 20

Grid = list[list[str]]


def files(folder: PathLike) -> tuple[str, str]:
    """Return the names of both files."""
    return str(Path(folder, END_TO_END)), str(Path(folder, DIMENSIONS))


def write(folder: PathLike, name: str, rows: int, row: int, prepared: Any, result: Result, cost: float) -> None:
    """Write both files, or fill row `row` of `rows` in existing ones. Raises InputError."""
    first, second = files(folder)
    shape = prepared.system.shape
    grid = _grid(first, rows + 1, len(_HEAD) + MOST_DIMENSIONS, row)
    grid_2 = _grid(second, rows * _ROWS + 1, len(_HEAD_2), row)
    if not row:
        grid[0] = [*_HEAD, *(f"PayloadSize_Dim{dim}" for dim in range(MOST_DIMENSIONS))]
        grid_2[0] = [*_HEAD_2]
    sent = _sent(prepared, shape)
    finished, computed = _times(result)
    numbers = [finished, computed, finished - computed, cost, sum(sent) / _MIB, *(nbytes / _MIB for nbytes in sent)]
    line = [name, *(f"{number:.6f}" for number in numbers)]
    grid[row + 1] = [*line, *["-1"] * (len(grid[0]) - len(line))][: len(grid[0])]
    chunk_time = result.chunk_delays.chunk_time if result.chunk_delays is not None else []
    for dim, cycles in enumerate(chunk_time[:_ROWS]):
        cell = "-nan" if np.isnan(cycles) else f"{cycles * 10**6 / float(result.clock_hz):.6f}"
        grid_2[row * _ROWS + 1 + dim] = [name, str(dim), cell]
    _put(grid, first)
    _put(grid_2, second)


def _sent(prepared: Any, shape: tuple[int, ...]) -> list[int]:
    """Bytes that NPU 0 sent, by the highest dimension in which the receiver differs, as in ASTRA-sim."""
    sent = [0] * len(shape)
    for src, dst, _, size, count in prepared.system.traffic().tolist():
        if src == 0:
            above = [dim for dim, stride in enumerate(_strides(shape)) if dst // stride % shape[dim]]
            sent[above[-1]] += size * count
    return sent


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[:dim]) for dim in range(len(shape))]


def _times(result: Result) -> tuple[float, float]:
    """End of the workload and compute time of NPU 0: the totals of EndToEnd.csv."""
    unit = 10**6 / float(result.clock_hz)
    computed = sum(float(result.layers[f"{part}_compute"].sum()) for part in ("fwd", "wg", "ig"))
    return float(result.layers["finished"].max()) * unit, computed * unit


def _grid(path: str, lines: int, columns: int, row: int) -> Grid:
    """Empty cells; for a row that is not the first, what is in the file."""
    if not row:
        return [[""] * columns for _ in range(lines)]
    try:
        with open(path, encoding="utf-8", newline="") as file:
            grid = list(csv.reader(file))
    except (OSError, ValueError, csv.Error):
        grid = []
    if len(grid) != lines or any(len(line) != columns for line in grid):
        raise InputError(
            f"is no such file of a run with row 0, of {lines} rows", file=path, allowed="--stat-row 0 first"
        )
    return grid


def _put(grid: Grid, path: str) -> None:
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([csv_text(cell) for cell in row] for row in grid)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=path) from None
