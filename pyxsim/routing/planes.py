"""Split relations into planes and rebuild them: for functions that derive one relation from another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.errors import InputError
from pyxsim.routing.product_table import FIRST_SET, NONE, ProductTable, ties
from pyxsim.routing.relation import EACH, RANDOM, SKIP, Relation, Way

ROUTING = "network.router.routing"

_ENTRIES = 1 << 20  # table entries that are read at a time


@dataclass(frozen=True, eq=False)
class Plane:
    """One plane of a relation with its own table: entry e has the candidates start[e] to start[e + 1].

    Attributes
    ----------
    own
        int32[routers, nd].
    offset
        int64[routers, nd].
    start
        int64[entries + 1].
    link, vc_class
        int32[candidates].
    any, select, escape, sticky, equal
        As `plane_any` and so on in `Relation`.
    """

    own: Int32Array
    offset: IntArray
    start: IntArray
    link: Int32Array
    vc_class: Int32Array
    any: int = 0
    select: int = RANDOM
    escape: int = -1
    sticky: int = 0
    equal: int = 0

    @property
    def entry(self) -> IntArray:
        """int64[candidates]: the entry of each candidate."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def raised(self, by: Int32Array) -> Plane:
        """Return the plane with the VC class on each link raised by `by`, int32[links]."""
        return replace(self, vc_class=self.vc_class + by[self.link])

    def with_candidates(self, entry: IntArray, link: Int32Array, vc_class: Int32Array) -> Plane:
        """Return the plane with other candidates; within an entry they keep their order, without repetitions."""
        links, classes = int(max(link.max(initial=0), 0)) + 1, int(vc_class.max(initial=0)) + 1
        _, first = np.unique((entry * links + link) * classes + vc_class, return_index=True)
        kept = np.sort(first)
        order = kept[np.argsort(entry[kept], kind="stable")]
        start = np.zeros(len(self.start), np.int64)
        np.cumsum(np.bincount(entry[order], minlength=len(start) - 1), out=start[1:])
        return replace(self, start=start, link=link[order], vc_class=vc_class[order])

    def joined(self, other: Plane) -> Plane:
        """Return the plane with, at each entry, its candidates and then those that only the other plane has."""
        return self.with_candidates(
            np.concatenate([self.entry, other.entry]),
            np.concatenate([self.link, other.link]),
            np.concatenate([self.vc_class, other.vc_class]),
        )

    def digits(self, relation: Relation) -> tuple[IntArray, Int32Array, Int32Array]:
        """Return for every candidate the dimension of its entry, the digit of its router, and the destination's."""
        size = _sizes(relation)
        rows = [np.flatnonzero(self.own[:, dim] != SKIP) for dim in range(len(size))]
        dim = np.repeat(np.arange(len(size)), [len(r) * n for r, n in zip(rows, size, strict=True)])
        own_digit = np.concatenate([np.repeat(self.own[r, i], size[i]) for i, r in enumerate(rows)])
        goal = np.concatenate([np.tile(np.arange(size[i]), len(r)) for i, r in enumerate(rows)])
        return dim[self.entry], own_digit[self.entry].astype(np.int32), goal[self.entry].astype(np.int32)


def plane(relation: Relation, number: int) -> Plane:
    """Return one plane of a relation, with the entries of each dimension in order of router and digit."""
    entries = [entry for _, _, entry in table_parts(relation, number)]
    entry = np.concatenate(entries) if entries else np.zeros(0, np.int64)
    start, link, vc_class = candidates(relation, entry)
    columns = {name: int(getattr(relation, f"plane_{name}")[number]) for name in _FLAGS}
    return Plane(_own(relation, number), _in_order(relation, number), start, link, vc_class, **columns)


