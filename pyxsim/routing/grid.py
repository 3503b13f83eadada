"""Relations derived from dimension order on grids: random ties, two dimension orders, balanced datelines of rings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.errors import InputError
from pyxsim.routing.planes import ROUTING, Plane, grid_only, plain_plane, plane, rebuilt, with_both
from pyxsim.routing.relation import SKIP, Relation, Way


def tie_random(base: Relation) -> Relation:
    """Return the base with one more plane, on which packets draw the direction of a tie in a ring.

    A tie is a destination at equal distance in both directions. The planes of the base differ in ties only (a ring:
    plane 0 takes +, plane 1 takes -) and are unchanged. A packet draws where it enters the dimension; afterwards one
    direction is shorter. Without ties this returns the base.
    """
    if base.planes < 2 or base.ways != (Way(0),):
        return base
    if (relation := with_both(base)) is not None:
        return relation
    planes = [plane(base, number) for number in range(base.planes)]
    return rebuilt(base, [*planes, _joined(planes, "tie-random")], ways=(Way(base.planes),))


def all_directions(base: Relation, what: str) -> Plane:
    """Return one plane with the candidates of all planes of the base, which must differ in ties only.

    Raises InputError; `what` names the routing in its message.
    """
    return _joined([plane(base, number) for number in range(base.planes)], what)


def xy_yx(base: Relation) -> Relation:
    """Packets draw ascending or descending dimension order with equal probability (O1TURN: Seo et al. 2005).

    Each order has its own VC classes, so the relation is deadlock-free if the base is.
    """
    return _two_orders(base, "random", "xy-yx")


def adaptive_xy_yx(base: Relation, draw_ties: bool = False) -> Relation:
    """Each packet corrects its digits in ascending or descending order, by the use of the first link at its source.

    `draw_ties`: of equally used links one is drawn; else it takes the ascending order.
    """
    return _two_orders(base, "least-drawn" if draw_ties else "least", "adaptive-xy-yx")


def _two_orders(base: Relation, choose: Literal["random", "least", "least-drawn"], what: str) -> Relation:
    grid_only(base, what)
    dims = base.digits.shape[1]
    if dims < 2:
        raise InputError(f"{what} requires at least two dimensions", key=ROUTING)
    base = tie_random(base)
    up = plane(base, plain_plane(base, what))
    # Columns 0 .. dims - 1 are the ascending order, columns dims - 1 .. 2 * dims - 2 the descending one.
    ascending_dims, descending_dims = list(range(dims)), list(range(dims - 2, -1, -1))
    ascending = _columns(up, [*ascending_dims, *descending_dims], range(dims))
    descending = _columns(up, [*ascending_dims, *descending_dims], range(dims - 1, 2 * dims - 1))
    by, changes = doubled(base)
    return rebuilt(
        base,
        [ascending, descending.raised(by)],
        digits=base.digits[:, [*ascending_dims, *descending_dims]],
        wrap=base.wrap[[*ascending_dims, *descending_dims]],
        stride=np.concatenate([base.stride, np.zeros(dims - 1, np.int32)]),
        separable=False,
        ways=(Way(0), Way(1)),
        choose=choose,
        **changes,
    )


def doubled(base: Relation) -> tuple[Int32Array, dict[str, object]]:
    """Double the VC classes of each link: return (offset of the upper half per link, changes of the relation)."""
    if not any(base.fixed_vcs):
        twice = (base.link_classes * 2).astype(np.int32)
        return base.link_classes, {"link_classes": twice, "fixed_vcs": (0,) * int(twice.max(initial=1))}
    # A class with a fixed number of VCs must have the same number on all links.
    both = np.full_like(base.link_classes, 2 * base.classes)
    return both // 2, {"link_classes": both, "fixed_vcs": base.fixed_vcs * 2}


def balanced(base: Relation) -> Relation:
    """Dimension order whose two classes in bidirectional rings have about equal load (datelines of Cray's T3E).

    A packet whose route in a ring crosses the end of the ring uses class 1; one that crosses its middle, class 0; one
    that crosses neither draws its class. A packet keeps its class within the ring. Class 1 is never used on the
    links across the middle and class 0 never on those across the end, so neither forms a cycle. (No route of at most
    half the ring crosses both.) Raises InputError if no dimension is such a ring.
    """
    grid_only(base, "dimension-order-balanced")
    base = tie_random(base)
    number = plain_plane(base, "dimension-order-balanced")
    moves = steps(base, plane(base, number))
    rings = [dim for dim, kind in enumerate(moves.kinds()) if kind == "ring"]
    if not rings:
        raise InputError("dimension-order-balanced requires a dimension that is a bidirectional ring", key=ROUTING)
    size, a, b = moves.size[moves.dim], moves.mine, moves.goal
    middle = (size - 1) // 2
    # The route covers `length` links i -> i + 1 from `low` on (or the opposite links).
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
    """The candidates of a plane as steps in a dimension.

    Attributes
    ----------
    plane
        The plane.
    size
        int64[dims], digits per dimension.
    dim, mine, goal
        int64[candidates]: dimension, digit of the router, digit of the destination.
    step
        int64[candidates]: difference of digits modulo the size, such as 1, or size - 1 for one down; -1: to or from a
        switch.
    """

    plane: Plane
    size: IntArray
    dim: IntArray
    mine: IntArray
    goal: IntArray
    step: IntArray

    def kinds(self) -> list[Kind]:
        """Return the kind of network in each dimension, by the links that this plane uses."""
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
    """Return the steps of the candidates of a plane of a grid."""
    size = relation.digits.max(axis=0, initial=0).astype(np.int64) + 1
    dim, mine, goal = at.digits(relation)
    next_digit = at.own[relation.link_dst[at.link], dim]
    at_switch = (mine < 0) | (next_digit < 0)
    step = np.where(at_switch, -1, (next_digit.astype(np.int64) - mine) % size[dim])
    return Steps(at, size, dim, mine.astype(np.int64), goal.astype(np.int64), step)


def _joined(planes: Sequence[Plane], what: str) -> Plane:
    first = planes[0]
    for other in planes[1:]:
        if not np.array_equal(first.own, other.own):
            raise InputError(f"{what} requires planes that serve the same dimensions", key=ROUTING)
        first = first.joined(other)
    return first


def _columns(at: Plane, source: Sequence[int], decide: Sequence[int]) -> Plane:
    """The plane with other columns: column i reads dimension source[i] if i is in `decide`, else it is skipped."""
    own = np.full((len(at.own), len(source)), SKIP, np.int32)
    offset = np.zeros((len(at.own), len(source)), np.int64)
    for column in decide:
        own[:, column], offset[:, column] = at.own[:, source[column]], at.offset[:, source[column]]
    return replace(at, own=own, offset=offset)
