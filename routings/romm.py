"""ROMM: through an NPU drawn from the box between source and destination (Nesson and Johnsson 1995)."""

from collections.abc import Sequence

from pyxsim.registry import grid_routings
from pyxsim.routing import Relation, romm
from pyxsim.topology.routings import Kind


def _has_boxes(base: Relation, kinds: Sequence[Kind]) -> bool:
    """Every point of a box is an NPU, named by its digits."""
    return set(kinds) <= {"ring", "line"} and bool(base.stride.any() or base.npus == 1)


grid_routings.register(
    "romm",
    order=60,
    networks="grids of rings and lines with one NPU per router",
    applies=_has_boxes,
    vc_classes="twice those of dimension-order",
)(romm)
