"""Fully connected: a link from every NPU to every other."""

from collections.abc import Sequence

import numpy as np

from pyxsim.registry import blocks, topologies
from pyxsim.topology import Block, Topology, check_npus, check_shape, product


@blocks.register("fully-connected")
def fully_connected(npus: int) -> Block:
    npus = check_npus(npus)
    src, dst = np.nonzero(~np.eye(npus, dtype=bool))
    link = np.full((npus, npus), -1)
    link[src, dst] = np.arange(len(src))
    return Block(name="fully-connected", npus=npus, src=src, dst=dst, next=link, algorithm="direct")


@topologies.register("fully-connected")
def fully_connected_network(shape: Sequence[int]) -> Topology:
    (npus,) = check_shape(shape, dimensions=1)
    return product("fully-connected", [fully_connected(npus)])
