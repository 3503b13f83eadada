"""Where packets can be: every state that a routing relation leads to, found in breadth with numpy.

A *walk* is a target (an NPU, or one digit in a dimension) with the routers from which packets set out for it. A
packet's future depends on its walk, its plane, its router and, where links form groups, the VC class that it has. So
states are not followed once for each packet but once for each such combination: that makes proofs fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pyxsim.arrays import BoolArray, Int32Array, IntArray
from pyxsim.routing.planes import candidates
from pyxsim.routing.relation import EACH, SKIP, Relation

# States that are looked at together: enough to keep numpy busy, few enough for its temporaries to stay in the cache.
BATCH = 1 << 18
MOVES = 1 << 23  # and at most this many moves, if every channel leads to them


@dataclass(frozen=True, eq=False)
class Walks:
    """Packets on one plane: for each walk its target, and the routers where packets of which walk start.

    digits   int32[walks, len(dims)]  of the targets, in the dimensions that count
    home     int32[walks]             their routers; None: a walk ends where no digit differs
    start_walk, start_router  int64[starts]
    """

    plane: int
    dims: Sequence[int]
    digits: Int32Array
    home: Int32Array | None
    start_walk: IntArray
    start_router: IntArray


@dataclass(frozen=True, eq=False)
class Moves:
    """All that packets in some states can do next.

    walk, router, plane  int64[states]
    before    int64[states]   the channel by which they came, -1 at their start; in a compact exploration any channel
                              whose group and class are the same, or -1 where neither matters
    node      int64[states]   a number of each state, counted through all that is explored together
    home      bool[states]    those that have arrived; they make no moves
    start     bool[states]    those in which packets start
    who       int64[moves]    the state (its place here) that makes the move
    channel   int64[moves]    the channel that it takes
    waits     bool[moves]     whether a packet that cannot go anywhere else waits for this channel: where there is an
                              escape, its channels only
    after     int64[moves]    the number of the state that follows
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
    """A packet without a next hop: its walk, router and plane, and why."""

    def __init__(self, walk: int, router: int, plane: int, why: str) -> None:
        super().__init__(why)
        self.walk, self.router, self.plane, self.why = walk, router, plane, why


def decide(
    relation: Relation, plane: int, router: IntArray, digits: Int32Array, dims: Sequence[int]
) -> tuple[IntArray, Int32Array, Int32Array, BoolArray]:
    """All candidates of many packets: (packet, link, VC class by the table), and whether a digit of a packet differs.

    digits  int32[n, len(dims)] of the targets. Candidates of a packet come in the order of its dimensions, but those
    of different packets may come in between.
    """
    row = plane * relation.routers + router
    every = bool(relation.plane_any[plane])
    differs = np.zeros(len(router), np.bool_)
    waiting = np.arange(len(router))
    found: list[tuple[IntArray, Int32Array, Int32Array]] = []
    for column, dim in enumerate(dims):
        mine = relation.own[row[waiting], dim]
        digit = digits[waiting, column]
        goes = (mine != SKIP) & (mine != digit)
        who = waiting[goes]
        differs[who] = True
        if len(who):
            start, link, vc_class = candidates(relation, relation.offset[row[who], dim] + digit[goes])
            found.append((np.repeat(who, np.diff(start)), link, vc_class))
        if not every:
            waiting = waiting[~goes]
    if len(found) == 1:
        return (*found[0], differs)
    none = np.zeros(0, np.int32)
    found.append((np.zeros(0, np.int64), none, none))
    packet, link, vc_class = (np.concatenate(part) for part in zip(*found, strict=True))
    return packet, link, vc_class, differs


