"""Planar-adaptive routing on meshes (Chien and Kim 1992): adaptive within two dimensions at a time."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyxsim.errors import InputError
from pyxsim.registry import grid_routings
from pyxsim.routing import EACH, Relation
from pyxsim.topology import Wires
from pyxsim.topology.routings import Kind

DIMENSIONS = ("any", "first")


def _is_mesh(base: Relation, kinds: Sequence[Kind]) -> bool:
    """Lines in two dimensions or more, with an NPU at each router."""
    return len(kinds) > 1 and set(kinds) == {"line"} and np.array_equal(base.home, np.arange(base.routers))


@grid_routings.register(
    "planar-adaptive",
    order=45,
    adaptive=True,
    networks="meshes of two dimensions or more with one NPU per router",
    applies=_is_mesh,
    vc_classes="3",
)
def planar_adaptive(base: Relation, plane_vcs: int = 0, dimensions: str = "any") -> Relation:
    """Let a packet take the first dimension in which it must move, or the next one, whichever has a free VC.

    VC class 2 serves the first dimension of such a plane, class 0 the second while the packet moves up in the first,
    and class 1 while it moves down. `plane_vcs`: VCs of classes 0 and 1; 0: a third each. `dimensions`: "first"
    leaves only the first dimension, as BookSim2 does, which drops the second of two outputs of equal priority.
    """
    if dimensions not in DIMENSIONS:
        key = "network.router.routing_options.dimensions"
        raise InputError(f"unknown value '{dimensions}'", key=key, allowed=list(DIMENSIONS), given=dimensions)
    wires = Wires(base.routers, base.home, base.link_src, base.link_dst, base.link_name)
    here, there = base.digits[base.link_src], base.digits[base.link_dst]
    dim = np.argmax(here != there, axis=1)
    links = np.arange(base.links)
    step = there[links, dim] - here[links, dim]
    ahead = base.digits[None, :, :] - here[:, None, :]  # [links, homes, dims]: what the packet has still to go
    first = np.argmax(ahead != 0, axis=2)
    mine = np.sign(np.take_along_axis(ahead, dim[:, None, None], axis=2)[:, :, 0]) == np.sign(step)[:, None]
    second = (dim[:, None] == first + 1) & (dimensions == "any")
    allowed = mine & ((dim[:, None] == first) | second)
    down = np.take_along_axis(ahead, first[:, :, None], axis=2)[:, :, 0] < 0
    relation = wires.relation(allowed, np.where(second, down.astype(np.int32), 2), classes=3)
    return replace(relation, plane_select=np.full(relation.planes, EACH, np.int32), fixed_vcs=(plane_vcs, plane_vcs, 0))
