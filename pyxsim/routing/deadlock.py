"""The deadlock proof: the channel dependency graph of a routing relation has no cycle.

A channel is a link and a VC class on it. It depends on another when a packet may hold the first while it waits for the
second. If no cycle exists among the channels, packets can never wait for each other in a circle (Dally and Seitz,
"Deadlock-free message routing in multiprocessor interconnection networks", IEEE Trans. Computers C-36(5), 1987).
Injection and ejection lanes are left out: nothing leads into the first, and the second always drain. All planes use
the same VCs, so their dependencies go into one graph. Virtual networks do not matter, as they share no VC.

Packets that have a choice count with all of their candidates, whichever way they are selected. Only where they wait for
all of them at once (`each`) and one is an *escape* is it enough that the escapes are free of cycles (Duato, "A
necessary and sufficient condition for deadlock-free adaptive routing in wormhole networks", IEEE TPDS 6(10), 1995).
Then the channels that a packet may wait for are the nodes of the graph, and one depends on another also *indirectly*: a
packet that may leave the escape can hold an escape channel, continue over others, and wait for an escape channel again.

That needs VCs that hold flits of one packet only, or whole packets. Where a part of a packet may queue behind another
in a VC ("tail" reuse in wormhole routing), its head is not at the front and cannot reach the escape, so the other
channels may close a circle all the same (Ma, Enright Jerger and Wang, "Whole packet forwarding", HPCA 2012). So may
heads that were granted a VC without room, as they ask for no other one then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.errors import DeadlockError, InputError, SimulationError, UnreachableError
from pyxsim.routing import by_dimension, proofs
from pyxsim.routing.explore import Explorer, Moves
from pyxsim.routing.journeys import (
    MAX_JOINS,
    Journey,
    Journeys,
    Pairs,
    behind_cycles,
    check_circles,
    checked,
    explored,
    journeys,
    one_cycle,
)
from pyxsim.routing.planes import distinct, ranges
from pyxsim.routing.relation import EACH, FIRST_SET, Relation

_SHOWN = 8  # channels of a cycle in an error message


@dataclass(frozen=True, eq=False)
class Dependencies:
    """The channel dependency graph as arrays: edge `e` leads from node `src[e]` to node `dst[e]`.

    Node numbers below `channels` are channels, `link * classes + vc_class`. Those from there on, up to `nodes`, stand
    for something between channels: one depends on another if a path leads to it over such nodes only.
    """

    relation: Relation
    classes: int
    src: IntArray
    dst: IntArray
    nodes: int

    @property
    def channels(self) -> int:
        return self.relation.links * self.classes

    def channel(self, number: int) -> tuple[int, int]:
        """(link, VC class) of a channel's number."""
        return divmod(number, self.classes)

    def name(self, number: int) -> str:
        """A channel for people: "d0+:(3)->(0) class 1"."""
        link, vc_class = self.channel(number)
        name = self.relation.link_name[link]
        return f"{name} class {vc_class}" if self.relation.link_classes[link] > 1 else name

    def edges(self) -> set[tuple[tuple[int, int], tuple[int, int]]]:
        """All dependencies between channels (link, VC class), direct and indirect. For small networks."""
        follow: dict[int, list[int]] = {}
        for a, b in zip(self.src.tolist(), self.dst.tolist(), strict=True):
            follow.setdefault(a, []).append(b)
        found = set()
        for begin in range(self.channels):
            front = follow.get(begin, [])
            seen = set(front)
            while front:
                front = [b for a in front if a >= self.channels for b in follow.get(a, ()) if b not in seen]
                seen.update(front)
            found |= {(self.channel(begin), self.channel(end)) for end in seen if end < self.channels}
        return found

    def to_networkx(self) -> Any:
        """The same graph as a networkx.DiGraph whose nodes are (link, VC class)."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_edges_from(self.edges())
        return graph

    def behind_cycles(self) -> NDArray[np.bool_]:
        """bool[nodes]: those on cycles, and those to which cycles lead."""
        return behind_cycles(self.src, self.dst, self.nodes)

    def cycle(self) -> list[int]:
        """Channels of one cycle, in order, or nothing."""
        left = self.behind_cycles()
        inside = left[self.src] & left[self.dst]
        return [node for node in one_cycle(self.src[inside], self.dst[inside]) if node < self.channels]


def dependencies(relation: Relation, pairs: Pairs | None = None, *, whole: bool = False) -> Dependencies:
    """Which channel a packet may hold while it waits for which other one.

    `pairs`: rows (source, destination, plane), plane -1 for packets that choose a way; or (source, destination), on
    every plane and way; None: all pairs on all planes and ways. `whole`: a VC is granted
    only when it is empty (`vc_reuse = "drained"`), or has room for the whole packet (virtual cut-through,
    store-and-forward): then an escape counts as such.
    Raises UnreachableError when a pair has no route; but a route that goes round in a circle may show as a cycle.
    """
    _check(relation)
    return _graph(relation, journeys(relation, pairs, exact=_affordable(relation, pairs)), whole)


def prove(relation: Relation, pairs: Pairs | None = None, *, whole: bool = False) -> None:
    """Return when the pairs all have routes and those routes can never deadlock. Arguments as in `dependencies`.

    Raises UnreachableError, or DeadlockError with the cycle by the names of its links. A proof that was made before,
    of the same relation and pairs, is not repeated (see `proofs`).
    """
    table = None if pairs is None else checked(relation, pairs)
    key = proofs.key(relation, table, whole)
    if proofs.known(key):
        return
    _check(relation)
    if table is None and whole and _has_escape(relation) and _short(relation):
        proofs.remember(key)
        return
    made = journeys(relation, table)
    try:
        graph = _graph(relation, made, whole)
        left = graph.behind_cycles()
    except UnreachableError:
        if made.exact or not _affordable(relation, table):
            raise
        left = np.ones(1, np.bool_)
    if left.any() and not made.exact and _affordable(relation, table):
        # Packets over a via were put together that cannot exist; what they do includes all that is possible.
        made = journeys(relation, table, exact=True)
        graph = _graph(relation, made, whole)
        left = graph.behind_cycles()
    if not left.any():
        proofs.remember(key)
        return
    for journey in made.all:
        check_circles(relation, journey)  # a cycle may also mean that some route never ends: another fault
    cycle = graph.cycle()
    hint = ""
    if not whole and _has_escape(relation):
        try:
            prove(relation, table, whole=True)
        except DeadlockError:
            pass
        else:
            hint = (
                "; the escape would prevent it if a VC were granted only with room for the packet: with vc_reuse"
                " 'drained', or virtual cut-through and buffers of a whole packet"
            )
    names = [graph.name(number) for number in cycle]
    more = f" -> {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    text = " -> ".join(names[:_SHOWN]) + more
    count = f"{len(names)} channels" if len(names) > 1 else "a channel"
    raise DeadlockError(f"the routes can deadlock: {count} may wait in a circle: {text} -> {names[0]}{hint}", names)


def _short(relation: Relation) -> bool:
    """Whether a short proof will do."""
    rest = by_dimension.without_sticky(relation)
    if rest is None:
        return by_dimension.proves(relation)
    try:
        prove(rest)
    except SimulationError:
        return False
    return True


def _has_escape(relation: Relation, plane: int | None = None) -> bool:
    """Of one plane, or of any."""
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
        return Dependencies(relation, classes, *edges.arrays(), channels + made.joins)
    waited = np.zeros(channels, np.bool_)
    entries = [_entries(relation, journey, channels, waited) for journey in made.all]
    explorer = Explorer(relation, escapes=True, compact=True, first=channels + made.joins)
    for journey, entry in zip(made.all, entries, strict=True):
        if not _has_escape(relation, journey.walks.plane):
            # All channels of these packets are waited for: nothing is between them.
            _direct(relation, journey, channels, edges)
        elif entry is None or waited[entry.taken].any():
            _extended(explorer, journey, channels, waited, edges)
        elif not (made.everything and entry.everywhere):
            # What these packets hold is waited for only once they are on the escape, and they stay there.
            _direct(relation, entry.journey, channels, edges)
    return Dependencies(relation, classes, *edges.arrays(), explorer.count)


@dataclass(frozen=True, eq=False)
class _Entry:
    """How packets come to an escape that they do not leave.

    taken       the channels that they take before
    journey     theirs on the escape, from wherever they may enter it
    everywhere  these are no other packets than NPUs send on the escape plane itself
    """

    taken: IntArray
    journey: Journey
    everywhere: bool


def _entries(relation: Relation, journey: Journey, channels: int, waited: NDArray[np.bool_]) -> _Entry | None:
    """Adds what packets wait for to `waited`.

    None where packets do not stay on an escape, or escape from it again, or come from a via and may hold something.
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
            here = (moves.plane == plane) & ~moves.home
            reached.append(moves.walk[here] * relation.routers + moves.router[here])
    if not stays:
        return None
    walk, router = np.divmod(distinct(np.concatenate(reached)), relation.routers)
    homes = np.zeros(relation.routers, np.bool_)
    homes[relation.home] = True
    everywhere = not journey.ends and bool(homes[router].all())
    entered = replace(journey, walks=replace(walks, plane=escape, start_walk=walk, start_router=router))
    return _Entry(np.flatnonzero(taken), entered, everywhere)


