"""Adversarial traffic between groups (Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly
topology", ISCA 2008)."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.registry import patterns
from pyxsim.traffic.draws import random_below
from pyxsim.traffic.nodes import dimensions, integer, node_ids
from pyxsim.traffic.pattern import PatternContext, RandomPattern


@patterns.register("adversarial")
def adversarial(context: PatternContext, group: int | None = None, offset: int = 1) -> RandomPattern:
    """Any node of the group that is `offset` groups further: all nodes of a group contend for the same few links.

    `group` is the number of nodes per group; the default is the nodes that share their coordinate in the last
    dimension, which are the groups of a dragonfly.
    """
    npus = context.npus
    size = npus // dimensions(context)[-1] if group is None else integer(group, "group", 1, npus)
    if npus % size:
        raise InputError(f"{npus} NPUs cannot be divided into groups of {size}", key="pattern_options.group")
    step = integer(offset, "offset", 0, npus)
    if size == npus:
        allowed = "a number of nodes below the number of NPUs"
        raise InputError("all NPUs are in one group", key="pattern_options.group", allowed=allowed)
    if step * size % npus == 0:
        groups = npus // size
        problem = f"an offset of {step} returns to the same group; the network has {groups} groups"
        raise InputError(problem, key="pattern_options.offset", allowed=f"a number that is not a multiple of {groups}")

    def first_node(src: IntArray) -> IntArray:
        return (src // size + step) * size % npus

    def draw(rng: np.random.Generator, src: IntArray) -> IntArray:
        return first_node(src) + random_below(rng, size, len(src))

    def probabilities() -> FloatArray:
        matrix, nodes = np.zeros((npus, npus)), node_ids(context)
        matrix[nodes[:, None], first_node(nodes)[:, None] + np.arange(size)] = 1 / size
        return matrix

    return RandomPattern(draw, probabilities)
