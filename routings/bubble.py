"""Dimension-order routing with bubble flow control in rings, in place of datelines."""

from collections.abc import Sequence

from pyxsim.registry import grid_routings
from pyxsim.routing import Relation, bubble
from pyxsim.topology.routings import Kind


def _has_a_ring(base: Relation, kinds: Sequence[Kind]) -> bool:
    return "ring" in kinds or "one-way ring" in kinds


grid_routings.register("bubble", order=15, networks="grids with a ring", applies=_has_a_ring, vc_classes="1")(bubble)
