"""Bit reverse (Dally and Towles, table 3.1)."""

from __future__ import annotations

import numpy as np

from pyxsim.registry import patterns
from pyxsim.traffic.nodes import node_bits, node_ids
from pyxsim.traffic.pattern import PatternContext, Permutation


@patterns.register("bit-reverse")
def bit_reverse(context: PatternContext) -> Permutation:
    """The node whose number has the bits in reverse order."""
    bits, nodes = node_bits(context, "bit-reverse"), node_ids(context)
    reversed_bits = np.zeros_like(nodes)
    for bit in range(bits):
        reversed_bits |= ((nodes >> bit) & 1) << (bits - 1 - bit)
    return Permutation(reversed_bits)
