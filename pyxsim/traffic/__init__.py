"""L2, traffic: which node sends to which, when, and how much; independent of the network.

A `Pattern` draws destinations, a `Process` the cycles in which a node creates packets; a `Source` combines them for
all traffic classes of an experiment and returns arrays in order of cycles.
"""

from __future__ import annotations

from pyxsim.registry import patterns
from pyxsim.traffic.pattern import Pattern, PatternContext, Permutation, RandomPattern, make_pattern
from pyxsim.traffic.source import Arrivals, Source

__all__ = [
    "Arrivals",
    "Pattern",
    "PatternContext",
    "Permutation",
    "RandomPattern",
    "Source",
    "make_pattern",
    "patterns",
]
