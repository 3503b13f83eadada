"""All states that packets of a routing relation can reach, by breadth-first search with NumPy.

A *walk* is a target (an NPU, or one digit in a dimension) with the routers from which packets start toward it. The
future of a packet depends on its walk, plane, router and, where links form groups, its VC class. The search visits
each such state once instead of once per packet, which makes proofs fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pyxsim.arrays import BoolArray, Int32Array, IntArray
from pyxsim.routing.planes import candidates
from pyxsim.routing.relation import EACH, SKIP, Relation

# States per batch: large enough for NumPy, small enough for its temporaries to stay in the cache.
BATCH = 1 << 18
MOVES = 1 << 23  # and at most this many moves


@dataclass(frozen=True, eq=False)
class Walks:
    """Packets on one plane: the target of each walk, and the routers where its packets start.

    Attributes
    ----------
    plane
        Number of the plane.
    dims
        Dimensions in which packets move.
    digits
        int32[walks, len(dims)], digits of the targets.
    home
        int32[walks], routers of the targets; None: a walk ends where no digit differs.
    start_walk, start_router
        int64[starts].
    """

    plane: int
    dims: Sequence[int]
    digits: Int32Array
    home: Int32Array | None
    start_walk: IntArray
    start_router: IntArray


@dataclass(frozen=True, eq=False)
class Moves:
    """All moves of packets in a batch of states.

    Attributes
    ----------
    walk, router, plane
        int64[states].
    before
        int64[states], the channel by which the packets came, -1 at their start. In a compact exploration any channel
        of the same group and class, or -1 where neither matters.
    node
        int64[states], number of each state within the exploration.
    home
        bool[states], whether the packets have arrived; these states have no moves.
    start
        bool[states], whether packets start in the state.
    who
        int64[moves], index of the state that makes the move.
    channel
        int64[moves], the channel that it takes.
    waits
        bool[moves], whether a blocked packet waits for this channel; with an escape, only for the escape's channels.
    after
        int64[moves], number of the next state.
    """

    walk: IntArray
    router: IntArray
    plane: IntArray
    before: IntArray
    node: IntArray
    home: BoolArray
    start: BoolArray
    who: IntArray
    channel: IntArray
    waits: BoolArray
    after: IntArray


class Lost(Exception):
    """A packet without a next hop: its walk, router and plane, and the cause."""

    def __init__(self, walk: int, router: int, plane: int, why: str) -> None:
        super().__init__(why)
        self.walk, self.router, self.plane, self.why = walk, router, plane, why


def decide(
    relation: Relation, plane: int, router: IntArray, digits: Int32Array, dims: Sequence[int]
) -> tuple[IntArray, Int32Array, Int32Array, BoolArray]:
    """Return the candidates of n packets.

    Parameters
    ----------
    relation, plane
        The routes.
    router
        int64[n], router of each packet.
    digits
        int32[n, len(dims)], digits of the targets.
    dims
        Dimensions of the digits.

    Returns
    -------
    packet, link, vc_class
        Arrays of one length: a candidate of a packet, with the VC class of the table. Candidates of one packet are in
        order of dimensions, possibly interleaved with those of others.
    differs
        bool[n], whether a digit of the packet differs from the router's.
    """
    row = plane * relation.routers + router
    any_dimension = bool(relation.plane_any[plane])
    differs = np.zeros(len(router), np.bool_)
    waiting = np.arange(len(router))
    parts: list[tuple[IntArray, Int32Array, Int32Array]] = []
    for column, dim in enumerate(dims):
        own_digit = relation.own[row[waiting], dim]
        digit = digits[waiting, column]
        moves = (own_digit != SKIP) & (own_digit != digit)
        movers = waiting[moves]
        differs[movers] = True
        if len(movers):
            start, link, vc_class = candidates(relation, relation.offset[row[movers], dim] + digit[moves])
            parts.append((np.repeat(movers, np.diff(start)), link, vc_class))
        if not any_dimension:
            waiting = waiting[~moves]
    if len(parts) == 1:
        return (*parts[0], differs)
    none = np.zeros(0, np.int32)
    parts.append((np.zeros(0, np.int64), none, none))
    packet, link, vc_class = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return packet, link, vc_class, differs


class Explorer:
    """Explores sets of walks one after the other.

    Parameters
    ----------
    relation
        The routes.
    escapes
        Whether a packet with an escape waits for the escape only; else it waits for all of its candidates.
    compact
        Whether states are merged whose incoming channels have the same effect.
    first
        Number of the first state.
    """

    def __init__(self, relation: Relation, *, escapes: bool, compact: bool = False, first: int = 0) -> None:
        self.relation = relation
        self.classes = relation.classes
        self.channels = relation.links * self.classes
        self.escapes = escapes
        self.count = first
        # Places of a packet: the router where it starts, then the channels by which it may come.
        routers, channel = np.arange(relation.routers), np.arange(self.channels)
        link = channel // self.classes
        self.place_of_channel: IntArray = relation.routers + channel
        came, at = channel, relation.link_dst[link].astype(np.int64)
        if compact:
            group = relation.link_group[link].astype(np.int64)
            alike = (at * (int(group.max(initial=-1)) + 2) + group + 1) * self.classes + channel % self.classes
            grouped = np.flatnonzero(group >= 0)
            _, first_of, number = np.unique(alike[grouped], return_index=True, return_inverse=True)
            self.place_of_channel = at
            self.place_of_channel[grouped] = relation.routers + number
            came = grouped[first_of]
        self.came: IntArray = np.concatenate([np.full(relation.routers, -1), came])
        self.router: IntArray = np.concatenate([routers, relation.link_dst[came // self.classes]])
        self.places = len(self.came)

    def __call__(self, walks: Walks) -> Iterator[Moves]:
        """Yield the moves in breadth-first order; batches of walks share no state."""
        planes = self._planes(walks.plane)
        order = np.argsort(walks.start_walk, kind="stable")
        start_walk, start_router = walks.start_walk[order], walks.start_router[order]
        max_candidates = int(np.diff(self.relation.set_start).max(initial=1))  # per packet
        rows = max(1, min(BATCH // self.relation.routers, MOVES // (self.places * len(planes) * max_candidates)))
        for begin in range(0, len(walks.digits), rows):
            low, high = np.searchsorted(start_walk, (begin, begin + rows))
            if low < high:
                size = min(rows, len(walks.digits) - begin)
                yield from self._batch(walks, planes, begin, size, start_walk[low:high], start_router[low:high])

    def _planes(self, plane: int) -> list[int]:
        """The plane, and the escape planes on which its packets may stay."""
        planes = [plane]
        while self.relation.plane_sticky[planes[-1]]:
            escape = int(self.relation.plane_escape[planes[-1]])
            if escape < 0 or escape in planes or self.relation.plane_select[planes[-1]] != EACH:
                break
            planes.append(escape)
        return planes

    def _batch(
        self, walks: Walks, planes: list[int], begin: int, size: int, start_walk: IntArray, start_router: IntArray
    ) -> Iterator[Moves]:
        places = self.places
        number = np.full(size * len(planes) * places, -1, np.int32)
        front = self._fresh(number, (start_walk - begin) * len(planes) * places + start_router)
        start = np.ones(len(front), np.bool_)
        while len(front):
            state, place = np.divmod(front, places)
            local, which = np.divmod(state, len(planes))
            router, before = self.router[place], self.came[place]
            walk = local + begin
            home = np.zeros(len(front), np.bool_) if walks.home is None else router == walks.home[walk]
            parts = [
                self._moves(walks, planes, index, walk, router, before, home, np.flatnonzero(which == index))
                for index in range(len(planes))
            ]
            who, channel, waits, next_plane = (np.concatenate(part) for part in zip(*parts, strict=True))
            key = (local[who] * len(planes) + next_plane) * places + self.place_of_channel[channel]
            node = number[front].astype(np.int64)
            fresh = self._fresh(number, key)
            after = number[key].astype(np.int64)
            plane = np.array(planes)[which]
            yield Moves(walk, router, plane, before, node, home, start, who, channel, waits, after)
            front, start = fresh, np.zeros(len(fresh), np.bool_)

    def _fresh(self, number: Int32Array, keys: IntArray) -> IntArray:
        """Number the keys that have no number yet, and return each of them once."""
        new: IntArray = keys[number[keys] < 0]
        # Of several values assigned to one index NumPy keeps the last one, so each key finds one of its indices.
        number[new] = np.arange(len(new), dtype=np.int32)
        new = new[number[new] == np.arange(len(new))]
        number[new] = np.arange(self.count, self.count + len(new), dtype=np.int32)
        self.count += len(new)
        return new

    def _moves(
        self,
        walks: Walks,
        planes: list[int],
        plane_index: int,
        walk: IntArray,
        router: IntArray,
        before: IntArray,
        home: BoolArray,
        at: IntArray,
    ) -> tuple[IntArray, IntArray, BoolArray, IntArray]:
        """(state, channel, whether it waits, index of the next plane) of the moves of states `at`, all on one plane.

        Where walks have no target router, states in which no digit differs are marked in `home`.
        """
        relation, plane = self.relation, planes[plane_index]
        at = at[~home[at]]
        who, channel, differs = self._channels(walks, plane, walk, router, before, at)
        if walks.home is None:
            home[at[~differs]] = True
            at = at[differs]
        elif not differs.all():
            self._lose(walk, router, plane, at[~differs], "the route ends at another NPU")
        escape = int(relation.plane_escape[plane]) if relation.plane_select[plane] == EACH else -1
        if escape < 0:
            self._need(at, who, walk, router, plane, "no route")
            return who, channel, np.ones(len(who), np.bool_), np.full(len(who), plane_index, np.int64)
        # Candidates of an escape have the classes of its tables: the keep rule is for packets on a plane.
        escape_who, escapes, _ = self._channels(walks, escape, walk, router, None, at)
        self._need(at, escape_who, walk, router, escape, f"plane {plane} has no escape")
        leaves = plane_index + 1 if relation.plane_sticky[plane] and plane_index + 1 < len(planes) else plane_index
        waits = np.repeat([not self.escapes, True], [len(who), len(escape_who)])
        next_plane = np.repeat([plane_index, leaves], [len(who), len(escape_who)])
        if leaves != plane_index and np.bincount(channel, minlength=self.channels)[escapes].any():
            # A VC that is a candidate of both the plane and the escape counts for the plane.
            both = np.isin(escape_who * self.channels + escapes, who * self.channels + channel)
            next_plane[len(who) :][both] = plane_index
        return np.concatenate([who, escape_who]), np.concatenate([channel, escapes]), waits, next_plane

    def _channels(
        self, walks: Walks, plane: int, walk: IntArray, router: IntArray, before: IntArray | None, at: IntArray
    ) -> tuple[IntArray, IntArray, BoolArray]:
        """(state, channel) of every candidate, by the keep rule with `before`; which of `at` have a wrong digit."""
        relation = self.relation
        packet, link, vc_class, differs = decide(relation, plane, router[at], walks.digits[walk[at]], walks.dims)
        who = at[packet]
        if before is not None:
            came = before[who].astype(np.int32)
            before_link = np.where(came >= 0, came // self.classes, -1)
            vc_class = relation.keep(before_link, came % self.classes, link, vc_class)
        return who, link.astype(np.int64) * self.classes + vc_class, differs

    def _need(self, at: IntArray, who: IntArray, walk: IntArray, router: IntArray, plane: int, why: str) -> None:
        present = np.zeros(len(walk), np.bool_)
        present[who] = True
        self._lose(walk, router, plane, at[~present[at]], why)

    def _lose(self, walk: IntArray, router: IntArray, plane: int, who: IntArray, why: str) -> None:
        if len(who):
            raise Lost(int(walk[who[0]]), int(router[who[0]]), plane, why)