class Explorer:
    """Explores the walks given to it, one set after the other, and numbers their states from `first` on.

    `escapes`: whether a packet with an escape waits for nothing else (else it waits for all of its candidates).
    `compact`: states keep only what matters of the incoming channel, so that there are fewer.
    """

    def __init__(self, relation: Relation, *, escapes: bool, compact: bool = False, first: int = 0) -> None:
        self.relation = relation
        self.classes = relation.classes
        self.channels = relation.links * self.classes
        self.escapes = escapes
        self.count = first
        # Places of a packet: the router where it starts or, behind them, the channel by which it came.
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
        """In breadth; states of later batches have nothing to do with those of earlier ones."""
        planes = self._planes(walks.plane)
        order = np.argsort(walks.start_walk, kind="stable")
        start_walk, start_router = walks.start_walk[order], walks.start_router[order]
        most = int(np.diff(self.relation.set_start).max(initial=1))  # candidates of a packet
        rows = max(1, min(BATCH // self.relation.routers, MOVES // (self.places * len(planes) * most)))
        for begin in range(0, len(walks.digits), rows):
            low, high = np.searchsorted(start_walk, (begin, begin + rows))
            if low < high:
                size = min(rows, len(walks.digits) - begin)
                yield from self._batch(walks, planes, begin, size, start_walk[low:high], start_router[low:high])

    def _planes(self, plane: int) -> list[int]:
        """The plane, and those that packets come to when they stay on its escape."""
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
            found = [
                self._moves(walks, planes, here, walk, router, before, home, np.flatnonzero(which == here))
                for here in range(len(planes))
            ]
            who, channel, waits, then = (np.concatenate(part) for part in zip(*found, strict=True))
            key = (local[who] * len(planes) + then) * places + self.place_of_channel[channel]
            node = number[front].astype(np.int64)
            fresh = self._fresh(number, key)
            after = number[key].astype(np.int64)
            plane = np.array(planes)[which]
            yield Moves(walk, router, plane, before, node, home, start, who, channel, waits, after)
            front, start = fresh, np.zeros(len(fresh), np.bool_)

    def _fresh(self, number: Int32Array, keys: IntArray) -> IntArray:
        """Those of the keys that have no number yet, once each, with numbers given to them."""
        new: IntArray = keys[number[keys] < 0]
        # Of several values assigned to one place numpy keeps the last one: so each key finds one of its places.
        number[new] = np.arange(len(new), dtype=np.int32)
        new = new[number[new] == np.arange(len(new))]
        number[new] = np.arange(self.count, self.count + len(new), dtype=np.int32)
        self.count += len(new)
        return new

    def _moves(
        self,
        walks: Walks,
        planes: list[int],
        here: int,
        walk: IntArray,
        router: IntArray,
        before: IntArray,
        home: BoolArray,
        at: IntArray,
    ) -> tuple[IntArray, IntArray, BoolArray, IntArray]:
        """(state, channel, whether it waits, place of the next plane) of the states `at`, all on one plane.

        States in which no digit differs become home where walks have no router to end at.
        """
        relation, plane = self.relation, planes[here]
        at = at[~home[at]]
        who, channel, differs = self._channels(walks, plane, walk, router, before, at)
        if walks.home is None:
            home[at[~differs]] = True
            at = at[differs]
        elif not differs.all():
            self._lose(walk, router, plane, at[~differs], "the route ends at another NPU")
        escape = int(relation.plane_escape[plane]) if relation.plane_select[plane] == EACH else -1
        if escape < 0:
            self._need(at, who, walk, router, plane, "there is no route")
            return who, channel, np.ones(len(who), np.bool_), np.full(len(who), here, np.int64)
        # What an escape offers is in the classes of its tables: the keep rule is for packets on a plane.
        out, escapes, _ = self._channels(walks, escape, walk, router, None, at)
        self._need(at, out, walk, router, escape, f"plane {plane} has no escape")
        leaves = here + 1 if relation.plane_sticky[plane] and here + 1 < len(planes) else here
        waits = np.repeat([not self.escapes, True], [len(who), len(out)])
        then = np.repeat([here, leaves], [len(who), len(out)])
        if leaves != here and np.bincount(channel, minlength=self.channels)[escapes].any():
            # A VC that is both a candidate of the plane and an escape is one of the plane.
            both = np.isin(out * self.channels + escapes, who * self.channels + channel)
            then[len(who) :][both] = here
        return np.concatenate([who, out]), np.concatenate([channel, escapes]), waits, then

    def _channels(
        self, walks: Walks, plane: int, walk: IntArray, router: IntArray, before: IntArray | None, at: IntArray
    ) -> tuple[IntArray, IntArray, BoolArray]:
        """(state, channel) of every candidate, by the keep rule with `before`; which of `at` have a digit to set."""
        relation = self.relation
        packet, link, vc_class, differs = decide(relation, plane, router[at], walks.digits[walk[at]], walks.dims)
        who = at[packet]
        if before is not None:
            came = before[who].astype(np.int32)
            before_link = np.where(came >= 0, came // self.classes, -1)
            vc_class = relation.keep(before_link, came % self.classes, link, vc_class)
        return who, link.astype(np.int64) * self.classes + vc_class, differs

    def _need(self, at: IntArray, who: IntArray, walk: IntArray, router: IntArray, plane: int, why: str) -> None:
        has = np.zeros(len(walk), np.bool_)
        has[who] = True
        self._lose(walk, router, plane, at[~has[at]], why)

    def _lose(self, walk: IntArray, router: IntArray, plane: int, who: IntArray, why: str) -> None:
        if len(who):
            raise Lost(int(walk[who[0]]), int(router[who[0]]), plane, why)
