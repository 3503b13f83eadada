"""The routing relation as digit tables: what the engine looks up, and what the deadlock proof is made from.

A destination is written in digits, one per dimension of the network (its coordinates). A router compares them, in
order, with its own: the first digit that differs decides. So a router of an `n0 x n1 x n2` torus needs
`n0 + n1 + n2` table entries and not `n0 * n1 * n2`, and dimension order needs no code. A table over whole
destinations, as any graph needs it, is the special case of one digit.

Several *planes* may share the links of a network: a plane is one such set of tables, and a packet keeps its plane.
A bidirectional ring has two, which differ only in the way round to the opposite node.

    at router r, plane p, for a packet to `dst`:
        for i, digit in enumerate(digits[dst]):
            mine = own[p * routers + r, i]
            if mine == SKIP or mine == digit:  continue          # nothing to do in this dimension
            entry = offset[p * routers + r, i] + digit
            take link[entry] in VC class vc_class[entry]         # (-1: there is no route)
        no digit left: the packet is at the router of its destination
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import UnreachableError

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.integer[Any]]

ALWAYS = -1  # in `own`: a switch, which has no digit of its own in this dimension, always decides
SKIP = -2  # in `own`: this router (of this plane) never decides in this dimension


@dataclass(frozen=True, eq=False)
class Relation:
    """Digit tables of one network, with the links that they speak of. NPU `i` is at router `i`.

    digits      int32[npus, nd]            the digits of each destination
    own         int32[planes * routers, nd]  the digits of each router, ALWAYS or SKIP
    offset      int64[planes * routers, nd]  where the entries of a router and dimension begin
    link        int32[entries]             link to take, -1 where there is none
    vc_class    int32[entries]             VC class on that link
    link_src, link_dst  int32[links]       routers at the ends of a link
    link_classes int32[links]              VC classes of a link
    link_group  int32[links]               -1, or a number: a packet that goes on in the same group keeps its class
    link_name   list[links]                for people
    separable   a hop decided by one digit leaves the others as they are, every combination of digits is an NPU, and
                links of different dimensions are in different groups: a proof by dimension is one for all pairs
    """

    npus: int
    routers: int
    planes: int
    digits: Ints
    own: Ints
    offset: Longs
    link: Ints
    vc_class: Ints
    link_src: Ints
    link_dst: Ints
    link_classes: Ints
    link_group: Ints
    link_name: Sequence[str]
    separable: bool = False

    def __repr__(self) -> str:
        return f"<Relation: {self.npus} NPUs, {self.routers} routers, {self.links} links, {self.planes} planes>"

    @property
    def links(self) -> int:
        return len(self.link_src)

    def decide(self, row: Longs, digits: Ints, dims: Sequence[int]) -> tuple[Ints, Ints, Flags]:
        """One decision for each of many packets: link (-1: none), VC class by the table, and who is at home.

        row     int64[n]       plane * routers + router
        digits  int32[n, m]    digits of the destination in the dimensions `dims`; other dimensions are left out
        """
        link = np.full(len(row), -1, np.int32)
        vc_class = np.zeros(len(row), np.int32)
        # Those who have not found a dimension to go in yet, by their place in `row`.
        waiting = np.arange(len(row))
        for column, dim in enumerate(dims):
            mine = self.own[row[waiting], dim]
            digit = digits[waiting, column]
            goes = (mine != SKIP) & (mine != digit)
            who = waiting[goes]
            entry = self.offset[row[who], dim] + digit[goes]
            link[who] = self.link[entry]
            vc_class[who] = self.vc_class[entry]
            waiting = waiting[~goes]
        home = np.zeros(len(row), np.bool_)
        home[waiting] = True
        return link, vc_class, home

    def keep(self, before: Ints, before_class: Ints, link: Ints, vc_class: Ints) -> Ints:
        """The classes really taken: a packet that stays in a group of links keeps the one it has.

        `before` is the link a packet comes by, -1 at its source.
        """
        group = self.link_group[link]
        stays = (before >= 0) & (group >= 0) & (self.link_group[before] == group)
        return np.where(stays, before_class, vc_class).astype(np.int32)

    def next_hop(self, router: int, dst: int, plane: int = 0) -> tuple[int, int] | None:
        """(link, VC class by the table) at a router, None at the destination. Raises UnreachableError."""
        row = plane * self.routers + router
        for dim, digit in enumerate(self.digits[dst].tolist()):
            mine = self.own[row, dim]
            if mine in (SKIP, digit):
                continue
            entry = self.offset[row, dim] + digit
            if self.link[entry] < 0:
                raise UnreachableError(f"plane {plane} has no route from router {router} to NPU {dst}")
            return int(self.link[entry]), int(self.vc_class[entry])
        if router != dst:
            raise UnreachableError(f"plane {plane} has no route to NPU {dst} that passes router {router}")
        return None

    def route(self, src: int, dst: int, plane: int = 0) -> list[tuple[int, int]]:
        """Every (link, VC class) that a packet takes, in order, after the keep rule. Raises UnreachableError."""
        hops: list[tuple[int, int]] = []
        router = src
        while (hop := self.next_hop(router, dst, plane)) is not None:
            link, vc_class = hop
            if hops:
                group = self.link_group[link]
                if group >= 0 and self.link_group[hops[-1][0]] == group:
                    vc_class = hops[-1][1]
            hops.append((link, vc_class))
            router = int(self.link_dst[link])
            # The next hop depends on nothing but the router, so a router seen twice is a circle.
            if len(hops) > self.routers:
                raise UnreachableError(f"plane {plane}: a packet from NPU {src} to NPU {dst} goes round in a circle")
        return hops
