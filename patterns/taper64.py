"""BookSim2's taper64: half of the traffic stays near."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.registry import patterns
from pyxsim.traffic.draws import random_below
from pyxsim.traffic.pattern import PatternContext, RandomPattern

NODES, SIDE = 64, 8


@patterns.register("taper64")
def taper64(context: PatternContext) -> RandomPattern:
    """64 nodes in a square: a node at most one row and column away, or, as often, any node."""
    if context.npus != NODES:
        raise InputError(f"taper64 requires {NODES} NPUs; the network has {context.npus}", key="pattern")
    offsets = np.array([SIDE * row + column for row in (-1, 0, 1) for column in (-1, 0, 1)])

    def draw(rng: np.random.Generator, src: IntArray) -> IntArray:
        near = (src + offsets[random_below(rng, len(offsets), len(src))]) % NODES
        far = random_below(rng, NODES, len(src))
        dst: IntArray = np.where(random_below(rng, 2, len(src)) == 0, near, far)
        return dst

    def probabilities() -> FloatArray:
        matrix = np.full((NODES, NODES), 0.5 / NODES)
        nodes = np.arange(NODES)
        for offset in offsets:
            matrix[nodes, (nodes + offset) % NODES] += 0.5 / len(offsets)
        return matrix

    return RandomPattern(draw, probabilities)
