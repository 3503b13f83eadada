"""EndToEnd.csv of ASTRA-sim 1: a row per layer of the workload, in microseconds (docs/output.md has the columns).

Several runs can share a file: each layer has `rows` rows, of which a run fills row `row`; the first run creates the
file.
"""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from pyxsim.errors import InputError
from pyxsim.results.result import Result
from pyxsim.textfile import csv_text

NAME = "EndToEnd.csv"
COLUMNS = {
    "fwd_compute": "fwd compute",
    "wg_compute": "wg compute",
    "ig_compute": "ig compute",
    "fwd_exposed": "fwd exposed comm",
    "wg_exposed": "wg exposed comm",
    "ig_exposed": "ig exposed comm",
    "fwd_comm": "fwd total comm",
    "wg_comm": "wg total comm",
    "ig_comm": "ig total comm",
    "finished": "workload finished at",
}
_TOTALS = ("total comp", "total exposed comm")
_SPARE, _WIDTH = 20, 50  # additional lines and columns of ASTRA-sim's file

Grid = list[list[str]]


def write_end_to_end(result: Result, path: str | Path, name: str = "run", rows: int = 1, row: int = 0) -> None:
    """Write the file of a result with layers, or fill a row of an existing one. Raises InputError."""
    grid = grid_of(path, len(result.layers["name"]), rows, row)
    fill(grid, result, name, rows, row)
    put_grid(grid, path)


def fill(grid: Grid, result: Result, name: str, rows: int, row: int) -> None:
    """Fill in the cells of a result."""
    if not row:
        grid[0][2 : 2 + len(COLUMNS) + len(_TOTALS)] = [*COLUMNS.values(), *_TOTALS]
    layers, computed = result.layers, 0.0
    finished = _us(result, layers["finished"].max())
    # Compute times, added in ASTRA-sim's order, on which the last digit depends.
    parts: tuple[str, ...] = ("fwd_compute", "wg_compute", "ig_compute")
    share = np.ones(len(layers["name"]))
    if "npus" in layers:
        # With different NPUs: the mean over all of them, for any part of a layer.
        parts = tuple(key for key in layers if key.endswith("_compute"))
        share = layers["npus"] / max(1, len(result.npus.get("idle", ())))
    for number, layer in enumerate(layers["name"]):
        line = grid[number * rows + 1 + row]
        if not row:
            grid[number * rows + 1][0] = str(layer)
        line[1] = name
        values = {key: _us(result, layers[key][number]) for key in COLUMNS} | {"finished": finished}
        line[2 : 2 + len(COLUMNS)] = [f"{value:.6f}" for value in values.values()]
        for key in parts:
            computed += _us(result, layers[key][number]) * float(share[number])
    grid[1 + row][2 + len(COLUMNS) : 4 + len(COLUMNS)] = [f"{computed:.6f}", f"{finished - computed:.6f}"]


def grid_of(path: str | Path, layers: int, rows: int, row: int) -> Grid:
    """Return an empty grid, or after the first row the contents of the file. Raises InputError."""
    lines = layers * rows + _SPARE
    return _blank(lines) if not row else _read(path, lines)


def put_grid(grid: Grid, path: str | Path) -> None:
    """Write a grid. Raises InputError."""
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([csv_text(cell) for cell in row] for row in grid)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None


def _us(result: Result, cycles: Any) -> float:
    return float(Fraction(np.asarray(cycles).item()) * 10**6 / result.clock_hz)


def _blank(lines: int) -> Grid:
    return [[""] * _WIDTH for _ in range(lines)]


def _read(path: str | Path, lines: int) -> Grid:
    """Read the file of an earlier run with the same layers and rows. Raises InputError."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            grid = [list(line) for line in csv.reader(file)]
    except (OSError, UnicodeDecodeError, csv.Error):
        grid = []
    if len(grid) != lines or any(len(line) != _WIDTH for line in grid):
        problem = "is not a file of an earlier run with the same layers and rows"
        raise InputError(problem, file=str(path), allowed="--stat-row 0 first")
    return grid
