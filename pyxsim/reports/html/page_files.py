"""Read the files of a page, and make the chapter of each kind of file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import h5py

from pyxsim.errors import InputError, InputErrors, raise_all
from pyxsim.reports.html import (
    backends_chapter,
    curve_chapter,
    result_chapter,
    search_chapter,
    side_by_side,
    sweep_chapter,
)
from pyxsim.reports.html.elements import Chapter
from pyxsim.results import search as searches
from pyxsim.results import sweep as sweeps
from pyxsim.results.curve import Curve
from pyxsim.results.hdf5 import reading
from pyxsim.results.result import Result

KINDS = "a result, a load-latency curve or a comparison (.h5), or the folder of a sweep or search"


def chapters(sources: Sequence[Result | str]) -> list[Chapter]:
    """Return the chapters of some results and files; several results share one.

    Raises
    ------
    InputError
        With one line per file that cannot be read.
    """
    faults: list[InputError] = []
    results: dict[str, Result] = {}
    others: list[Chapter] = []
    numbered = [one if isinstance(one, str) else f"result {number}" for number, one in enumerate(sources, 1)]
    for source, name in zip(sources, side_by_side.names_of(numbered), strict=True):
        try:
            content = source if isinstance(source, Result) else _read(source, name)
        except InputError as error:
            faults += error.faults if isinstance(error, InputErrors) else [error]
            continue
        if isinstance(content, Result):
            results[name] = content
        else:
            others += content
    raise_all(faults)
    return [*of_results(results), *others]


def of_results(results: Mapping[str, Result]) -> list[Chapter]:
    """Return the chapter of a result, or of several side by side, by their names on the page."""
    if len(results) > 1:
        return [side_by_side.chapter(list(results.items()))]
    return [result_chapter.chapter(result, name) for name, result in results.items()]


def _read(path: str, name: str) -> Result | list[Chapter]:
    """A result, or the chapters of other files."""
    if searches.is_search(path):
        return [search_chapter.chapter(searches.read(path), name)]
    if os.path.isdir(path):
        return [sweep_chapter.chapter(sweeps.read(path), name)]
    if os.path.isfile(path) and h5py.is_hdf5(path):
        with reading(path, KINDS, "is a comparison of another version of pyxsim") as file:
            if "curve" in file:
                return [curve_chapter.chapter(Curve.load(path), name)]
            if "comparison" in file.attrs:
                return backends_chapter.chapters(file, name)
            if "record" not in file.attrs:
                raise InputError("cannot be shown", file=path, allowed=KINDS)
    return Result.load(path)
