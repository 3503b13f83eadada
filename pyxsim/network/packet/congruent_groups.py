"""Find congruent groups: messages that share no link and no lane with others, on links that are alike.

`folded_engine.py` simulates one group of each class. A group is what links and lanes connect: its messages cannot
affect others (`Engine.independent_ports`). Two groups are congruent if a map of their NPUs, in the order of their
numbers, maps everything that the engine knows of them: pairs, routes with VC classes, parameters of links and lanes,
and at each router the order of the ports that the group uses. Arbiters move past their winner, so ports without
requests do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pyxsim.arrays import IntArray, Rows, unique_rows
from pyxsim.core.engine_options import Links
from pyxsim.routing.explore import decide
from pyxsim.routing.relation import Relation
from pyxsim.routing.spread import fixed

MOST_PAIRS = 1 << 21
MOST_CLASSES = 64
LEAST_SAVING = 4  # groups per class
LEAST_FLIT_HOPS = 2_000_000  # a smaller run takes less time than the search for groups
FEW_HOPS = 8  # of a route, to be decided without routes


class Paths(NamedTuple):
    """Pairs with one route each.

    Attributes
    ----------
    pairs
        int64[K, 3]: source, destination, plane.
    steps, classes
        int64[K, hops]: links, then -1, and the VC classes of the tables.
    inject, eject
        int64[K]: lanes.
    """

    pairs: IntArray
    steps: IntArray
    classes: IntArray
    inject: IntArray
    eject: IntArray

    def take(self, rows: IntArray) -> Paths:
        """Some of the pairs."""
        return Paths(*(column[rows] for column in self))


@dataclass(frozen=True, eq=False)
class CongruentGroups:
    """Groups of messages by class.

    Attributes
    ----------
    group
        int64[injection lanes]: the group that uses a lane; -1: none.
    members
        int64[size] for each class: its groups; the first is the leader.
    used
        int64[links and lanes] for each group: its links, injection and ejection lanes, as numbers of all links and
        lanes. Numbers at the same place of congruent groups correspond to each other.
    paths
        The pairs of each leader, with their routes.
    pairs
        int64[K, 3]: source, destination and plane of all pairs, sorted.
    of_pair
        int64[K]: the group of each pair.
    copies
        The groups that a member of a class stands for, itself first; empty if all groups are members.
    """

    group: IntArray
    members: tuple[IntArray, ...]
    used: Rows
    paths: tuple[Paths, ...]
    pairs: IntArray
    of_pair: IntArray
    copies: Mapping[int, IntArray] = field(default_factory=dict)


def long_enough(flit_hops: int) -> bool:
    """Whether a run of so many takes longer than the search for groups."""
    return flit_hops >= LEAST_FLIT_HOPS


def congruent_groups(
    relation: Relation,
    links: Links,
    traffic: IntArray,
    lanes_of: Callable[[IntArray, IntArray, IntArray], tuple[IntArray, IntArray]],
    flit: int,
) -> CongruentGroups | None:
    """Find the congruent groups; None if few are.

    Parameters
    ----------
    traffic
        int64[rows, 5]: source, destination, plane, bytes, number of messages; all messages of the run.
    lanes_of
        Function from (src, dst, plane) to the injection and ejection lanes of messages.
    flit
        Bytes of a flit.
    """
    flits = traffic[:, 4] * -(-traffic[:, 3] // flit)
    if not long_enough(flits.sum() * FEW_HOPS):
        return None
    pairs, pair = unique_rows(traffic[:, :3])
    if not 1 < len(pairs) <= MOST_PAIRS or not all(fixed(relation, plane) for plane in np.unique(pairs[:, 2]).tolist()):
        return None
    if not relation.deterministic and (pairs[:, 2] < 0).any():
        return None
    src, dst, plane = pairs.T
    steps, classes = _hops(relation, src, dst, plane)
    hops = (steps >= 0).sum(axis=1)[pair]
    if not long_enough((flits * hops).sum()):
        return None
    paths = Paths(pairs, steps, classes, *lanes_of(src, dst, plane))
    group = _connected(paths, links)
    if group.max() + 1 < LEAST_SAVING:
        return None
    order = np.argsort(group, kind="stable")  # within a group, pairs are in the order of sources and destinations
    of_pairs, of_links, used = _described(paths.take(order), group[order], links)
    members = _classes(of_pairs, of_links)
    if members is None or len(members) * LEAST_SAVING > len(used):
        return None
    lane = np.full(links.injection, -1)
    lane[paths.inject] = group
    leaders = tuple(paths.take(np.flatnonzero(group == each[0])) for each in members)
    return CongruentGroups(lane, members, used, leaders, pairs, group)


def _classes(of_pairs: Rows, of_links: Rows) -> tuple[IntArray, ...] | None:
    """The groups of each class, in the order of the first ones: all with equal rows. None if there are many classes."""
    classes: list[IntArray] = []
    sizes = np.column_stack([np.diff(of_pairs.first), np.diff(of_links.first)])
    kinds, kind = unique_rows(sizes)
    for number in range(len(kinds)):
        left = np.flatnonzero(kind == number)
        table = np.concatenate([of_pairs.alike(left), of_links.alike(left)], axis=1)
        while len(left):
            if len(classes) == MOST_CLASSES:
                return None
            same = (table == table[0]).all(axis=1)
            classes.append(left[same])
            left, table = left[~same], table[~same]
    return tuple(sorted(classes, key=lambda members: int(members[0])))


def _hops(relation: Relation, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[IntArray, IntArray]:
    """int64[K, hops] each: the links of the only route of each pair, then -1, and the VC classes of the tables."""
    plane = np.where(plane < 0, relation.ways[0].last, plane)
    router, home = relation.starts[src].astype(np.int64), relation.home[dst]
    every_link: list[IntArray] = []
    every_class: list[IntArray] = []
    while len(under_way := np.flatnonzero(router != home)):
        link, vc_class = np.full(len(src), -1, np.int64), np.full(len(src), -1, np.int64)
        for number in np.unique(plane[under_way]).tolist():
            at = under_way[plane[under_way] == number]
            digits = relation.digits[dst[at]]
            chosen, taken, class_, _ = decide(relation, number, router[at], digits, range(digits.shape[1]))
            link[at[chosen]], vc_class[at[chosen]] = taken, class_
        if (link[under_way] < 0).any() or len(every_link) > relation.routers:
            return np.zeros((len(src), 0), np.int64), np.zeros((len(src), 0), np.int64)  # the run itself says so
        every_link.append(link)
        every_class.append(vc_class)
        router[under_way] = relation.link_dst[link[under_way]]
    shape = len(every_link), len(src)
    return np.array(every_link, np.int64).reshape(shape).T, np.array(every_class, np.int64).reshape(shape).T


def _connected(paths: Paths, links: Links) -> IntArray:
    """int64[pairs]: the group of each pair, numbered in the order of the first pairs.

    Pairs with a common link or lane are in one group.
    """
    lanes = [paths.inject + links.network, paths.eject + links.network + links.injection]
    resources = np.column_stack([*lanes, paths.steps])
    parent = list(range(links.network + links.injection + links.ejection))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = number = parent[parent[number]]
        return number

    for first, *others in resources.tolist():
        first = root(first)
        for other in others:
            if other >= 0:
                parent[root(other)] = first
    roots = np.array([root(number) for number in lanes[0].tolist()])
    _, first_pair, which = np.unique(roots, return_index=True, return_inverse=True)
    group: IntArray = np.argsort(np.argsort(first_pair))[which.ravel()].astype(np.int64)
    return group


def wires(links: Links) -> IntArray:
    """int64[links and lanes, 2]: a number for all parameters of each, and the link group (-1 without)."""
    columns = [links.vcs, links.depth, links.s_num, links.s_den, links.delay, links.credit_delay, links.output_queue]
    columns += [links.pool, links.classes, links.ranges]
    several = [column for column in map(np.asarray, columns) if (column != column[:1]).any()]
    kind = unique_rows(np.column_stack(several).astype(np.int64))[1] if several else np.zeros(len(links.vcs), np.int64)
    return np.column_stack([kind, np.asarray(links.group, np.int64)])


def _described(paths: Paths, group: IntArray, links: Links) -> tuple[Rows, Rows, Rows]:
    """Describe each group in numbers of its own; congruent groups have equal descriptions.

    `group`: of each pair, ascending. Returns the numbers that describe the pairs, and the links and lanes, of each
    group; and its links and lanes in the order of its numbers.
    """
    count = int(group.max()) + 1
    first = links.network, links.network + links.injection
    ends = np.unique(group[:, None] * len(links.src) + paths.pairs[:, :2], return_inverse=True)[1].reshape(-1, 2)
    lowest = np.full(count, len(links.src) * count)
    np.minimum.at(lowest, group, ends.min(axis=1))
    where, used, of_used = _in_order(
        np.column_stack([paths.inject + first[0], paths.steps, paths.eject + first[1]]), group
    )
    kinds = wires(links)[used]
    src, dst = np.asarray(links.src, np.int64)[used], np.asarray(links.dst, np.int64)[used]
    # The ports of each router are in the order of their numbers, as in the engine.
    of_links = [kinds[:, 0], _in_order(kinds[:, 1:], of_used)[0], _in_order(np.column_stack([src, dst]), of_used)[0]]
    of_links += [_rank(dst, used, of_used), _rank(src, used, of_used)]
    of_pairs = [ends - lowest[group][:, None], paths.pairs[:, 2], where, paths.classes]
    pairs, places = (np.ascontiguousarray(np.column_stack(columns), np.int64) for columns in (of_pairs, of_links))
    cuts = [np.searchsorted(numbers, np.arange(count + 1)) for numbers in (group, of_used)]
    described = [Rows(table.ravel(), cut * table.shape[1]) for table, cut in zip((pairs, places), cuts, strict=True)]
    return described[0], described[1], Rows(used, cuts[1])


def _in_order(table: IntArray, group: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Number the values of each group in the order of their first places; -1 stays.

    `table`: int64[rows, columns]; `group`: of each row, ascending. Returns the numbers, the values of all groups in
    their order, and the group of each value.
    """
    there = table >= 0
    size = int(table.max(initial=0)) + 1
    keys = (group[:, None] * size + table)[there]
    values, first, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(values), np.int64)
    place[order] = np.arange(len(values))
    of_group = values[order] // size
    begin = np.searchsorted(of_group, np.arange(int(group.max(initial=0)) + 1))
    numbers = np.full(table.shape, -1)
    numbers[there] = place[which.ravel()] - begin[keys // size]
    return numbers, values[order] % size, of_group


def _rank(router: IntArray, link: IntArray, group: IntArray) -> IntArray:
    """The place of each link among those of its group at its router, by number; -1 for a router of -1."""
    order = np.lexsort((link, router, group))
    ordered = np.column_stack([group, router])[order]
    begins = np.flatnonzero(np.append(True, (np.diff(ordered, axis=0) != 0).any(axis=1)))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    return np.where(router < 0, -1, rank)
