"""Nearest neighbor (Dally and Towles, table 3.1)."""

from __future__ import annotations

from pyxsim.registry import patterns
from pyxsim.traffic.nodes import dimensions, shift
from pyxsim.traffic.pattern import PatternContext, Permutation


@patterns.register("neighbor", aliases=("neighbour",))
def neighbor(context: PatternContext) -> Permutation:
    """One node further in every dimension."""
    return shift(context, [1] * len(dimensions(context)))
