"""The deadlock proof: the channel dependency graph of a routing relation has no cycle.

A channel is a link and a VC class on it. It depends on another when a packet may hold the first while it waits for the
second. Without a cycle, packets cannot wait for each other forever (Dally and Seitz, "Deadlock-free message routing in
multiprocessor interconnection networks", IEEE Trans. Computers C-36(5), 1987). Lanes are not part of the graph: no
channel leads into an injection lane, and ejection lanes always drain. All planes use the same VCs, so their
dependencies form one graph. Virtual networks share no VC, so one of them is enough.

A packet with several candidates depends on all of them. Only if it waits for all of them at once (`each`) and one is
an *escape*, it is enough that the escapes have no cycle (Duato, "A necessary and sufficient condition for
deadlock-free adaptive routing in wormhole networks", IEEE TPDS 6(10), 1995). The nodes of the graph are then the
channels that a packet may wait for, and dependencies may be *indirect*: a packet that may leave the escape can hold an
escape channel, continue over other channels, and wait for an escape channel again.

Duato's condition requires VCs that hold flits of one packet only, or whole packets. Where a packet may queue behind
another in a VC ("tail" reuse in wormhole routing), its head is not at the front and cannot reach the escape, so the
other channels may form a cycle (Ma, Enright Jerger and Wang, "Whole packet forwarding", HPCA 2012). The same holds for
a head that was granted a VC without free slots, as it requests no other VC.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.errors import DeadlockError, InputError, SimulationError, UnreachableError
from pyxsim.routing import by_dimension, proofs
from pyxsim.routing.bubble import merged_rings
from pyxsim.routing.explore import Explorer, Moves
from pyxsim.routing.journeys import (
    MAX_JOINS,
    Joins,
    Journey,
    Journeys,
    Pairs,
    behind_cycles,
    check_cycles,
    checked,
    explored,
    journeys,
    one_cycle,
)
from pyxsim.routing.planes import distinct, ranges
from pyxsim.routing.product_table import FIRST_SET
from pyxsim.routing.relation import EACH, Relation

_SHOWN = 8  # channels of a cycle in an error message
_TOGETHER = 1 << 20  # table entries that are checked at a time


@dataclass(frozen=True, eq=False)
class Dependencies:
    """The channel dependency graph as arrays: edge `e` leads from node `src[e]` to node `dst[e]`.

    Nodes below `channels` are channels, `link * classes + vc_class`. Nodes from `channels` to `nodes - 1` are
    intermediate: a channel depends on another if a path over intermediate nodes connects them.
    """

    relation: Relation
    classes: int
    src: IntArray
    dst: IntArray
    nodes: int

    @property
    def channels(self) -> int:
        """The number of channels: links times VC classes."""
        return self.relation.links * self.classes

    def channel(self, number: int) -> tuple[int, int]:
        """Return (link, VC class) of a channel."""
        return divmod(number, self.classes)

    def name(self, number: int) -> str:
        """Return the name of a channel, such as "d0+:(3)->(0) class 1"."""
        link, vc_class = self.channel(number)
        name = self.relation.link_name[link]
        return f"{name} class {vc_class}" if self.relation.link_classes[link] > 1 else name

    def edges(self) -> set[tuple[tuple[int, int], tuple[int, int]]]:
        """Return all dependencies between channels (link, VC class), direct and indirect; for small networks."""
        follow: dict[int, list[int]] = {}
        for a, b in zip(self.src.tolist(), self.dst.tolist(), strict=True):
            follow.setdefault(a, []).append(b)
        pairs = set()
        for begin in range(self.channels):
            front = follow.get(begin, [])
            seen = set(front)
            while front:
                front = [b for a in front if a >= self.channels for b in follow.get(a, ()) if b not in seen]
                seen.update(front)
            pairs |= {(self.channel(begin), self.channel(node)) for node in seen if node < self.channels}
        return pairs

    def to_networkx(self) -> Any:
        """Return the graph as a networkx.DiGraph whose nodes are (link, VC class)."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_edges_from(self.edges())
        return graph

    def behind_cycles(self) -> NDArray[np.bool_]:
        """Return bool[nodes]: nodes on a cycle or reachable from one."""
        return behind_cycles(self.src, self.dst, self.nodes)

    def cycle(self) -> list[int]:
        """Return the channels of one cycle, in order; empty without a cycle."""
        behind = self.behind_cycles()
        inside = behind[self.src] & behind[self.dst]
        return [node for node in one_cycle(self.src[inside], self.dst[inside]) if node < self.channels]


