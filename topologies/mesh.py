"""A mesh: a product of lines, routed in dimension order. A line has no cycle, so it needs no VC classes."""

from collections.abc import Sequence

import numpy as np

from pyxsim.registry import blocks, topologies
from pyxsim.topology import Block, Topology, check_npus, check_shape, product


@blocks.register("mesh", aliases=("line",))
def line(npus: int) -> Block:
    npus = check_npus(npus)
    ids = np.arange(npus)
    router, goal = ids[:, None], ids[None, :]
    # Link i leads from i to i + 1; the links back, from 1, 2, .. to the one below, come after the npus - 1 of them.
    return Block(
        name="mesh",
        npus=npus,
        src=np.concatenate([ids[:-1], ids[1:]]),
        dst=np.concatenate([ids[1:], ids[:-1]]),
        link_names=["+"] * (npus - 1) + ["-"] * (npus - 1),
        next=np.where(router == goal, -1, np.where(router < goal, router, npus - 2 + router)),
        algorithm="ring",
    )


@topologies.register("mesh")
def mesh(shape: Sequence[int]) -> Topology:
    return product("mesh", [line(npus) for npus in check_shape(shape)])
