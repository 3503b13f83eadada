"""A switch: every NPU has a link up to it and a link down from it."""

from collections.abc import Sequence

import numpy as np

from pyxsim.registry import blocks, topologies
from pyxsim.topology import Block, Topology, check_npus, check_shape, product


@blocks.register("switch")
def switch(npus: int) -> Block:
    npus = check_npus(npus)
    if npus == 1:
        return Block(name="switch", npus=1, src=np.arange(0), dst=np.arange(0))
    ids = np.arange(npus)
    up = np.where(np.eye(npus, dtype=bool), -1, ids[:, None])  # at an NPU: its link up, unless it is the destination
    down = npus + ids[None, :]  # at the switch: the link down to the destination
    power_of_two = npus & (npus - 1) == 0
    return Block(
        name="switch",
        npus=npus,
        switches=1,
        src=np.concatenate([ids, np.full(npus, npus)]),
        dst=np.concatenate([np.full(npus, npus), ids]),
        link_names=["up"] * npus + ["down"] * npus,
        next=np.concatenate([up, down]),
        algorithm="halving-doubling" if power_of_two else "direct",
    )


@topologies.register("switch")
def switch_network(shape: Sequence[int]) -> Topology:
    (npus,) = check_shape(shape, dimensions=1)
    return product("switch", [switch(npus)])