def dependencies(relation: Relation, pairs: Pairs | None = None, *, whole: bool = False) -> Dependencies:
    """Return the channel dependency graph: which channel a packet may hold while it waits for which other.

    Parameters
    ----------
    relation
        The routes.
    pairs
        Rows (source, destination, plane), with plane -1 for packets that choose a route option; or (source,
        destination), on every plane and route option. None: all pairs on all planes and route options.
    whole
        Whether a VC is granted only when it is empty (`vc_reuse = "drained"`) or has free slots for the whole packet
        (virtual cut-through, store-and-forward). Only then escapes are used.

    Raises
    ------
    UnreachableError
        If a pair has no route; a route that never ends may appear as a cycle instead.
    """
    _check(relation)
    return _graph(relation, journeys(relation, pairs, exact=_affordable(relation, pairs)), whole)


def prove(relation: Relation, pairs: Pairs | None = None, *, whole: bool = False) -> None:
    """Prove that all pairs have routes and that these routes cannot deadlock. Parameters as in `dependencies`.

    Proofs are cached by relation and pairs (`pyxsim/routing/proofs.py`).

    Raises
    ------
    UnreachableError
        If a pair has no route.
    DeadlockError
        With a cycle, as names of channels.
    """
    table = None if pairs is None else checked(relation, pairs)
    key = proofs.key(relation, table, whole)
    if proofs.known(key):
        return
    _check(relation)
    if _proved_by_dimension(relation, table is None, whole):
        proofs.remember(key)
        return
    made = journeys(relation, table)
    try:
        graph = _graph(relation, made, whole)
        behind = graph.behind_cycles()
    except UnreachableError:
        if made.exact or not _affordable(relation, table):
            raise
        behind = np.ones(1, np.bool_)
    if behind.any() and not made.exact and _affordable(relation, table):
        # The graph includes packets over a via that cannot exist; the exact graph leaves them out.
        made = journeys(relation, table, exact=True)
        graph = _graph(relation, made, whole)
        behind = graph.behind_cycles()
    if not behind.any():
        proofs.remember(key)
        return
    for journey in made.all:
        check_cycles(relation, journey)  # a cycle may also come from a route that never ends, which is another error
    cycle = graph.cycle()
    hint = ""
    if not whole and _has_escape(relation):
        try:
            prove(relation, table, whole=True)
        except DeadlockError:
            pass
        else:
            hint = (
                "; the escape prevents it if a VC is granted only with free slots for the packet: with vc_reuse"
                " 'drained', or virtual cut-through and buffers of a whole packet"
            )
    names = [graph.name(number) for number in cycle]
    more = f" -> {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    text = " -> ".join(names[:_SHOWN]) + more
    count = f"{len(names)} channels" if len(names) > 1 else "a channel"
    raise DeadlockError(f"the routes can deadlock: {count} can form a cycle: {text} -> {names[0]}{hint}", names)


def _proved_by_dimension(relation: Relation, everything: bool, whole: bool) -> bool:
    """Whether the fast proof by dimension succeeds, which covers all pairs; `everything`: so do the pairs given."""
    if not _has_escape(relation):
        return by_dimension.proves(relation)
    if not whole:
        return False
    simpler = by_dimension.without_sticky(relation)
    if simpler is None or not everything:
        return by_dimension.proves(relation if simpler is None else simpler)
    try:
        prove(simpler)
    except SimulationError:
        return False
    return True


def _has_escape(relation: Relation, plane: int | None = None) -> bool:
    """Whether a plane (default: any plane) has an escape."""
    escapes = (relation.plane_select == EACH) & (relation.plane_escape >= 0)
    return bool(escapes.any() if plane is None else escapes[plane])


def _affordable(relation: Relation, pairs: Pairs | None) -> bool:
    """Whether packets over a via may be distinguished by source and destination."""
    rows = relation.npus**2 if pairs is None else len(checked(relation, pairs))
    return rows * relation.npus <= MAX_JOINS and relation.routers * relation.npus <= MAX_JOINS


