"""L8, studies: one experiment from its file to its result."""

from __future__ import annotations

from pyxsim.study.prepare import Prepared, prepare
from pyxsim.study.run import Progress, run, simulate

__all__ = ["Prepared", "Progress", "prepare", "run", "simulate"]
