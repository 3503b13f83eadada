"""One HTML page of results, as `pyxsim report` and `pyxsim.report` write it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyxsim import library
from pyxsim.errors import all_or_faults
from pyxsim.reports.files import check_outputs
from pyxsim.reports.html.page_files import chapters
from pyxsim.reports.html.render import check_page, save
from pyxsim.settings.types import listed

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class WrittenReport:
    """A page that was written: its file, its size in bytes, and the titles of its chapters."""

    file: str
    bytes: int
    chapters: list[str]


def report(
    files: PathLike | Sequence[PathLike], file: PathLike | None = None, *, libraries: Iterable[PathLike] = ()
) -> WrittenReport:
    """Write one HTML page of results, which works offline.

    Parameters
    ----------
    files
        Results (.h5), load-latency curves, comparisons, folders of sweeps; several are compared.
    file
        The page; by default beside the only file under its name, or report.html.
    libraries
        Folders with the topologies of the results.

    Raises
    ------
    InputError
        For files that are no results, or a page that cannot be written.
    """
    library.load_all(listed(libraries))
    paths = [os.fspath(each) for each in listed(files)]
    target = default_name(paths) if file is None else os.fspath(file)
    _, made = all_or_faults(lambda: check_outputs([(target, check_page)], paths), lambda: chapters(paths))
    save(made, target)
    return WrittenReport(target, os.path.getsize(target), [each.title for each in made])


def default_name(paths: Sequence[str]) -> str:
    """Return the name of the page of some files: beside a single one, else report.html in the present folder."""
    if len(paths) > 1:
        return "report.html"
    (path,) = paths
    return os.path.join(path, "report.html") if os.path.isdir(path) else str(Path(path).with_suffix(".html"))
