"""Timelines: a result as a trace for Perfetto; docs/timeline.md describes it."""

from __future__ import annotations

from pyxsim.reports.timeline.build import build
from pyxsim.reports.timeline.trace_files import KINDS, check_timeline, write
from pyxsim.reports.timeline.view import View

__all__ = ["KINDS", "View", "build", "check_timeline", "write"]
