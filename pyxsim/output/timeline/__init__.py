"""A result as a trace for Perfetto: what NPUs, collectives and links do, over time. docs/timeline.md tells it."""

from __future__ import annotations

from pyxsim.output.timeline.build import build
from pyxsim.output.timeline.files import KINDS, check_timeline, write
from pyxsim.output.timeline.view import View

__all__ = ["KINDS", "View", "build", "check_timeline", "write"]
