"""A permutation drawn at random (Dally and Towles, 3.2)."""

from __future__ import annotations

import numpy as np

from pyxsim.registry import patterns
from pyxsim.traffic.draws import PERMUTATION, stream
from pyxsim.traffic.nodes import integer
from pyxsim.traffic.pattern import PatternContext, Permutation


@patterns.register("random-permutation")
def random_permutation(context: PatternContext, seed: int | None = None) -> Permutation:
    """One destination per node, drawn once from all permutations; `seed` defaults to that of the experiment."""
    key = context.seed if seed is None else integer(seed, "seed", 0, 2**63 - 1)
    draws = stream(key, 0, PERMUTATION).random(context.npus)
    return Permutation(np.argsort(draws, kind="stable").astype(np.int64))
