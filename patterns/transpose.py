"""Transpose (Dally and Towles, table 3.1)."""

from __future__ import annotations

from math import isqrt

from pyxsim.errors import InputError
from pyxsim.registry import patterns
from pyxsim.traffic.nodes import node_ids
from pyxsim.traffic.pattern import PatternContext, Permutation


@patterns.register("transpose")
def transpose(context: PatternContext) -> Permutation:
    """Node (x, y) of a square to (y, x); where the side is a power of two, this swaps the halves of the node's bits."""
    side = isqrt(context.npus)
    if side * side != context.npus:
        raise InputError(f"transpose requires a square number of NPUs; the network has {context.npus}")
    nodes = node_ids(context)
    return Permutation(nodes % side * side + nodes // side)
