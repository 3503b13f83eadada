"""gem5 Garnet's networks as ASTRA-sim 1 uses them: every ring and switch on wires of its own."""

from collections.abc import Sequence

from pyxsim.registry import topologies
from pyxsim.topology import Topology, check_shape
from pyxsim.topology.garnet import garnet_switch, garnet_torus


@topologies.register("garnet-torus")
def torus3d(shape: Sequence[int], local_rings: int = 1, horizontal_rings: int = 1, vertical_rings: int = 1) -> Topology:
    """`Torus3D`: shape = [local, horizontal, vertical]; pairs of rings, except that local rings go one way only."""
    local, horizontal, vertical = check_shape(shape, dimensions=3)
    return garnet_torus(local, horizontal, vertical, local_rings, horizontal_rings, vertical_rings)


@topologies.register("garnet-switch")
def nv_switch(shape: Sequence[int], local_rings: int = 1, links_per_tile: int = 1) -> Topology:
    """`NV_Switch`: shape = [local, packages]; every NPU has a link to each of `links_per_tile` switches."""
    local, packages = check_shape(shape, dimensions=2)
    return garnet_switch(local, packages, local_rings, links_per_tile)
