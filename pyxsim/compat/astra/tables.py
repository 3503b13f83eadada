"""The files of ASTRA-sim 1 with a row per layer: EndToEnd.csv, detailed.csv, dimension utilization."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyxsim.compat.astra.detail_csv import DETAILED, UTILIZATION, write_detailed, write_utilization
from pyxsim.compat.astra.end_to_end_csv import NAME as END_TO_END
from pyxsim.compat.astra.end_to_end_csv import write_end_to_end
from pyxsim.results.result import Result


class Tables(NamedTuple):
    """The tables of layers for ASTRA-sim's scripts, in a folder: row number `row` of `rows` of each layer."""

    folder: str
    run_name: str
    rows: int = 1
    row: int = 0

    @property
    def files(self) -> tuple[str, str, str]:
        """Their names."""
        folder = Path(self.folder)
        return str(folder / END_TO_END), str(folder / DETAILED), str(folder / f"{self.run_name}{UTILIZATION}")

    def moved(self, place: Callable[[str], str]) -> Tables:
        """The same tables in the folder `place(folder)`."""
        return self._replace(folder=place(self.folder))

    def write(self, result: Result) -> list[str]:
        """Write what there is of them; returns their names. Raises InputError."""
        end_to_end, detailed, utilization = self.files
        written = []
        if len(result.layers.get("name", ())):
            write_end_to_end(result, end_to_end, *self[1:])
            written.append(end_to_end)
        if result.chunk_delays is not None:
            write_detailed(result.chunk_delays, detailed, *self[1:])
            write_utilization(result.chunk_delays, utilization)
            written += [detailed, utilization]
        return written
