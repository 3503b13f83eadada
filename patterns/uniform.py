"""Uniform random traffic (Dally and Towles, 3.2)."""

from __future__ import annotations

import numpy as np

from pyxsim.registry import patterns
from pyxsim.traffic.draws import random_below
from pyxsim.traffic.pattern import PatternContext, RandomPattern


@patterns.register("uniform")
def uniform(context: PatternContext) -> RandomPattern:
    """Any node, including the source."""
    npus = context.npus
    return RandomPattern(
        lambda rng, src: random_below(rng, npus, len(src)), lambda: np.full((npus, npus), 1 / npus), uniform=True
    )
