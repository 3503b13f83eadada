"""HyperX, or flattened butterfly: in each dimension every router has a link to every other.

Kim, Dally and Abts (2007) made it of butterflies; Ahn and others (2009) generalized it.
"""

from collections.abc import Sequence

from pyxsim.registry import blocks, topologies
from pyxsim.topology import Topology, check_shape, check_tile, concentrate, product


@topologies.register("hyperx", aliases=("flattened-butterfly",))
def hyperx(routers: Sequence[int], concentration: int | Sequence[int] = 1, floor_plan: bool = False) -> Topology:
    """HyperX, or flattened butterfly: in each dimension every router has a link to every other.

    `routers` per dimension, each with `concentration` NPUs: a number, or how many along each dimension.
    `floor_plan`: links are as long as the routers are apart in the grid of NPUs.
    """
    full = blocks.get("fully-connected")
    size = check_shape(routers, key="network.options.routers")
    grid = product("hyperx", [full(count) for count in size])
    return concentrate(grid, check_tile(concentration, len(size)), floor_plan=floor_plan)