def table_parts(relation: Relation, number: int) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Yield the entries of a plane in parts of limited size: (dimension, routers, entries).

    The entries are in the order of dimension, router and digit; routers that skip the dimension have none.
    """
    own_digits = _own(relation, number)
    for dim, size in enumerate(_sizes(relation).tolist()):
        offset = relation.offset[number * relation.routers : (number + 1) * relation.routers, dim]
        moves = np.flatnonzero(own_digits[:, dim] != SKIP)
        together = max(1, _ENTRIES // size)
        for begin in range(0, len(moves), together):
            routers = moves[begin : begin + together]
            yield dim, routers, (offset[routers][:, None] + np.arange(size)).ravel()


def _own(relation: Relation, number: int) -> Int32Array:
    return relation.own[number * relation.routers : (number + 1) * relation.routers]


def _in_order(relation: Relation, number: int) -> IntArray:
    """int64[routers, nd]: the first entry of a router and dimension, with the entries in the order of `table_parts`."""
    offset = np.zeros((relation.routers, relation.digits.shape[1]), np.int64)
    used = 0
    for dim, size in enumerate(_sizes(relation).tolist()):
        moves = np.flatnonzero(_own(relation, number)[:, dim] != SKIP)
        offset[moves, dim] = used + np.arange(len(moves)) * size
        used += len(moves) * size
    return offset


def with_both(relation: Relation) -> Relation | None:
    """Return a product of two planes with a third one, which has the candidates of both, and no other route option.

    The same as `rebuilt` with `Plane.joined`, block by block. None if the relation is no product, if the planes differ
    in their dimensions, or if entries have several candidates.
    """
    link, vc_class, rows = relation.link, relation.vc_class, relation.routers
    if not isinstance(link, ProductTable) or not isinstance(vc_class, ProductTable):
        return None
    if relation.planes != 2 or relation.sets or not np.array_equal(_own(relation, 0), _own(relation, 1)):
        return None
    first, other = relation.offset.reshape(2, rows, -1)
    found = ties(link, vc_class, first, other, _own(relation, 0) != SKIP)
    if found is None:
        return None
    columns = {f"plane_{name}": getattr(relation, f"plane_{name}")[[0, 1, 0]] for name in _FLAGS}
    return replace(
        relation,
        planes=3,
        own=np.tile(_own(relation, 0), (3, 1)),
        offset=np.concatenate([relation.offset, found.offset]),
        link=found.link,
        vc_class=found.vc_class,
        set_start=2 * np.arange(len(found.first_link) + 1),
        set_link=np.stack([found.first_link, found.other_link], axis=1).ravel(),
        set_class=np.stack([found.first_class, found.other_class], axis=1).ravel(),
        ways=(Way(2),),
        **columns,
    )


_FLAGS = ("any", "select", "escape", "sticky", "equal")


def candidates(relation: Relation, entry: IntArray) -> tuple[IntArray, Int32Array, Int32Array]:
    """Return (start, link, VC class); entry[i] has the candidates start[i] to start[i + 1]."""
    link, vc_class = relation.link[entry], relation.vc_class[entry]
    count = (link != NONE).astype(np.int64)
    chosen = np.flatnonzero(link <= FIRST_SET)
    if not len(chosen):
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
        return start, link[link >= 0], vc_class[link >= 0]
    number = FIRST_SET - link[chosen].astype(np.int64)
    first = relation.set_start[number]
    count[chosen] = relation.set_start[number + 1] - first
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
    links, classes = np.zeros(start[-1], np.int32), np.zeros(start[-1], np.int32)
    single = link >= 0
    links[start[:-1][single]], classes[start[:-1][single]] = link[single], vc_class[single]
    index, member = ranges(start[chosen], count[chosen]), ranges(first, count[chosen])
    links[index], classes[index] = relation.set_link[member], relation.set_class[member]
    return start, links, classes


def rebuilt(relation: Relation, planes: Sequence[Plane], **changes: Any) -> Relation:
    """Return the relation with these planes instead of its own, and other changes. Equal sets are stored once."""
    base = np.cumsum([0, *(len(p.start) - 1 for p in planes)])
    count = np.concatenate([np.diff(p.start) for p in planes])
    link = np.concatenate([p.link for p in planes])
    vc_class = np.concatenate([p.vc_class for p in planes])
    first = np.cumsum(count) - count
    single, several = count == 1, np.flatnonzero(count > 1)
    table, classes = np.full(len(count), NONE, np.int32), np.zeros(len(count), np.int32)
    table[single], classes[single] = link[first[single]], vc_class[first[single]]
    number, kept = _same_sets(first[several], count[several], link, vc_class)
    table[several] = FIRST_SET - number
    member = ranges(first[several[kept]], count[several[kept]])
    columns = {f"plane_{name}": np.array([getattr(p, name) for p in planes], np.int32) for name in _FLAGS}
    arrays: dict[str, Any] = {
        "planes": len(planes),
        "own": np.concatenate([p.own for p in planes]),
        "offset": np.concatenate([p.offset + b for p, b in zip(planes, base[:-1], strict=True)]),
        "link": table,
        "vc_class": classes,
        "set_start": np.concatenate([np.zeros(1, np.int64), np.cumsum(count[several[kept]])]),
        "set_link": link[member],
        "set_class": vc_class[member],
        **columns,
    }
    return replace(relation, **{**arrays, **changes})


def main_plane(relation: Relation, what: str) -> int:
    """Return the plane of packets without a via. Raises InputError if the relation has several route options."""
    if len(relation.ways) != 1 or relation.ways[0].via != "none":
        raise InputError(
            f"{what} cannot be built on a routing with several route options or a via",
            key=ROUTING,
        )
    return relation.ways[0].last


def plain_plane(relation: Relation, what: str) -> int:
    """Return `main_plane`, which must not have an escape either. Raises InputError."""
    number = main_plane(relation, what)
    if relation.plane_select[number] == EACH:
        raise InputError(f"{what} cannot be built on an adaptive routing with an escape", key=ROUTING)
    return number


def grid_only(relation: Relation, what: str) -> None:
    """Raise InputError unless the network is a product of one block per dimension."""
    if not relation.separable:
        raise InputError(f"{what} requires a grid of NPUs that is a product of one block per dimension", key=ROUTING)


def ranges(first: IntArray, count: IntArray) -> IntArray:
    """Return first[0], first[0] + 1, ... (count[0] numbers), first[1], ..."""
    jump = np.cumsum(count) - count
    return np.repeat(first - jump, count) + np.arange(int(count.sum()))


def distinct(numbers: IntArray) -> IntArray:
    """Return each number once, in order. (np.unique uses hashing, which is far slower for millions of numbers.)"""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    unique: IntArray = ordered[first]
    return unique


def _sizes(relation: Relation) -> IntArray:
    sizes: IntArray = relation.digits.max(axis=0, initial=0).astype(np.int64) + 1
    return sizes


def _same_sets(first: IntArray, count: IntArray, link: Int32Array, vc_class: Int32Array) -> tuple[IntArray, IntArray]:
    """(number of each set, one set per number): sets with the same members in the same order share a number."""
    if not len(first):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    code = link.astype(np.int64) * (int(vc_class.max(initial=0)) + 1) + vc_class
    number = np.unique(count, return_inverse=True)[1].astype(np.int64)
    for position in range(int(count.max())):
        # Equal prefixes are distinguished by their next member; sets without one are unchanged.
        longer = np.flatnonzero(count > position)
        key = number[longer] * (int(code.max()) + 1) + code[first[longer] + position]
        number[longer] = int(number.max()) + 1 + np.unique(key, return_inverse=True)[1]
        number = np.unique(number, return_inverse=True)[1].astype(np.int64)
    kept = np.unique(number, return_index=True)[1]
    return number, kept.astype(np.int64)
