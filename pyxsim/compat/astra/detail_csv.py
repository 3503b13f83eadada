"""Delays of the chunks of NPU 0 in the files of ASTRA-sim 1: detailed.csv and <run>_dimension_utilization.csv."""

from __future__ import annotations

from pathlib import Path

from pyxsim.compat.astra.end_to_end_csv import Grid, grid_of, put_grid
from pyxsim.errors import InputError
from pyxsim.results.chunk_delays import ChunkDelays

DETAILED = "detailed.csv"
UTILIZATION = "_dimension_utilization.csv"
_NAN = "-nan"  # of a mean without values, as in ASTRA-sim


def write_detailed(delays: ChunkDelays, path: str | Path, name: str = "run", rows: int = 1, row: int = 0) -> None:
    """Write detailed.csv, or fill a row of an existing one. Raises InputError."""
    grid = grid_of(path, len(delays.layer_names), rows, row)
    fill_detailed(grid, delays, name, rows, row)
    put_grid(grid, path)


def fill_detailed(grid: Grid, delays: ChunkDelays, name: str, rows: int, row: int) -> None:
    """Fill in the cells. ASTRA-sim appends to cells: the columns of the dimensions begin where those of the last layer
    end,
    even if they are not empty."""
    column = 2
    for number, layer in enumerate(delays.layer_names):
        line = grid[number * rows + 1 + row]
        if not row:
            grid[number * rows + 1][0] = layer
        line[1] = name
        column = 2
        for title, first, values in (
            ("queuing delay phase", 0, delays.queueing[number]),
            ("network delay phase", 1, delays.network[number]),
        ):
            for phase, value in enumerate(values):
                if not row and not number:
                    grid[0][column] = f"{title} {phase + first}"
                line[column] = _us(delays, value)
                column += 1
    for dim, cycles in enumerate(delays.chunk_time):
        if not row:
            grid[0][column] = f"avg chunk delay dimension {dim + 1}{grid[0][column]}"
        grid[1 + row][column] = _us(delays, cycles) + grid[1 + row][column]
        column += 1


def write_utilization(delays: ChunkDelays, path: str | Path) -> None:
    """Write <run>_dimension_utilization.csv. Raises InputError."""
    dims = range(delays.busy.shape[1])
    lines = [" time (us) ," + "".join(f"dim{dim + 1} util," for dim in dims)]
    for number, shares in enumerate((delays.busy / delays.window * 100).tolist()):
        cells = [_us(delays, (number + 1) * delays.window), *(f"{share:.6f}" for share in shares)]
        lines.append("".join(f"{cell}," for cell in cells))
    lines.append("," * len(dims))
    try:
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None


def _us(delays: ChunkDelays, cycles: float) -> str:
    """A time in microseconds, in the number format of ASTRA-sim."""
    return _NAN if cycles != cycles else f"{cycles / float(delays.clock_hz / 10**6):.6f}"