def _graph(relation: Relation, made: Journeys, whole: bool) -> Dependencies:
    """Dependencies of all journeys."""
    classes = relation.classes
    channels = relation.links * classes
    edges = _Edges()
    if not (whole and _has_escape(relation)):
        for journey in made.all:
            _direct(relation, journey, channels, edges)
        src, dst = edges.arrays()
        if relation.bubble:
            src, dst = merged_rings(relation, src, dst, classes)
        return Dependencies(relation, classes, src, dst, channels + made.joins)
    waited = np.zeros(channels, np.bool_)
    entries = [_entries(relation, journey, channels, waited) for journey in made.all]
    explorer = Explorer(relation, escapes=True, compact=True, first=channels + made.joins)
    for journey, entry in zip(made.all, entries, strict=True):
        if not _has_escape(relation, journey.walks.plane):
            # These packets may wait for each of their channels, so all dependencies are direct.
            _direct(relation, journey, channels, edges)
        elif entry is None or waited[entry.taken].any():
            _extended(explorer, journey, channels, waited, edges)
        elif not (made.everything and entry.everywhere):
            # Other packets wait only for what these hold on the escape, and these stay on the escape.
            _direct(relation, entry.journey, channels, edges)
    return Dependencies(relation, classes, *edges.arrays(), explorer.count)


@dataclass(frozen=True, eq=False)
class _Entry:
    """Packets of a plane that enter its escape and stay there.

    Attributes
    ----------
    taken
        The channels that they take before.
    journey
        Their journey on the escape, from wherever they may enter it.
    everywhere
        Whether they enter only at routers with an NPU, as packets sent on the escape plane itself.
    """

    taken: IntArray
    journey: Journey
    everywhere: bool


def _entries(relation: Relation, journey: Journey, channels: int, waited: NDArray[np.bool_]) -> _Entry | None:
    """Add the channels that packets wait for to `waited`, and return how packets enter the escape.

    None if packets do not stay on the escape, the escape has one itself, or packets come from a via and may hold a
    channel.
    """
    walks = journey.walks
    plane, escape = walks.plane, int(relation.plane_escape[walks.plane])
    stays = _has_escape(relation, plane) and bool(relation.plane_sticky[plane])
    stays = stays and not _has_escape(relation, escape) and not journey.begins
    taken = np.zeros(channels, np.bool_)
    reached = [np.zeros(0, np.int64)]
    for moves in explored(Explorer(relation, escapes=True, compact=True), journey):
        waited[moves.channel[moves.waits]] = True
        if stays:
            taken[moves.channel[~moves.waits]] = True
            entering = (moves.plane == plane) & ~moves.home
            reached.append(moves.walk[entering] * relation.routers + moves.router[entering])
    if not stays:
        return None
    walk, router = np.divmod(distinct(np.concatenate(reached)), relation.routers)
    homes = np.zeros(relation.routers, np.bool_)
    homes[relation.home] = True
    everywhere = not journey.ends and bool(homes[router].all())
    entered = replace(journey, walks=replace(walks, plane=escape, start_walk=walk, start_router=router))
    return _Entry(np.flatnonzero(taken), entered, everywhere)


def _direct(relation: Relation, journey: Journey, channels: int, edges: _Edges) -> None:
    """Add the dependencies of packets that may wait for each of their candidates: from channel to channel."""
    arrivals, starts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for moves in explored(Explorer(relation, escapes=False), journey):
        before = moves.before[moves.who]
        holds = before >= 0
        edges.add(before[holds], moves.channel[holds])
        for join_rule in journey.ends:
            index, join = _arrivals(moves, join_rule)
            edges.add(moves.before[index], channels + join)
        for join_rule in journey.begins:
            index, join = _starts(moves, join_rule)
            edges.add(channels + join, moves.channel[index])
        if journey.by_dimension:
            index = np.flatnonzero(moves.home & (moves.before >= 0))
            arrivals.append(distinct(moves.router[index] * channels + moves.before[index]))
            first = moves.start[moves.who]
            starts.append(distinct(moves.router[moves.who[first]] * channels + moves.channel[first]))
    if journey.by_dimension:
        ends, begins = distinct(np.concatenate(arrivals)), distinct(np.concatenate(starts))
        edges.join_dimensions(journey.walks.plane, journey.walks.dims[0], ends, begins, channels)


