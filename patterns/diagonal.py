"""BookSim2's diagonal pattern."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.registry import patterns
from pyxsim.traffic.draws import random_below
from pyxsim.traffic.pattern import PatternContext, RandomPattern


@patterns.register("diagonal")
def diagonal(context: PatternContext) -> RandomPattern:
    """The source itself with probability 2/3, else the node with the next number."""
    npus = context.npus

    def draw(rng: np.random.Generator, src: IntArray) -> IntArray:
        dst: IntArray = (src + (random_below(rng, 3, len(src)) == 0)) % npus
        return dst

    def probabilities() -> FloatArray:
        return (2 * np.eye(npus) + np.roll(np.eye(npus), 1, axis=1)) / 3

    return RandomPattern(draw, probabilities)
