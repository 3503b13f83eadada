"""Dimension-order routing: one coordinate after the other (Dally and Towles, 8.4.2)."""

from pyxsim.registry import grid_routings
from pyxsim.routing import Relation, tie_random


@grid_routings.register("dimension-order", order=0, vc_classes="2 on rings, else 1")
def dimension_order(base: Relation) -> Relation:
    """Correct one coordinate after the other; of two equally short ways round a ring, draw one."""
    return tie_random(base)
