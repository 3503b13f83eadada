"""What became of the chunks of NPU 0, as ASTRA-sim 1 tells it: detailed.csv and <run>_dimension_utilization.csv.

Means are taken as there, in double precision and in the same order, so that the last digit is the same: over the
messages of a chunk's phase, over the chunks of a collective, over the collectives of a layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.compat.astra.end_to_end_csv import Grid, grid_of, put_grid
from pyxsim.errors import InputError

Longs = NDArray[np.int64]

DETAILED = "detailed.csv"
UTILIZATION = "_dimension_utilization.csv"
PER_WINDOW_NS = 10_000
MOST_WINDOWS = 1 << 20
_NAN = "-nan"  # what the original writes where nothing was


@dataclass(eq=False)
class Detail:
    """Cycles. `dimensions` are those of the system layer: of a workload that breaks one in two, one more.

    layer_names   of the workload
    queueing      for each layer the mean wait of a chunk, from its beginning to its first queue, and in each phase
    network       for each layer the mean time for which a message was expected, in each phase
    chunk_time    for each dimension, from the start of a chunk there until it goes on; NaN: there was none
    window        cycles of a window of time
    busy          int64[windows, dimensions]: cycles of each whole window in which the dimension had a chunk
    """

    layer_names: list[str]
    queueing: list[list[float]]
    network: list[list[float]]
    chunk_time: list[float]
    window: int
    busy: Longs
    clock_hz: Fraction

    def rows(self) -> dict[str, NDArray[Any]]:
        """The columns of /layer_phases. Phase 0 is the time before the first queue."""
        rows = [
            (layer, phase, wait, self.network[layer][phase - 1] if phase else np.nan)
            for layer, waits in enumerate(self.queueing)
            for phase, wait in enumerate(waits)
        ]
        table = np.array(rows, np.float64).reshape(-1, 4)
        names = np.array([self.layer_names[int(layer)] for layer in table[:, 0]], dtype=object)
        places = {"layer": table[:, 0].astype(np.int64), "name": names, "phase": table[:, 1].astype(np.int64)}
        return {**places, "queueing": table[:, 2], "network": table[:, 3]}

    @classmethod
    def of_rows(
        cls,
        names: list[str],
        rows: dict[str, NDArray[Any]],
        chunk_time: list[float],
        window: int,
        busy: Longs,
        clock: Fraction,
    ) -> Detail:
        """From the columns of `rows`."""
        places = [np.flatnonzero(rows["layer"] == layer) for layer in range(len(names))]
        return cls(
            layer_names=names,
            queueing=[rows["queueing"][place].tolist() for place in places],
            network=[rows["network"][place[1:]].tolist() for place in places],
            chunk_time=chunk_time,
            window=window,
            busy=busy,
            clock_hz=clock,
        )

    def us(self, cycles: float) -> str:
        """A time as the original writes it."""
        if cycles != cycles:
            return _NAN
        per_us = float(self.clock_hz / 10**6)
        return f"{cycles / per_us:.6f}"


def write_detailed(told: Detail, path: str | Path, name: str = "run", rows: int = 1, row: int = 0) -> None:
    """Write detailed.csv, or fill a row of one that is there, as write_end_to_end does. Raises InputError."""
    grid = grid_of(path, len(told.layer_names), rows, row)
    fill_detailed(grid, told, name, rows, row)
    put_grid(grid, path)


def fill_detailed(grid: Grid, told: Detail, name: str, rows: int, row: int) -> None:
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
                line[column] = told.us(value)
                column += 1
    for dim, cycles in enumerate(told.chunk_time):
        if not row:
            grid[0][column] = f"avg chunk delay dimension {dim + 1}{grid[0][column]}"
        grid[1 + row][column] = told.us(cycles) + grid[1 + row][column]
        column += 1


def write_utilization(told: Detail, path: str | Path) -> None:
    """Write <run>_dimension_utilization.csv. Raises InputError."""
    dims = range(told.busy.shape[1])
    lines = [" time (us) ," + "".join(f"dim{dim + 1} util," for dim in dims)]
    for number, shares in enumerate((told.busy / told.window * 100).tolist()):
        cells = [told.us((number + 1) * told.window), *(f"{share:.6f}" for share in shares)]
        lines.append("".join(f"{cell}," for cell in cells))
    lines.append("," * len(dims))
    try:
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None
