"""Minimal adaptive routing with an escape: dimension order in grids (Duato), up*/down* in graphs (Silla and Duato)."""

from collections.abc import Sequence

from pyxsim.registry import graph_routings, grid_routings
from pyxsim.routing import ALWAYS, Relation, adaptive_up_down, minimal_adaptive
from pyxsim.topology.routings import Kind


def _has_an_escape(base: Relation, kinds: Sequence[Kind]) -> bool:
    """Over switches no escape keeps the order of the dimensions."""
    return len(kinds) == 1 or not (base.own == ALWAYS).any()


grid_routings.register(
    "minimal-adaptive",
    order=40,
    adaptive=True,
    networks="grids without switches, or of one dimension",
    applies=_has_an_escape,
    vc_classes="those of dimension-order, and 1",
)(minimal_adaptive)
graph_routings.register("minimal-adaptive", order=20, adaptive=True, vc_classes="2")(adaptive_up_down)
