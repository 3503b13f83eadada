"""Uniform random traffic without packets to the source itself."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.registry import patterns
from pyxsim.traffic.draws import random_below
from pyxsim.traffic.nodes import require_nodes
from pyxsim.traffic.pattern import PatternContext, RandomPattern


@patterns.register("uniform-other")
def uniform_other(context: PatternContext) -> RandomPattern:
    """Any node except the source."""
    npus = require_nodes(context, 2)

    def draw(rng: np.random.Generator, src: IntArray) -> IntArray:
        other = random_below(rng, npus - 1, len(src))
        return other + (other >= src)

    return RandomPattern(draw, lambda: (1 - np.eye(npus)) / (npus - 1))
