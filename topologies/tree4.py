"""BookSim2's tree of 64 NPUs: 16 leaves with two links up, 8 switches with four, and 4 switches at the top.

Every top switch reaches both middle switches of a pod, so there are two links to choose from on the way down, too.
"""

from functools import partial

import numpy as np

from pyxsim.registry import topologies
from pyxsim.routing.graph import nca
from pyxsim.topology import Dimension, Topology, graph_network
from pyxsim.topology.place import levels

LEAVES, MIDDLE, TOP = 16, 8, 4


@topologies.register("tree4")
def tree4() -> Topology:
    """BookSim2's tree of 64 NPUs: 16 leaves, 8 middle switches (two per pod), 4 top switches joined to all of them."""
    level = np.repeat([0, 1, 2], [LEAVES, MIDDLE, TOP])
    below = [(leaf, LEAVES + leaf // 4 * 2 + up) for leaf in range(LEAVES) for up in range(2)]
    above = [(LEAVES + middle, LEAVES + MIDDLE + top) for middle in range(MIDDLE) for top in range(TOP)]
    return graph_network(
        "tree4",
        np.arange(4 * LEAVES) // 4,
        below + above,
        {
            "nearest-common-ancestor": partial(nca, level=level, select="random"),
            "adaptive-nearest-common-ancestor": partial(nca, level=level, select="least"),
        },
        routers=LEAVES + MIDDLE + TOP,
        indirect=True,
        dims=[Dimension("leaf", 4), Dimension("pod", 4), Dimension("tree", 4)],
        kinds=["level1", "level2"],
        kind=[0] * len(below) + [1] * len(above),
        kind_dims=(1, 2),
        place=levels([LEAVES, MIDDLE, TOP]),
    )
