"""Bit complement (Dally and Towles, table 3.1)."""

from __future__ import annotations

from pyxsim.registry import patterns
from pyxsim.traffic.nodes import node_bits, node_ids
from pyxsim.traffic.pattern import PatternContext, Permutation


@patterns.register("bit-complement")
def bit_complement(context: PatternContext) -> Permutation:
    """The node whose number has every bit inverted."""
    node_bits(context, "bit-complement")
    return Permutation(context.npus - 1 - node_ids(context))
