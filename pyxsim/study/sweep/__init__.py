"""Sweeps: run the points of an experiment in several processes, each once, with results in a folder."""

from __future__ import annotations

from pyxsim.study.sweep.sweep_run import Standing, sweep

__all__ = ["Standing", "sweep"]