def _extended(explorer: Explorer, journey: Journey, channels: int, waited: NDArray[np.bool_], edges: _Edges) -> None:
    """Add the dependencies between channels that packets wait for, over the states of packets that hold others.

    A packet that takes a channel of `waited` leads through that channel's node to its next state, as it then holds
    the channel.
    """
    for moves in explored(explorer, journey):
        node = moves.node[moves.who]
        known = waited[moves.channel]
        # Few of these edges are equal, so none are merged.
        edges.add_all(node[known], moves.channel[known])
        edges.add_all(moves.channel[known], moves.after[known])
        edges.add_all(node[~known], moves.after[~known])
        for join_rule in journey.ends:
            at, join = join_rule.joins(moves.walk[moves.home], moves.router[moves.home])
            edges.add(moves.node[moves.home][at], channels + join)
        for join_rule in journey.begins:
            begins = moves.start & ~moves.home
            at, join = join_rule.joins(moves.walk[begins], moves.router[begins])
            edges.add(channels + join, moves.node[begins][at])


def _arrivals(moves: Moves, join_rule: Joins) -> tuple[IntArray, IntArray]:
    """(state, join) of packets that arrive."""
    at = np.flatnonzero(moves.home & (moves.before >= 0))
    index, join = join_rule.joins(moves.walk[at], moves.router[at])
    return at[index], join


def _starts(moves: Moves, join_rule: Joins) -> tuple[IntArray, IntArray]:
    """(move, join) of packets that start."""
    at = np.flatnonzero(moves.start[moves.who])
    index, join = join_rule.joins(moves.walk[moves.who[at]], moves.router[moves.who[at]])
    return at[index], join


class _Edges:
    """The edges of a dependency graph under construction."""

    def __init__(self) -> None:
        self.merged = [np.zeros(0, np.int64)]  # src << 32 | dst
        self.unmerged: list[tuple[IntArray, IntArray]] = []
        self.arrived: list[tuple[int, int, IntArray]] = []  # plane, dimension, arrivals

    def add(self, src: IntArray, dst: IntArray) -> None:
        """Add edges, each distinct edge once."""
        if len(src):
            self.merged.append(distinct(src << 32 | dst))

    def add_all(self, src: IntArray, dst: IntArray) -> None:
        """Add edges without a search for equal ones."""
        self.unmerged.append((src, dst))

    def join_dimensions(self, plane: int, dim: int, arrivals: IntArray, starts: IntArray, channels: int) -> None:
        """Add edges from earlier dimensions to this one: from each arrival to each start at the same router.

        `arrivals`, `starts`: router * channels + channel.
        """
        for before in [ends for number, earlier, ends in self.arrived if number == plane and earlier < dim]:
            first = np.searchsorted(starts // channels, before // channels, "left")
            count = np.searchsorted(starts // channels, before // channels, "right") - first
            self.add(np.repeat(before % channels, count), starts[ranges(first, count)] % channels)
        self.arrived.append((plane, dim, arrivals))

    def arrays(self) -> tuple[IntArray, IntArray]:
        code = distinct(np.concatenate(self.merged))
        parts = [(code >> 32, code & 0xFFFFFFFF), *self.unmerged]
        return np.concatenate([src for src, _ in parts]), np.concatenate([dst for _, dst in parts])


def _check(relation: Relation) -> None:
    """Raise InputError if a table contains a VC class that a link does not have."""
    tables = [
        (relation.link[begin : begin + _TOGETHER], relation.vc_class[begin : begin + _TOGETHER])
        for begin in range(0, len(relation.link), _TOGETHER)
    ]
    for table, classes in [*tables, (relation.set_link, relation.set_class)]:
        link, vc_class = table[table >= 0], classes[table >= 0]
        wrong = np.flatnonzero((vc_class < 0) | (vc_class >= relation.link_classes[link]))
        if len(wrong):
            name, number = relation.link_name[int(link[wrong[0]])], int(vc_class[wrong[0]])
            raise InputError(f"the routes use VC class {number} of {name}, which does not exist")
    if any((table < FIRST_SET - relation.sets + 1).any() for table, _ in tables):
        raise InputError("the routes use a candidate set that does not exist")
    grouped = relation.link_group >= 0
    if not grouped.any():
        return
    group_classes = np.zeros(int(relation.link_group.max(initial=-1)) + 1, np.int32)
    np.maximum.at(group_classes, relation.link_group[grouped], relation.link_classes[grouped])
    fewer = np.flatnonzero(grouped & (relation.link_classes < group_classes[relation.link_group * grouped]))
    if len(fewer):
        name = relation.link_name[int(fewer[0])]
        raise InputError(f"{name} has fewer VC classes than others of its group, in which packets keep their class")
