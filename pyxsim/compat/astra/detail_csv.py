"""What became of the chunks of NPU 0, as ASTRA-sim 1 tells it: detailed.csv and <run>_dimension_utilization.csv.

Means are taken as there, in double precision and in the same order, so that the last digit is the same: over the
messages of a chunk's phase, over the chunks of a collective, over the collectives of a layer.
"""

from __future__ import annotations

from pathlib import Path

from pyxsim.compat.astra.end_to_end_csv import Grid, grid_of, put_grid
from pyxsim.errors import InputError
from pyxsim.results.chunk_delays import ChunkDelays

DETAILED = "detailed.csv"
UTILIZATION = "_dimension_utilization.csv"
_NAN = "-nan"  # what the original writes where nothing was


def write_detailed(told: ChunkDelays, path: str | Path, name: str = "run", rows: int = 1, row: int = 0) -> None:
    """Write detailed.csv, or fill a row of one that is there, as write_end_to_end does. Raises InputError."""
    grid = grid_of(path, len(told.layer_names), rows, row)
    fill_detailed(grid, told, name, rows, row)
    put_grid(grid, path)


def fill_detailed(grid: Grid, told: ChunkDelays, name: str, rows: int, row: int) -> None:
    """Put it into a grid of cells. The original adds to a cell what it writes: the columns of the dimensions begin
    where the last layer ends, whatever stands there."""
    column = 2
    for number, layer in enumerate(told.layer_names):
        line = grid[number * rows + 1 + row]
        if not row:
            grid[number * rows + 1][0] = layer
        line[1] = name
        column = 2
        for title, first, values in (
            ("queuing delay phase", 0, told.queueing[number]),
            ("network delay phase", 1, told.network[number]),
        ):
            for phase, value in enumerate(values):
                if not row and not number:
                    grid[0][column] = f"{title} {phase + first}"
                line[column] = _us(told, value)
                column += 1
    for dim, cycles in enumerate(told.chunk_time):
        if not row:
            grid[0][column] = f"avg chunk delay dimension {dim + 1}{grid[0][column]}"
        grid[1 + row][column] = _us(told, cycles) + grid[1 + row][column]
        column += 1


def write_utilization(told: ChunkDelays, path: str | Path) -> None:
    """Write <run>_dimension_utilization.csv. Raises InputError."""
    dims = range(told.busy.shape[1])
    lines = [" time (us) ," + "".join(f"dim{dim + 1} util," for dim in dims)]
    for number, shares in enumerate((told.busy / told.window * 100).tolist()):
        cells = [_us(told, (number + 1) * told.window), *(f"{share:.6f}" for share in shares)]
        lines.append("".join(f"{cell}," for cell in cells))
    lines.append("," * len(dims))
    try:
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None


def _us(delays: ChunkDelays, cycles: float) -> str:
    """A time in microseconds, in the number format of ASTRA-sim."""
    return _NAN if cycles != cycles else f"{cycles / float(delays.clock_hz / 10**6):.6f}"
