"""Dimension order with a VC class for every output of the next router: no packet waits behind one for another output.

Virtual output queues one router ahead, BookSim2's `noq`; it needs lookahead routing to be built.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pyxsim.registry import grid_routings
from pyxsim.routing import Relation
from pyxsim.topology import Wires
from pyxsim.topology.routings import Kind


def _is_mesh(base: Relation, kinds: Sequence[Kind]) -> bool:
    """Lines, with an NPU at each router."""
    return set(kinds) == {"line"} and np.array_equal(base.home, np.arange(base.routers))


@grid_routings.register(
    "next-output",
    order=15,
    networks="meshes with one NPU per router",
    applies=_is_mesh,
    vc_classes="2 n + 1 with n dimensions",
)
def next_output(base: Relation, class_vcs: int = 0) -> Relation:
    """Take the shortest path in dimension order, on VCs that belong to the output which the packet takes next.

    VC class `2 d` is for the next hop up in dimension `d`, `2 d + 1` down, the last one for the ejection. `class_vcs`:
    VCs of each class; 0: an even share of all.
    """
    wires = Wires(base.routers, base.home, base.link_src, base.link_dst, base.link_name)
    here, there = base.digits[base.link_src], base.digits[base.link_dst]
    dim = np.argmax(here != there, axis=1)
    step = np.take_along_axis(there - here, dim[:, None], axis=1)
    first, sign = _next_move(base, here)
    then, turn = _next_move(base, there)
    allowed = (dim[:, None] == first) & (np.sign(step) == sign)
    classes = 2 * base.digits.shape[1] + 1
    next_class = np.where(turn == 0, classes - 1, 2 * then + (turn < 0))
    return replace(wires.relation(allowed, next_class, classes=classes), fixed_vcs=(class_vcs,) * classes)


def _next_move(base: Relation, router: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(dimension, sign) of the next move from the digits of a router to every NPU; sign 0: it is there."""
    ahead = base.digits[None, :, :] - router[:, None, :]
    first = np.argmax(ahead != 0, axis=2)
    return first, np.sign(np.take_along_axis(ahead, first[:, :, None], axis=2)[:, :, 0])
