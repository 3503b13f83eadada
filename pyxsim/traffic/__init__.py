"""L2, traffic: who sends to whom, when, and how much. It knows no network: the same seed gives the same packets on any.

A `Pattern` says where the packets of a node go, a `Process` when it creates one; a `Source` puts them together for all
classes of an experiment and hands out arrays, in order of cycles.
"""

from __future__ import annotations

from pyxsim.traffic.pattern import Pattern, Place, make_pattern, patterns
from pyxsim.traffic.source import Arrivals, Source

__all__ = ["Arrivals", "Pattern", "Place", "Source", "make_pattern", "patterns"]