def _direct(relation: Relation, journey: Journey, channels: int, edges: _Edges) -> None:
    """Dependencies of packets that may wait for each of their candidates: from channel to channel."""
    arrivals, starts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for moves in explored(Explorer(relation, escapes=False), journey):
        before = moves.before[moves.who]
        holds = before >= 0
        edges.add(before[holds], moves.channel[holds])
        for meeting in journey.ends:
            at, join = _arrivals(moves, meeting)
            edges.add(moves.before[at], channels + join)
        for meeting in journey.begins:
            at, join = _starts(moves, meeting)
            edges.add(channels + join, moves.channel[at])
        if journey.by_dimension:
            at = np.flatnonzero(moves.home & (moves.before >= 0))
            arrivals.append(distinct(moves.router[at] * channels + moves.before[at]))
            first = moves.start[moves.who]
            starts.append(distinct(moves.router[moves.who[first]] * channels + moves.channel[first]))
    if journey.by_dimension:
        ends, begins = distinct(np.concatenate(arrivals)), distinct(np.concatenate(starts))
        edges.turn(journey.walks.plane, journey.walks.dims[0], ends, begins, channels)


def _extended(explorer: Explorer, journey: Journey, channels: int, waited: NDArray[np.bool_], edges: _Edges) -> None:
    """Dependencies between channels that are waited for, over states of packets that hold others.

    A state stands for packets that hold some channel. Taking one that is waited for leads through it to the next
    state, as from then on it is held too.
    """
    for moves in explored(explorer, journey):
        node = moves.node[moves.who]
        known = waited[moves.channel]
        # Hardly any two are equal.
        edges.add_all(node[known], moves.channel[known])
        edges.add_all(moves.channel[known], moves.after[known])
        edges.add_all(node[~known], moves.after[~known])
        for meeting in journey.ends:
            at, join = meeting.joins(moves.walk[moves.home], moves.router[moves.home])
            edges.add(moves.node[moves.home][at], channels + join)
        for meeting in journey.begins:
            begins = moves.start & ~moves.home
            at, join = meeting.joins(moves.walk[begins], moves.router[begins])
            edges.add(channels + join, moves.node[begins][at])


