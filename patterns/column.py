"""All nodes of a row send to one column: BookSim2's badperm_yarc."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.registry import patterns
from pyxsim.traffic.draws import random_below
from pyxsim.traffic.nodes import node_ids
from pyxsim.traffic.pattern import PatternContext, RandomPattern


@patterns.register("column", aliases=("badperm-yarc",))
def column(context: PatternContext) -> RandomPattern:
    """Nodes in a square: every node of row `r` sends to random nodes of column `r`, which overloads minimal routes."""
    npus = context.npus
    side = round(npus**0.5)
    if side * side != npus:
        raise InputError(f"column requires a square number of NPUs; the network has {npus}", key="pattern")

    def draw(rng: np.random.Generator, src: IntArray) -> IntArray:
        dst: IntArray = random_below(rng, side, len(src)) * side + src // side
        return dst

    def probabilities() -> FloatArray:
        matrix, nodes = np.zeros((npus, npus)), node_ids(context)
        matrix[nodes[:, None], np.arange(side) * side + nodes[:, None] // side] = 1 / side
        return matrix

    return RandomPattern(draw, probabilities)
