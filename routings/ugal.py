"""UGAL-L: the minimal route or Valiant's, by the use at the source (Singh 2005)."""

from pyxsim_library.routings.minimal import minimal

from pyxsim.registry import graph_routings, grid_routings
from pyxsim.routing import Relation, ugal
from pyxsim.topology import Wires

grid_routings.register("ugal", order=70, adaptive=True, vc_classes="twice those of dimension-order")(ugal)


@graph_routings.register("ugal", order=40, adaptive=True, vc_classes="twice the diameter")
def ugal_of_graph(wires: Wires, bias: int = 0) -> Relation:
    """Choose at the source between `minimal` and Valiant's route; `bias` is added to the cost of the latter."""
    return ugal(minimal(wires), bias)
