"""What a command has written, read back: `pyxsim.load("out.h5")`, `pyxsim.load("sweep/")`."""

from __future__ import annotations

import os
from pathlib import Path

from pyxsim.output.result import Result
from pyxsim.output.sweep import Sweep
from pyxsim.output.sweep import read as read_sweep


def load(path: str | os.PathLike[str]) -> Result | Sweep:
    """The result in a file of `pyxsim run`, or the sweep in a folder of `pyxsim sweep`. Raises InputError."""
    return read_sweep(path) if Path(path).is_dir() else Result.load(path)
