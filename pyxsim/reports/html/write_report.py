"""One HTML page of results, as `pyxsim report` and `pyxsim.report` write it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyxsim import library
from pyxsim.errors import InputError, all_or_faults
from pyxsim.reports.files import check_outputs
from pyxsim.reports.html.page_files import KINDS, chapters
from pyxsim.reports.html.render import check_page, save
from pyxsim.results.hdf5 import shown
from pyxsim.results.result import Result
from pyxsim.results.table import Facts
from pyxsim.settings.types import listed

PathLike = str | os.PathLike[str]
Source = Result | PathLike


@dataclass(frozen=True, repr=False)
class WrittenReport(Facts):
    """A page that was written: its file, its size in bytes, and the titles of its chapters."""

    file: str
    bytes: int
    chapters: list[str]


def report(
    files: Source | Sequence[Source], file: PathLike | None = None, *, libraries: Iterable[PathLike] = ()
) -> WrittenReport:
    """Write one HTML page of results, which works offline.

    Parameters
    ----------
    files
        Results, or their files (.h5), load-latency curves, comparisons, folders of sweeps; several are compared.
    file
        The page; by default beside the only file under its name, or report.html.
    libraries
        Folders with the topologies of the results.

    Raises
    ------
    InputError
        If a file is not a result, or the page cannot be written.
    """
    library.load_all(listed(libraries))
    sources = [
        each if isinstance(each, Result) else os.fspath(each)
        for each in ([files] if isinstance(files, Result) else listed(files))
    ]
    if not sources:
        raise InputError("no results", key="files", allowed=KINDS)
    paths = [source for source in sources if isinstance(source, str)]
    target = default_name(sources) if file is None else os.fspath(file)
    with shown(paths):
        _, made = all_or_faults(lambda: check_outputs([(target, check_page)], paths), lambda: chapters(sources))
        save(made, target)
    return WrittenReport(target, os.path.getsize(target), [chapter.title for chapter in made])


def default_name(sources: Sequence[Result | str]) -> str:
    """Return the name of the page of some sources: beside a single file, else report.html in the current folder."""
    if len(sources) > 1 or isinstance(sources[0], Result):
        return "report.html"
    path = sources[0]
    return os.path.join(path, "report.html") if os.path.isdir(path) else str(Path(path).with_suffix(".html"))
