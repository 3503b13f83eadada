"""The output files of a run: checked before the simulation, distinct from each other and from the inputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from pyxsim.errors import InputError, PyxsimError, raise_all
from pyxsim.reports.plots.style import need_matplotlib, write_figure
from pyxsim.results.hdf5 import check_hdf5, check_writable
from pyxsim.results.result import Result

Check = Callable[[str], Any]
HINT = "; --json prints JSON, --plot draws"  # for users who expected another format than HDF5


class ResultTables(Protocol):
    """Further tables of a result in a folder, for other simulators' scripts."""

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files."""

    def moved(self, place: Callable[[str], str]) -> ResultTables:
        """Return the same tables in the folder `place(folder)`."""

    def write(self, result: Result) -> list[str]:
        """Write those that the result has data for and return their names. Raises InputError."""


@dataclass(frozen=True)
class Outputs:
    """The output files of a run."""

    file: str | None = None
    plot: str | None = None
    tables: ResultTables | None = None

    def placed(self) -> Outputs:
        """Return the same files as absolute paths."""
        file, plot = (None if name is None else os.path.abspath(name) for name in (self.file, self.plot))
        tables = self.tables and self.tables.moved(os.path.abspath)
        return Outputs(file, plot, tables)

    def from_here(self) -> Outputs:
        """Return the same files relative to the current folder, where they lie in it or below."""
        file, plot = (None if name is None else _from_here(name) for name in (self.file, self.plot))
        tables = self.tables and self.tables.moved(_from_here)
        return Outputs(file, plot, tables)

    def with_file(self, file: str) -> Outputs:
        """Return the same files with another HDF5 file."""
        return Outputs(file, self.plot, self.tables)

    def check(self, inputs: Iterable[str] = ()) -> None:
        """Raise InputError unless all files can be written and none is an input; for use before the simulation."""
        files: list[tuple[str | None, Check]] = [(self.file, check_writable), (self.plot, check_plot)]
        files += [(name, check_writable) for name in (self.tables.files if self.tables is not None else ())]
        check_outputs([(name, check) for name, check in files if name is not None], inputs)
        if self.file is not None:  # after the check for inputs, which has the clearer message
            check_hdf5(self.file, HINT)

    def write(self, result: Result) -> str:
        """Write the files and return their names. Raises InputError once all were tried."""

        def plot(path: str) -> None:
            from pyxsim.reports.plots.figure import save

            save(result, path)

        written, faults = list[str](), list[InputError]()
        for path, write in ((self.file, result.save), (self.plot, plot)):
            if path is not None:
                faults += _fault_of(partial(write, path))
                written.append(path)
        if self.tables is not None:
            tables = self.tables
            faults += _fault_of(lambda: written.extend(tables.write(result)))
        raise_all(faults)
        *names, last = written or [""]
        return f"{', '.join(names)} and {last}" if names else last


def _fault_of(write: Callable[[], None]) -> list[InputError]:
    try:
        write()
    except InputError as error:
        return [error]
    return []


def _from_here(name: str) -> str:
    below = os.path.relpath(name)
    return name if below == os.pardir or below.startswith(os.pardir + os.sep) else below


def check_outputs(outputs: Iterable[tuple[str, Check]], inputs: Iterable[str] = ()) -> None:
    """Raise InputError unless all outputs can be written, and differ from each other and from the inputs.

    Parameters
    ----------
    outputs
        File names with a function that returns the path, or raises InputError if it cannot be written.
    inputs
        Files that must not be overwritten.
    """
    taken = {os.path.realpath(path): "an input of this run" for path in inputs}
    faults, reported = [], set()
    for name, check in outputs:
        try:
            target = os.path.realpath(check(name))
        except InputError as error:
            # A missing folder is reported once, not for each file in it.
            cause = (error.problem, os.path.dirname(name))
            if cause not in reported:
                faults.append(error)
            reported.add(cause)
            continue
        if target in taken:
            problem = f"cannot be written, because it is {taken[target]}"
            faults.append(InputError(problem, file=name, allowed="another name"))
        taken.setdefault(target, "also another output of this run")
    raise_all(faults)


def check_plot(path: str, others: tuple[str, ...] = ()) -> Path:
    """Return the path of a picture; InputError unless it can be written. `others` are suffixes of other formats."""
    need_matplotlib()
    import matplotlib

    matplotlib.use("Agg")  # a file needs no screen
    from matplotlib.backend_bases import FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in known:
        what = "a file" if others else "a picture"
        raise InputError(
            f"'.{suffix}' is not a format of {what}" if suffix else "the file name has no extension",
            file=path,
            allowed=[*others, *(f".{name}" for name in known)],
            given=f".{suffix}" if suffix else None,
        )
    return check_writable(path)


def save_picture(axes: Any, path: Path) -> None:
    """Write the figure of some matplotlib Axes. Raises InputError."""
    figure = axes.get_figure()
    if figure is None:
        raise PyxsimError("the picture has no figure")
    write_figure(figure, path, dpi=150)
