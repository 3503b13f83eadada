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
    """ASTRA-sim's tables in a folder, with `rows` rows per layer, of which a run fills row `row`."""

    folder: str
    run_name: str
    rows: int = 1
    row: int = 0

    @property
    def files(self) -> tuple[str, str, str]:
        """The names of the files."""
        folder = Path(self.folder)
        return str(folder / END_TO_END), str(folder / DETAILED), str(folder / f"{self.run_name}{UTILIZATION}")

    def moved(self, place: Callable[[str], str]) -> Tables:
        """Return the same tables in the folder `place(folder)`."""
        return self._replace(folder=place(self.folder))

    def write(self, result: Result) -> list[str]:
        """Write those that the result has data for and return their names. Raises InputError."""
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
