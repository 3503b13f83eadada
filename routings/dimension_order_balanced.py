"""Dimension-order routing with balanced datelines, as in Cray's T3E."""

from collections.abc import Sequence

from pyxsim.registry import grid_routings
from pyxsim.routing import Relation, balanced
from pyxsim.topology.routings import Kind


def _has_a_ring(base: Relation, kinds: Sequence[Kind]) -> bool:
    return "ring" in kinds


grid_routings.register(
    "dimension-order-balanced", order=10, networks="grids with a ring", applies=_has_a_ring, vc_classes="2"
)(balanced)
