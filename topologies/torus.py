"""A torus (k-ary n-cube): a product of rings, routed in dimension order."""

from collections.abc import Sequence

from pyxsim.registry import blocks, topologies
from pyxsim.topology import Topology, check_shape, product


@topologies.register("torus")
def torus(shape: Sequence[int], bidirectional: bool = True) -> Topology:
    ring = blocks.get("ring")
    return product("torus", [ring(npus, bidirectional) for npus in check_shape(shape)])
