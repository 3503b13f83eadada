"""Valiant's algorithm: through an NPU drawn from all (Valiant and Brebner 1981)."""

from pyxsim_library.routings.minimal import minimal

from pyxsim.registry import graph_routings, grid_routings
from pyxsim.routing import Relation, valiant
from pyxsim.topology import Wires

grid_routings.register("valiant", order=50, vc_classes="twice those of dimension-order")(valiant)


@graph_routings.register("valiant", order=30, vc_classes="twice the diameter")
def valiant_of_graph(wires: Wires) -> Relation:
    """Send each packet to an NPU drawn from all, then to its destination, by `minimal`."""
    return valiant(minimal(wires))
