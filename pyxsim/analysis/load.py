"""Load what a command has written: `pyxsim.load("out.h5")`, a result, a curve, a comparison or a sweep."""

from __future__ import annotations

import os
from pathlib import Path

import h5py

from pyxsim.analysis import goal
from pyxsim.errors import InputError
from pyxsim.results import comparison_file, search
from pyxsim.results.comparison import Comparison
from pyxsim.results.curve import Curve
from pyxsim.results.hdf5 import reading
from pyxsim.results.result import Result
from pyxsim.results.search import SearchResult
from pyxsim.results.sweep import Sweep

NOT_LOADABLE = (".json", ".csv", ".md", ".parquet", ".html")  # written by commands, without all of the data


def load(path: str | os.PathLike[str]) -> Result | Sweep | SearchResult | Curve | Comparison:
    """Load an HDF5 file of `pyxsim run`, `pyxsim curve` or `pyxsim compare`, or a folder of `pyxsim sweep` or
    `pyxsim search`.

    Raises InputError for anything else.
    """
    if search.is_search(path):
        return search.read(path)
    if Path(path).is_dir():
        return goal.read(path)
    kind = _kind(path)
    if kind == "comparison":
        return comparison_file.read(path)
    return Curve.load(path) if kind == "curve" else Result.load(path)


def _kind(path: str | os.PathLike[str]) -> str:
    """Return "result", "curve" or "comparison". Raises InputError for a file of pyxsim that is not HDF5."""
    try:
        if not h5py.is_hdf5(path):
            raise OSError
        with reading(path, "a file of pyxsim") as file:
            return "curve" if "curve" in file else "comparison" if "comparison" in file.attrs else "result"
    except OSError:  # the reader of results reports the reason
        suffix = Path(path).suffix.lower()
        if suffix in NOT_LOADABLE and Path(path).is_file():
            problem = f"cannot load a {suffix} file"
            raise InputError(
                problem, file=os.fspath(path), allowed="the .h5 file that the same command writes"
            ) from None
        return "result"
