"""All shortest paths, with a VC class per hop (Gunther 1981)."""

import numpy as np

from pyxsim.registry import graph_routings
from pyxsim.routing import Relation
from pyxsim.routing.graph import FAR, shortest
from pyxsim.topology import Wires


@graph_routings.register("minimal", order=10, vc_classes="the diameter")
def minimal(wires: Wires, select: str = "random") -> Relation:
    """Take any shortest path; the VC class counts the hops, so no packet waits for one that has more hops to go.

    A link with n more hops behind it is in class (diameter - 1 - n): classes only grow (Gunther 1981).
    """
    away = wires.distances()
    diameter = max(1, int(away[wires.homes].max()))
    if diameter >= FAR:
        shortest(wires)  # raises: some pair is unreachable
    # Routers farther off than any with an NPU are on no route.
    level = np.maximum(diameter - away[wires.src], 0)
    return wires.relation(wires.shortest(), level, classes=diameter, select=select)
