"""BookSim2's asymmetric pattern."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.registry import patterns
from pyxsim.traffic.draws import random_below
from pyxsim.traffic.nodes import require_nodes
from pyxsim.traffic.pattern import PatternContext, RandomPattern


@patterns.register("asymmetric")
def asymmetric(context: PatternContext) -> RandomPattern:
    """The source's number modulo N/2, in the first or the second half of the nodes with equal probability."""
    npus, half = context.npus, require_nodes(context, 2) // 2

    def draw(rng: np.random.Generator, src: IntArray) -> IntArray:
        return src % half + half * random_below(rng, 2, len(src))

    def probabilities() -> FloatArray:
        matrix = np.zeros((npus, npus))
        for first in (0, half):
            matrix[np.arange(npus), np.arange(npus) % half + first] += 0.5
        return matrix

    return RandomPattern(draw, probabilities)
