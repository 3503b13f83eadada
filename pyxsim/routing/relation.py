"""The routing relation as digit tables: the engine reads them, and the deadlock proof is derived from them.

A destination has digits, one per dimension of the network (its coordinates). A router compares them, in order, with
its own: the first digit that differs decides. A router of an `n0 x n1 x n2` torus therefore has `n0 + n1 + n2` table
entries instead of `n0 * n1 * n2`, and dimension order needs no code. A table over destinations, for any graph, is the
special case of one digit.

Several *planes* may share the links of a network: a plane is one such set of tables, and a packet keeps its plane.
A bidirectional ring has two, which differ only in the direction to the opposite node.

    at router r, plane p, for a packet to `dst`:
        for i, digit in enumerate(digits[dst]):
            mine = own[p * routers + r, i]
            if mine == SKIP or mine == digit:  continue          # nothing to do in this dimension
            entry = offset[p * routers + r, i] + digit
            take link[entry] in VC class vc_class[entry]         # (-1: no route, <= -2: one of a set)
        no digit differs: the packet is at the router of its destination

An entry is one link or a *set* of candidates; on a plane that is *any*, every digit that differs contributes
candidates. How a candidate is chosen is a property of the plane. Route options (*ways*) choose the plane and may
lead a packet over an intermediate NPU (Valiant). docs/router.md defines how a router uses the relation,
docs/routing.md lists the relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.errors import InputError, UnreachableError
from pyxsim.routing.product_table import FIRST_SET, NONE, ProductTable

ALWAYS = -1  # in `own`: a switch, which has no digit in this dimension, always decides
SKIP = -2  # in `own`: this router (of this plane) never decides in this dimension

# How one of several candidates is chosen: `plane_select`.
RANDOM, LEAST, TWO, EACH, WEIGHTED = range(5)


def _ints() -> Int32Array:
    return np.zeros(0, np.int32)


def _longs() -> IntArray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Way:
    """A route option: on plane `last`; with a via, on plane `first` to the via, then on plane `last`.

    `via` is "none", "any" (any NPU: Valiant), "box" (an NPU between source and destination: ROMM) or "aligned" (an NPU
    with the digits in which they agree). `bias` is added to the cost of this option where the cheapest one is chosen.
    """

    last: int
    first: int = -1
    via: Literal["none", "any", "box", "aligned"] = "none"
    bias: int = 0


@dataclass(frozen=True, eq=False)
class Relation:
    """Digit tables of one network, with its links.

    Attributes
    ----------
    npus, routers, planes
        Numbers of NPUs, routers and planes.
    digits
        int32[npus, nd], the digits of each destination.
    own
        int32[planes * routers, nd], the digits of each router, ALWAYS or SKIP.
    offset
        int64[planes * routers, nd], the first entry of a router and dimension.
    link
        int32[entries], link to take, NONE, or FIRST_SET - s for one of set s.
    vc_class
        int32[entries], VC class on that link. In a product both are computed when they are read.
    link_src, link_dst
        int32[links], routers at the ends of a link.
    link_classes
        int32[links], VC classes of a link.
    link_group
        int32[links], -1, or a number: a packet that stays in the same group keeps its class.
    link_name
        list[links], for messages.
    separable
        Whether a hop decided by one digit leaves the others unchanged, every combination of digits is an NPU, and links
        of different dimensions are in different groups: a proof by dimension then holds for all pairs.
    home
        int32[npus], the router of each NPU; default: NPU i is at router i.
    entry
        int32[npus], the router at which the packets of each NPU start, where that is not `home`; else empty.
    set_start
        int64[sets + 1], the first member of each candidate set.
    set_link, set_class
        int32[members], links and VC classes of the candidates.
    set_weight
        int32[members], shares of packets on WEIGHTED planes, in units of each set; empty without such a plane.
    plane_any
        int32[planes], 1: every digit that differs contributes candidates, not only the first.
    plane_select
        int32[planes], RANDOM, LEAST, TWO, EACH or WEIGHTED.
    plane_escape
        int32[planes], with EACH the plane whose candidates follow, or -1.
    plane_sticky
        int32[planes], 1: a packet with a VC of an escape candidate stays on the escape plane.
    plane_equal
        int32[planes], 1: escape candidates have the same priority as the others in a matrix allocator.
    ways
        Route options of packets that are sent without a plane.
    choose
        "random", "least" or "least-drawn" (of equals by a draw): how one of several route options is chosen.
    wrap
        int32[nd], the modulus of a digit in a ring, else 0 (for vias in a box).
    early
        Whether a packet that comes by the router of its destination leaves there, before it was at its via.
    stride
        int32[nd], NPU = sum(digit * stride) if the NPUs form a grid (for vias in a box).
    fixed_vcs
        VCs of each VC class on a link; 0: an even share of the rest.
    bubble
        Whether packets enter a group of links by bubble flow control: only a VC with a slot more than their flits, and
        keep the VC within the group.
    ranks
        int32[routers], where packets go up and then down: links up lead to lower ranks. Else empty.
    """

    npus: int
    routers: int
    planes: int
    digits: Int32Array
    own: Int32Array
    offset: IntArray
    link: Int32Array | ProductTable
    vc_class: Int32Array | ProductTable
    link_src: Int32Array
    link_dst: Int32Array
    link_classes: Int32Array
    link_group: Int32Array
    link_name: Sequence[str]
    separable: bool = False
    home: Int32Array = field(default_factory=_ints)
    entry: Int32Array = field(default_factory=_ints)
    set_start: IntArray = field(default_factory=_longs)
    set_link: Int32Array = field(default_factory=_ints)
    set_class: Int32Array = field(default_factory=_ints)
    set_weight: Int32Array = field(default_factory=_ints)
    plane_any: Int32Array = field(default_factory=_ints)
    plane_select: Int32Array = field(default_factory=_ints)
    plane_escape: Int32Array = field(default_factory=_ints)
    plane_sticky: Int32Array = field(default_factory=_ints)
    plane_equal: Int32Array = field(default_factory=_ints)
    ways: tuple[Way, ...] = (Way(0),)
    choose: Literal["random", "least", "least-drawn"] = "random"
    early: bool = False
    wrap: Int32Array = field(default_factory=_ints)
    stride: Int32Array = field(default_factory=_ints)
    fixed_vcs: tuple[int, ...] = ()
    bubble: bool = False
    ranks: Int32Array = field(default_factory=_ints)

    def __post_init__(self) -> None:
        """Replace empty arrays by their defaults."""
        self._default("home", np.arange(self.npus))
        self._default("set_start", np.zeros(1))
        for name, value in (("any", 0), ("select", RANDOM), ("escape", -1), ("sticky", 0), ("equal", 0)):
            self._default(f"plane_{name}", np.full(self.planes, value))
        self._default("wrap", np.zeros(self.digits.shape[1]))
        self._default("stride", _strides(self.digits))
        if not self.fixed_vcs:
            object.__setattr__(self, "fixed_vcs", (0,) * int(self.link_classes.max(initial=1)))

    def _default(self, name: str, value: NDArray[Any]) -> None:
        if not len(getattr(self, name)):
            object.__setattr__(self, name, value.astype(np.int64 if name == "set_start" else np.int32))

    def __repr__(self) -> str:
        return f"<Relation: {self.npus} NPUs, {self.routers} routers, {self.links} links, {self.planes} planes>"

    @property
    def starts(self) -> Int32Array:
        """int32[npus]: the router at which the packets of each NPU start."""
        return self.entry if len(self.entry) else self.home

    @property
    def links(self) -> int:
        """The number of links."""
        return len(self.link_src)

    @property
    def sets(self) -> int:
        """The number of sets of links."""
        return len(self.set_start) - 1

    @property
    def classes(self) -> int:
        """Largest number of VC classes of a link."""
        return int(self.link_classes.max(initial=1))

    @property
    def deterministic(self) -> bool:
        """Whether each packet has one route: one route option without a via, no sets, one digit decides."""
        return len(self.ways) == 1 and self.ways[0].via == "none" and not self.sets and not self.plane_any.any()

    def candidates(self, entry: int) -> list[tuple[int, int]]:
        """Return (link, VC class) of each candidate of a table entry, in order."""
        link = int(self.link[entry])
        if link >= 0:
            return [(link, int(self.vc_class[entry]))]
        if link == NONE:
            return []
        part = slice(int(self.set_start[FIRST_SET - link]), int(self.set_start[FIRST_SET - link + 1]))
        return list(zip(self.set_link[part].tolist(), self.set_class[part].tolist(), strict=True))

    def keep(self, before: Int32Array, before_class: Int32Array, link: Int32Array, vc_class: Int32Array) -> Int32Array:
        """Return the VC classes that packets take: a packet that stays in a group of links keeps its class.

        `before` is the incoming link of a packet, -1 at its source; `before_class` its class there.
        """
        group = self.link_group[link]
        stays = (before >= 0) & (group >= 0) & (self.link_group[before] == group)
        return np.where(stays, before_class, vc_class).astype(np.int32)

    def next_hop(self, router: int, dst: int, plane: int = 0) -> tuple[int, int] | None:
        """Return (link, VC class of the table) at a router, None at the destination. Raises UnreachableError.

        Of several candidates it returns the first, in the first digit that differs and has one.
        """
        if router == self.home[dst]:
            return None
        row = plane * self.routers + router
        differs = False
        for dim, digit in enumerate(self.digits[dst].tolist()):
            if self.own[row, dim] in (SKIP, digit):
                continue
            differs = True
            if candidates := self.candidates(int(self.offset[row, dim] + digit)):
                return candidates[0]
            if not self.plane_any[plane]:
                break
        if differs:
            raise UnreachableError(f"plane {plane} has no route from router {router} to NPU {dst}")
        raise UnreachableError(f"plane {plane} has no route to NPU {dst} that passes router {router}")

    def route(self, src: int, dst: int, plane: int = 0) -> list[tuple[int, int]]:
        """Return the (link, VC class) of each hop of a packet, with the keep rule. Raises UnreachableError.

        Plane -1 is that of the first route option, without its via. Of several routes it returns that of `next_hop`.
        """
        plane = self.ways[0].last if plane < 0 else plane
        hops: list[tuple[int, int]] = []
        router = int(self.starts[src])
        while (hop := self.next_hop(router, dst, plane)) is not None:
            link, vc_class = hop
            if hops:
                group = self.link_group[link]
                if group >= 0 and self.link_group[hops[-1][0]] == group:
                    vc_class = hops[-1][1]
            hops.append((link, vc_class))
            router = int(self.link_dst[link])
            # The next hop depends on the router only, so a route that visits a router twice is a cycle.
            if len(hops) > self.routers:
                raise UnreachableError(f"plane {plane}: the route from NPU {src} to NPU {dst} contains a cycle")
        return hops


def vc_ranges(vcs: int, classes: int, fixed: Sequence[int] = (), shared: bool = False) -> tuple[Int32Array, Int32Array]:
    """Return the VCs [low, high) of each class on a link with `vcs` VCs (of one virtual network).

    `fixed` is the number of VCs of each class; 0 or missing: an even share of the remaining VCs. The ranges are in the
    order of the classes. `shared`: VCs that the classes cannot divide evenly belong to all of them, in the middle.
    Raises InputError if a class has none.
    """
    exact = np.zeros(classes, np.int64)
    given = np.asarray(fixed[:classes], np.int64)
    exact[: len(given)] = given
    shares = exact == 0
    sharing = int(shares.sum())
    remaining = vcs - int(exact.sum())
    if vcs < 1 or remaining < sharing:
        raise InputError(
            f"{vcs} VCs are too few for the VC classes of the routing",
            key="network.router.vcs",
            allowed=f"at least {max(1, int(exact.sum()) + sharing)}",
        )
    if shared and sharing == classes:
        first = np.arange(classes) * (vcs // classes)
        return first.astype(np.int32), (vcs - first[::-1]).astype(np.int32)
    parts = np.arange(sharing + 1) * remaining // max(sharing, 1)
    exact[shares] = np.diff(parts)
    high = np.cumsum(exact)
    return (high - exact).astype(np.int32), high.astype(np.int32)


def _strides(digits: Int32Array) -> Int32Array:
    """The strides of a grid with dimension 0 first if the NPUs are numbered so, else zeros."""
    size = digits.max(axis=0, initial=0).astype(np.int64) + 1
    stride: IntArray = np.cumprod(size) // size
    if not np.array_equal(digits @ stride, np.arange(len(digits))):
        stride[:] = 0
    return stride.astype(np.int32)
