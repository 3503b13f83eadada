"""A permutation, or any other fixed destination of each node, from a list."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import patterns
from pyxsim.traffic.pattern import PatternContext, Permutation


@patterns.register("permutation")
def permutation(context: PatternContext, destinations: Sequence[int]) -> Permutation:
    """Node `i` sends to node `destinations[i]`."""
    table = np.asarray(destinations)
    npus = context.npus
    if table.shape != (npus,) or table.dtype.kind != "i" or not ((table >= 0) & (table < npus)).all():
        key = "pattern_options.destinations"
        raise InputError("does not give each node a destination", key=key, allowed=f"{npus} numbers of nodes")
    return Permutation(table.astype(np.int64))
