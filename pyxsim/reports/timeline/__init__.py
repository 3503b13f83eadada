"""Timelines: a result as a trace for Perfetto; docs/timeline.md describes it."""

from __future__ import annotations

from pyxsim.reports.timeline.build import build
from pyxsim.reports.timeline.view import View
from pyxsim.reports.timeline.write_timeline import KINDS, check_timeline, write

__all__ = ["KINDS", "View", "build", "check_timeline", "write"]
