"""The same experiment on each backend, and against what its links can do at best."""

from __future__ import annotations

from pyxsim.study.compare.comparison_run import WITHIN, Plan, Step, compare, plan_of, read_share

__all__ = ["WITHIN", "Plan", "Step", "compare", "plan_of", "read_share"]
