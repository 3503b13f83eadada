"""Checks of an experiment before it runs: one file for each, registered under its name."""

from __future__ import annotations

from pyxsim.study.check import (  # these register themselves
    check_bound,
    check_buffers,
    check_collectives,
    check_cost,
    check_footprint,
    check_network,
    check_routing,
    check_schedules,
)
from pyxsim.study.check.check_run import CheckReport, check
from pyxsim.study.check.registered import Check, Finding, checks

__all__ = [
    "Check",
    "CheckReport",
    "Finding",
    "check",
    "check_bound",
    "check_buffers",
    "check_collectives",
    "check_cost",
    "check_footprint",
    "check_network",
    "check_routing",
    "check_schedules",
    "checks",
]
