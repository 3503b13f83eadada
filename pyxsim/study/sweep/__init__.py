"""Many points of one experiment: run by several processes, kept in a folder, and never twice."""

from __future__ import annotations

from pyxsim.study.sweep.sweep_run import Standing, sweep

__all__ = ["Standing", "sweep"]