def _arrivals(moves: Moves, meeting: Any) -> tuple[IntArray, IntArray]:
    """(state, join) of packets that arrive."""
    at = np.flatnonzero(moves.home & (moves.before >= 0))
    place, join = meeting.joins(moves.walk[at], moves.router[at])
    return at[place], join


def _starts(moves: Moves, meeting: Any) -> tuple[IntArray, IntArray]:
    """(move, join) of packets that start."""
    at = np.flatnonzero(moves.start[moves.who])
    place, join = meeting.joins(moves.walk[moves.who[at]], moves.router[moves.who[at]])
    return at[place], join


class _Edges:
    """Edges as they are found."""

    def __init__(self) -> None:
        self.found = [np.zeros(0, np.int64)]  # src << 32 | dst
        self.others: list[tuple[IntArray, IntArray]] = []
        self.arrived: list[tuple[int, int, IntArray]] = []  # plane, dimension, arrivals

    def add(self, src: IntArray, dst: IntArray) -> None:
        """Edges of which many are alike: one of each is kept."""
        if len(src):
            self.found.append(distinct(src << 32 | dst))

    def add_all(self, src: IntArray, dst: IntArray) -> None:
        self.others.append((src, dst))

    def turn(self, plane: int, dim: int, arrivals: IntArray, starts: IntArray, channels: int) -> None:
        """From the dimensions before to this one: any arrival with any start at the same router.

        `arrivals`, `starts`: router * channels + channel.
        """
        for before in [ends for number, earlier, ends in self.arrived if number == plane and earlier < dim]:
            first = np.searchsorted(starts // channels, before // channels, "left")
            count = np.searchsorted(starts // channels, before // channels, "right") - first
            self.add(np.repeat(before % channels, count), starts[ranges(first, count)] % channels)
        self.arrived.append((plane, dim, arrivals))

    def arrays(self) -> tuple[IntArray, IntArray]:
        code = distinct(np.concatenate(self.found))
        parts = [(code >> 32, code & 0xFFFFFFFF), *self.others]
        return np.concatenate([src for src, _ in parts]), np.concatenate([dst for _, dst in parts])


def _check(relation: Relation) -> None:
    """Raises InputError where a table names a VC class that a link does not have."""
    direct = relation.link >= 0
    for link, vc_class in (
        (relation.link[direct], relation.vc_class[direct]),
        (relation.set_link, relation.set_class),
    ):
        wrong = np.flatnonzero((vc_class < 0) | (vc_class >= relation.link_classes[link]))
        if len(wrong):
            name, number = relation.link_name[int(link[wrong[0]])], int(vc_class[wrong[0]])
            raise InputError(f"the routes use VC class {number} of {name}, which it does not have")
    if (relation.link < FIRST_SET - relation.sets + 1).any():
        raise InputError("the routes name a candidate set that does not exist")
    grouped = relation.link_group >= 0
    if not grouped.any():
        return
    most = np.zeros(int(relation.link_group.max(initial=-1)) + 1, np.int32)
    np.maximum.at(most, relation.link_group[grouped], relation.link_classes[grouped])
    fewer = np.flatnonzero(grouped & (relation.link_classes < most[relation.link_group * grouped]))
    if len(fewer):
        name = relation.link_name[int(fewer[0])]
        raise InputError(f"{name} has fewer VC classes than others of its group, in which packets keep their class")
