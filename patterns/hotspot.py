"""Hot-spot traffic (Pfister and Norton, IEEE Transactions on Computers C-34(10), 1985)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.registry import patterns
from pyxsim.traffic.draws import random_below, weighted
from pyxsim.traffic.nodes import integers, positive_numbers
from pyxsim.traffic.pattern import PatternContext, RandomPattern


@patterns.register("hotspot")
def hotspot(
    context: PatternContext, nodes: Sequence[int], rates: Sequence[float] | None = None, share: float = 1.0
) -> RandomPattern:
    """A `share` of all packets to a few `nodes`, in proportion to `rates`; the others to any node."""
    npus = context.npus
    hot_nodes = np.array(integers(nodes, "nodes", 0, npus - 1), dtype=np.int64)
    weights = np.array(positive_numbers([1] * len(hot_nodes) if rates is None else rates, "rates"))
    if len(weights) != len(hot_nodes):
        raise InputError(
            f"{len(weights)} rates for {len(hot_nodes)} nodes", key="pattern_options.rates", allowed="one per node"
        )
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
        raise InputError(f"invalid share {share!r}", key="pattern_options.share", allowed="a number from 0 to 1")

    def draw(rng: np.random.Generator, src: IntArray) -> IntArray:
        hot = hot_nodes[weighted(rng, weights, len(src))]
        if share == 1:
            return hot
        return np.where(rng.random(len(src)) < share, hot, random_below(rng, npus, len(src)))

    def probabilities() -> FloatArray:
        row = np.full(npus, (1 - share) / npus)
        np.add.at(row, hot_nodes, share * weights / weights.sum())
        return np.tile(row, (npus, 1))

    return RandomPattern(draw, probabilities)
