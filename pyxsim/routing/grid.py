"""Dimension order on grids and what is made of it: random ties, two orders, the balanced dateline classes of rings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.errors import InputError
from pyxsim.routing.planes import ROUTING, Plane, grid_only, plain_plane, plane, rebuilt
from pyxsim.routing.relation import SKIP, Relation, Way


def tie_random(base: Relation) -> Relation:
    """One more plane, on which a packet that may go round a ring either way draws which; packets take it as their way.

    The planes of the base differ in such ties only (a ring: plane 0 goes by +, plane 1 by -); they stay as they are.
    The draw is made where the packet turns into the dimension: from there on one way is shorter. Without ties the base
    itself comes back.
    """
    if base.planes < 2 or base.ways != (Way(0),):
        return base
    planes = [plane(base, number) for number in range(base.planes)]
    return rebuilt(base, [*planes, _joined(planes, "random ties")], ways=(Way(base.planes),))


def all_ways_round(base: Relation, what: str) -> Plane:
    """One plane with the candidates of all planes of the base, which must differ in ties only. Raises InputError."""
    return _joined([plane(base, number) for number in range(base.planes)], what)


def xy_yx(base: Relation) -> Relation:
    """Half of the packets correct their digits in ascending order, half in descending order (O1TURN: Seo et al. 2005).

    Each order has VC classes of its own, so it is as free of deadlock as the base.
    """
    return _two_orders(base, "random", "xy-yx")


def adaptive_xy_yx(base: Relation) -> Relation:
    """Each packet corrects its digits in ascending or descending order, by the use of the first link at its source."""
    return _two_orders(base, "least", "adaptive-xy-yx")


def _two_orders(base: Relation, choose: Literal["random", "least"], what: str) -> Relation:
    grid_only(base, what)
    dims = base.digits.shape[1]
    if dims < 2:
        raise InputError(f"{what} needs two dimensions at least: there is one order only", key=ROUTING)
    base = tie_random(base)
    up = plane(base, plain_plane(base, what))
    # Columns 0 .. dims - 1 are the ascending order, columns dims - 1 .. 2 * dims - 2 the descending one.
    there, back = list(range(dims)), list(range(dims - 2, -1, -1))
    ascending = _columns(up, [*there, *back], range(dims))
    descending = _columns(up, [*there, *back], range(dims - 1, 2 * dims - 1))
    by, changes = doubled(base)
    return rebuilt(
        base,
        [ascending, descending.raised(by)],
        digits=base.digits[:, [*there, *back]],
        wrap=base.wrap[[*there, *back]],
        stride=np.concatenate([base.stride, np.zeros(dims - 1, np.int32)]),
        separable=False,
        ways=(Way(0), Way(1)),
        choose=choose,
        **changes,
    )


def doubled(base: Relation) -> tuple[Int32Array, dict[str, object]]:
    """(by how much a class is raised in the upper half, changes of the relation): twice the VC classes on each link."""
    if not any(base.fixed_vcs):
        twice = (base.link_classes * 2).astype(np.int32)
        return base.link_classes, {"link_classes": twice, "fixed_vcs": (0,) * int(twice.max(initial=1))}
    # Class numbers that have a number of VCs must mean the same on all links.
    both = np.full_like(base.link_classes, 2 * base.classes)
    return both // 2, {"link_classes": both, "fixed_vcs": base.fixed_vcs * 2}


def balanced(base: Relation) -> Relation:
    """Bidirectional rings whose two classes are used about evenly: "partition" datelines, as Cray's T3E had them.

    A packet whose way round a ring crosses the end is in class 1, one that crosses the middle of the ring in class 0,
    both as long as it stays in the ring; one that crosses neither draws its class. Class 1 is never used on the links
    over the middle, class 0 never on those over the end: no class closes a circle. (No way of at most half the ring
    crosses both.) Raises InputError where no dimension is such a ring.
    """
    grid_only(base, "dimension-order-balanced")
    base = tie_random(base)
    number = plain_plane(base, "dimension-order-balanced")
    moves = steps(base, plane(base, number))
    rings = [dim for dim, kind in enumerate(moves.kinds()) if kind == "ring"]
    if not rings:
        raise InputError("dimension-order-balanced needs a bidirectional ring in some dimension", key=ROUTING)
    size, a, b = moves.size[moves.dim], moves.mine, moves.goal
    middle = (size - 1) // 2
    # The way covers the links i -> i + 1 from `low` on, `length` of them (those back are the same ones, turned round).
    low = np.where(moves.step == 1, a, b)
    length = np.where(moves.step == 1, b - a, a - b) % size
    over_end, over_middle = ((edge - low) % size < length for edge in (size - 1, middle))
    in_ring = np.isin(moves.dim, rings)
    draws = in_ring & ~over_end & ~over_middle
    vc_class = np.where(in_ring, over_end, moves.plane.vc_class).astype(np.int32)
    entry = moves.plane.entry
    even = moves.plane.with_candidates(
        np.concatenate([entry, entry[draws]]),
        np.concatenate([moves.plane.link, moves.plane.link[draws]]),
        np.concatenate([vc_class, np.ones(int(draws.sum()), np.int32)]),
    )
    link_classes, link_group = base.link_classes.copy(), base.link_group.copy()
    ring_links = moves.plane.link[in_ring]
    link_classes[ring_links] = 2
    link_group[ring_links] = moves.dim[in_ring]
    return rebuilt(
        base,
        [even],
        ways=(Way(0),),
        link_classes=link_classes,
        link_group=link_group,
        fixed_vcs=(0,) * int(link_classes.max(initial=1)),
    )


Kind = Literal["line", "ring", "one-way ring", "other"]


@dataclass(frozen=True, eq=False)
class Steps:
    """Where the candidates of a plane lead: from digit `mine` of dimension `dim`, on the way to `goal`, by `step`.

    `step` is counted upward, modulo the size: 1, or size - 1 for one down. -1: to a switch, or from one.
    """

    plane: Plane
    size: IntArray
    dim: IntArray
    mine: IntArray
    goal: IntArray
    step: IntArray

    def kinds(self) -> list[Kind]:
        """How the NPUs of each dimension are joined, as far as this plane uses it."""
        return [self._kind(dim) for dim in range(len(self.size))]

    def _kind(self, dim: int) -> Kind:
        n = int(self.size[dim])
        at = (self.dim == dim) & (self.mine != self.goal)
        up, down = (self.goal[at] - self.mine[at]) % n, (self.mine[at] - self.goal[at]) % n
        step = self.step[at]
        if np.array_equal(step, np.where(self.goal[at] > self.mine[at], 1, n - 1)) and n != 2:
            return "line"
        if (((step == 1) & (up <= down)) | ((step == n - 1) & (down <= up))).all():
            return "ring"
        return "one-way ring" if (step == 1).all() else "other"


def steps(relation: Relation, at: Plane) -> Steps:
    """Where the candidates of a plane of a grid lead."""
    size = relation.digits.max(axis=0, initial=0).astype(np.int64) + 1
    dim, mine, goal = at.digits(relation)
    there = at.own[relation.link_dst[at.link], dim]
    between = (mine < 0) | (there < 0)
    step = np.where(between, -1, (there.astype(np.int64) - mine) % size[dim])
    return Steps(at, size, dim, mine.astype(np.int64), goal.astype(np.int64), step)


def _joined(planes: Sequence[Plane], what: str) -> Plane:
    first = planes[0]
    for other in planes[1:]:
        if not np.array_equal(first.own, other.own):
            raise InputError(f"{what} need planes that serve the same dimensions", key=ROUTING)
        first = first.joined(other)
    return first


def _columns(at: Plane, source: Sequence[int], decide: Sequence[int]) -> Plane:
    """The same entries under other columns: column i looks at dimension source[i], if it is one of `decide`."""
    own = np.full((len(at.own), len(source)), SKIP, np.int32)
    offset = np.zeros((len(at.own), len(source)), np.int64)
    for column in decide:
        own[:, column], offset[:, column] = at.own[:, source[column]], at.offset[:, source[column]]
    return replace(at, own=own, offset=offset)
