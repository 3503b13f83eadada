"""Tornado (Dally and Towles, table 3.1)."""

from __future__ import annotations

from pyxsim.registry import patterns
from pyxsim.traffic.nodes import dimensions, shift
from pyxsim.traffic.pattern import PatternContext, Permutation


@patterns.register("tornado")
def tornado(context: PatternContext) -> Permutation:
    """ceil(k/2) - 1 nodes further in every dimension of k nodes: nearly half way round, always in one direction."""
    return shift(context, [(size + 1) // 2 - 1 for size in dimensions(context)])
