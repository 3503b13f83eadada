"""One shortest path for each pair."""

from pyxsim.registry import graph_routings
from pyxsim.routing import Relation
from pyxsim.routing.graph import shortest
from pyxsim.topology import Wires


@graph_routings.register("table", order=50, vc_classes="1; can deadlock")
def table(wires: Wires) -> Relation:
    """Take one shortest path, by the first listed link of equals, without VC classes: it may be able to deadlock."""
    return shortest(wires, "first")
