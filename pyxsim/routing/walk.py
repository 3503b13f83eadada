"""Walks many packets through a routing relation at once, hop by hop, with numpy: for the deadlock proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pyxsim.errors import UnreachableError
from pyxsim.routing.relation import ALWAYS, SKIP, Ints, Longs, Relation

# Packets walked together: enough to keep numpy busy, few enough for its temporaries to stay in the cache of a core.
BATCH = 1 << 18


@dataclass(frozen=True, eq=False)
class Hop:
    """One hop of those packets that still move: their numbers, the channel each came by (-1: none), and the next."""

    walker: Longs
    before: Ints
    before_class: Ints
    link: Ints
    vc_class: Ints


class Walk:
    """Packets with a router to start from, a plane and the digits of their destination in some dimensions.

    Iterating yields one `Hop` after the other until all have arrived. `router`, `link` and `vc_class` say where each
    packet is, by which link it came and in which class (-1: not moved). `dst` names the destinations where they are
    NPUs rather than single digits; then an arrival elsewhere is an error. `merge` may be set when every NPU sends to
    each of the destinations: a packet that goes on from an NPU exactly like the one which starts there is followed
    no further (and counts in `merged`). Every hop is seen all the same, but no longer once for each packet, and
    routes that go round in a circle are not noticed.
    """

    def __init__(
        self,
        relation: Relation,
        src: Ints,
        plane: Ints,
        digits: Ints,
        dims: Sequence[int],
        *,
        dst: Ints | None = None,
        merge: bool = False,
    ) -> None:
        self.relation = relation
        self.src, self.plane, self.digits, self.dims = src, plane, digits, dims
        self.dst = dst
        self.merge = merge
        self.merged = np.zeros(len(src), np.bool_)
        self.router = relation.home[src]
        self.link = np.full(len(src), -1, np.int32)
        self.vc_class = np.full(len(src), -1, np.int32)

    def __iter__(self) -> Iterator[Hop]:
        relation = self.relation
        moving = np.arange(len(self.src))
        # The next hop depends on nothing but the router, so a route that passes more routers than exist is a circle.
        for _ in range(relation.routers + 1):
            row = self.plane[moving].astype(np.int64) * relation.routers + self.router[moving]
            link, vc_class, home = relation.decide(row, self.digits[moving], self.dims)
            if self.dst is not None:
                home |= self.router[moving] == relation.home[self.dst[moving]]
            away = ~home
            self._refuse(moving[away][link[away] < 0], "there is no route")
            moving, link, vc_class = moving[away], link[away], vc_class[away]
            if not len(moving):
                break
            before, before_class = self.link[moving], self.vc_class[moving]
            kept = relation.keep(before, before_class, link, vc_class)
            yield Hop(moving, before, before_class, link, kept)
            if self.merge:
                same = (before >= 0) & (self.router[moving] < relation.npus) & (kept == vc_class)
                self.merged[moving[same]] = True
                moving, link, kept = moving[~same], link[~same], kept[~same]
            self.link[moving], self.vc_class[moving] = link, kept
            self.router[moving] = relation.link_dst[link]
        self._refuse(moving, "the route goes round in a circle")
        if self.dst is not None:
            elsewhere = (self.router != relation.home[self.dst]) & ~self.merged
            self._refuse(np.flatnonzero(elsewhere), "the route ends at another NPU")

    def _refuse(self, who: Longs, why: str) -> None:
        if not len(who):
            return
        first = int(who[0])
        src, router = int(self.src[first]), int(self.router[first])
        if self.dst is not None:
            dst = int(self.dst[first])
        else:
            # Single digits: the destination meant is the source with those digits exchanged.
            wanted = self.relation.digits[src].copy()
            wanted[list(self.dims)] = self.digits[first]
            dst = int(np.flatnonzero((self.relation.digits == wanted).all(axis=1))[0])
        place = "" if router == src else f" at router {router}"
        raise UnreachableError(f"plane {self.plane[first]}: NPU {src} cannot reach NPU {dst}: {why}{place}")


def pair_walks(relation: Relation, src: Ints, dst: Ints, plane: Ints, *, merge: bool = False) -> Iterator[Walk]:
    """The given pairs on the given planes, in batches."""
    dims = range(relation.digits.shape[1])
    for begin in range(0, len(src), BATCH):
        part = slice(begin, begin + BATCH)
        yield Walk(relation, src[part], plane[part], relation.digits[dst[part]], dims, dst=dst[part], merge=merge)


def all_walks(relation: Relation, *, merge: bool = False) -> Iterator[Walk]:
    """All pairs (a node to itself included) on all planes; in a separable relation dimension by dimension.

    There, the walk in dimension `i` from router `r` to digit `d` is the same for every pair that comes to `r` with the
    digits before `i` corrected. That makes `npus * sum(n_i)` walks instead of `npus ** 2`. `merge`: see `Walk`.
    """
    if relation.separable:
        for dim in range(relation.digits.shape[1]):
            yield from _digit_walks(relation, dim, merge)
        return
    npus = np.arange(relation.npus, dtype=np.int32)
    rows = max(1, BATCH // relation.npus)
    for plane in range(relation.planes):
        for begin in range(0, relation.npus, rows):
            dst = np.repeat(npus[begin : begin + rows], relation.npus)
            src = np.tile(npus, len(dst) // relation.npus)
            yield from pair_walks(relation, src, dst, np.full(len(src), plane, np.int32), merge=merge)


def check_routes(relation: Relation, *, circles: bool = False) -> None:
    """Raise UnreachableError where the tables have no route for a pair, or, if asked for, a route without an end."""
    for walk in all_walks(relation, merge=not circles):
        for _ in walk:
            pass


def _digit_walks(relation: Relation, dim: int, merge: bool) -> Iterator[Walk]:
    size = int(relation.digits[:, dim].max()) + 1
    npus = np.arange(relation.npus, dtype=np.int32)
    for plane in range(relation.planes):
        own = relation.own[plane * relation.routers + npus, dim]
        starts = npus[(own != ALWAYS) & (own != SKIP)]
        rows = max(1, BATCH // size)
        for begin in range(0, len(starts), rows):
            src = np.repeat(starts[begin : begin + rows], size)
            digits = np.tile(np.arange(size, dtype=np.int32), len(src) // size)[:, None]
            planes = np.full(len(src), plane, np.int32)
            yield Walk(relation, src, planes, digits, (dim,), merge=merge)
