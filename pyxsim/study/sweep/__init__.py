"""Run sweeps: each point once, in several processes, with results in the folder that results/sweep.py describes."""

from __future__ import annotations

from pyxsim.study.sweep.sweep_run import Standing, sweep

__all__ = ["Standing", "sweep"]
