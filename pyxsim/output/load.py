"""What a command has written, read back: `pyxsim.load("out.h5")`, of a curve or the folder of a sweep, too."""

from __future__ import annotations

import os
from pathlib import Path

import h5py

from pyxsim.output.curve import Curve
from pyxsim.output.result import Result
from pyxsim.output.sweep import Sweep
from pyxsim.output.sweep import read as read_sweep


def load(path: str | os.PathLike[str]) -> Result | Sweep | Curve:
    """The result in a file of `pyxsim run`, the curve in one of `pyxsim curve`, or the sweep in a folder of `pyxsim
    sweep`. Raises InputError."""
    if Path(path).is_dir():
        return read_sweep(path)
    return Curve.load(path) if _is_curve(path) else Result.load(path)


def _is_curve(path: str | os.PathLike[str]) -> bool:
    try:
        with h5py.File(path, "r") as file:
            return "curve" in file
    except OSError:  # the reader of results says why
        return False
