"""Perfect shuffle (Dally and Towles, table 3.1)."""

from __future__ import annotations

from pyxsim.registry import patterns
from pyxsim.traffic.nodes import node_bits, node_ids
from pyxsim.traffic.pattern import PatternContext, Permutation


@patterns.register("shuffle")
def shuffle(context: PatternContext) -> Permutation:
    """The node whose number has the bits rotated to the left by one."""
    bits, nodes = node_bits(context, "shuffle"), node_ids(context)
    return Permutation((nodes << 1 & (context.npus - 1)) | (nodes >> (bits - 1) if bits else nodes))
