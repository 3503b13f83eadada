"""What a command has written, read back: `pyxsim.load("out.h5")`, also of a curve, a comparison or a sweep."""

from __future__ import annotations

import os
from pathlib import Path

import h5py

from pyxsim.errors import InputError
from pyxsim.results import comparison_file
from pyxsim.results.comparison import Comparison
from pyxsim.results.curve import Curve
from pyxsim.results.result import Result
from pyxsim.results.sweep import Sweep
from pyxsim.results.sweep import read as read_sweep

OTHERS = (".json", ".csv", ".md", ".parquet", ".html")  # that are written, too, and hold only what people read


def load(path: str | os.PathLike[str]) -> Result | Sweep | Curve | Comparison:
    """The result in a file of `pyxsim run`, the curve in one of `pyxsim curve`, the comparison in one of `pyxsim
    compare`, or the sweep in a folder of `pyxsim sweep`. Raises InputError."""
    if Path(path).is_dir():
        return read_sweep(path)
    kind = _kind(path)
    if kind == "comparison":
        return comparison_file.read(path)
    return Curve.load(path) if kind == "curve" else Result.load(path)


def _kind(path: str | os.PathLike[str]) -> str:
    """Raises InputError for a file that is none of HDF5, and has a name of ours."""
    try:
        with h5py.File(path, "r") as file:
            return "curve" if "curve" in file else "comparison" if "comparison" in file.attrs else "result"
    except OSError:  # the reader of results says why
        suffix = Path(path).suffix.lower()
        if suffix in OTHERS and Path(path).is_file():
            problem = f"a file {suffix} cannot be loaded"
            raise InputError(problem, file=os.fspath(path), allowed="the .h5 of the same command") from None
        return "result"
