"""Detect packets that can never move again while others still do, and find which packet waits for which.

The engine reports a deadlock when nothing moves any more. One that holds a part of the network, while traffic flows
round it, is found by looking every now and then: `Watchdog`. What it calls a deadlock is one, however heavy the load.

A packet at the front of a VC has the flit that is to leave next. It may have an output VC, or request one of several.
Take any set of such packets and suppose that none of them ever moves. Then an output VC is

- *full* for good, for a flit that needs `n` credits, if the front packet of its buffer downstream is of the set, all
  slots that it has out hold flits there (nothing is on its way, in either direction), and `n` credits are not left;
  where VCs share a pool of slots, the same must hold of every VC that has slots of it, unless only those of the VC's
  own count;
- *kept* for good if the packet that holds it is of the set; or, where a VC must be drained before it is used again, if
  the front packet of its buffer downstream is of the set.

Slots are emptied only by the front packet of a buffer, and VCs are given up only by their packet. So if every packet
of the set holds a VC that is full for good, or requests VCs each of which is full or kept for good, none of them is
the first to move: the supposition proves itself. The largest such set is found by leaving out, again and again, who
has a way to move (a greatest fixpoint). Packets that wait for their turn only, at whatever load, have a credit, or a
VC whose holder moves, and are left out; so no load raises an alarm. Conversely, once all flits and credits on their
way have arrived, the packets of any deadlock are such a set: it is found at the second look after that, at the latest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import Links
from pyxsim.errors import DeadlockError

_SHOWN = 12

Entry = Mapping[str, Any]  # what Engine.waiting says of a front packet
Place = tuple[int, int]  # (link, VC)


@dataclass(frozen=True)
class SlotState:
    """The slots of all VCs: `credit` and `occupancy` per VC, its flits counted at the sender and in the buffer.

    Per link: `first`, the place of its VC 0 among all VCs, `vcs`, `depth`, `pool_left`. A `credit` below 0 is slots of
    the pool.
    """

    first: Sequence[int]
    vcs: Sequence[int]
    depth: Sequence[int]
    credit: Sequence[int]
    occupancy: Sequence[int]
    pool_left: Sequence[int]

    def credits(self, place: Place) -> int:
        """Flits that may still be sent on a VC."""
        link, vc = place
        return max(0, self.credit[self.first[link] + vc]) + self.pool_left[link]

    def lacks_own(self, place: Place, need: int) -> bool:
        """Whether a VC has fewer than `need` slots of its own left, and not all of its own."""
        link, vc = place
        return max(0, self.credit[self.first[link] + vc]) < min(need, self.depth[link])

    def settled(self, place: Place) -> bool:
        """Whether every slot that is out holds a flit in the buffer."""
        link, vc = place
        number = self.first[link] + vc
        return self.depth[link] - self.credit[number] == self.occupancy[number]

    def borrowers(self, link: int) -> Iterator[Place]:
        """VCs of a link that have slots of its pool."""
        for vc in range(self.vcs[link]):
            if self.credit[self.first[link] + vc] < 0:
                yield link, vc


class WaitGraph:
    """The wait-for graph of the front packets `stuck`, from the credits that they need and the free slots.

    `needs`: credits that the flit of each needs. `drained`, `ordered`: as in [network.router].
    """

    def __init__(
        self,
        stuck: Sequence[Entry],
        needs: Sequence[int],
        room: SlotState,
        *,
        drained: bool = False,
        ordered: bool = False,
    ) -> None:
        self.stuck, self.needs, self.room, self.drained = stuck, needs, room, drained
        self.at: dict[Place, int] = {(each["link"], each["vc"]): i for i, each in enumerate(stuck)}
        self.holder: dict[Place, int] = {
            (each["wants"], each["holds"]): i for i, each in enumerate(stuck) if each["holds"] >= 0
        }
        self.before: list[list[int]] = [[] for _ in stuck]  # older packets of the port that want the same output
        if ordered:
            self._find_elders()

    def _find_elders(self) -> None:
        ports: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, each in enumerate(self.stuck):
            ports[each["link"], each["wants"]].append(i)
        for members in ports.values():
            members.sort(key=lambda i: (self.stuck[i]["front"], self.stuck[i]["vc"]))
            for place, i in enumerate(members):
                self.before[i] = members[:place]

    def never_move(self) -> dict[int, list[int]]:
        """The largest set of packets that never move again: each with others of the set that it waits for."""
        alive = [True] * len(self.stuck)  # in the set
        reasons: dict[int, list[int]] = {}
        waiters: list[set[int]] = [set() for _ in self.stuck]
        again = list(range(len(self.stuck)))
        while again:
            i = again.pop()
            if not alive[i]:
                continue
            found = self._stopped(i, alive)
            if found is None:
                alive[i] = False
                reasons.pop(i, None)
                again += waiters[i]
                continue
            reasons[i] = found
            for other in found:
                waiters[other].add(i)
        return reasons

    def _stopped(self, i: int, alive: Sequence[bool]) -> list[int] | None:
        """Return the packets of the set that block this one for good, or None if it can move."""
        for elder in self.before[i]:
            if alive[elder]:
                return [elder]
        each = self.stuck[i]
        if each["holds"] >= 0:
            return self._full((each["wants"], each["holds"]), self.needs[i], alive)
        found: dict[int, None] = {}
        for link, low, high in each["asks"]:
            for vc in range(low, high):
                place = link, vc
                why = self._full(place, self.needs[i], alive, own=each["own"]) or self._kept(place, alive)
                if why is None:
                    return None
                found.update(dict.fromkeys(why))
        return list(found) or None

    def _full(self, place: Place, need: int, alive: Sequence[bool], *, own: bool = False) -> list[int] | None:
        room = self.room
        front = self.at.get(place)
        if front is None or not alive[front] or not room.settled(place):
            return None
        if own:
            return [front] if room.lacks_own(place, need) else None
        if room.credits(place) >= need:
            return None
        why = [front]
        for other in room.borrowers(place[0]):
            beside = self.at.get(other)
            if beside is None or not alive[beside] or not room.settled(other):
                return None
            why.append(beside)
        return why

    def _kept(self, place: Place, alive: Sequence[bool]) -> list[int] | None:
        holder = self.holder.get(place)
        if holder is not None and alive[holder]:
            return [holder]
        front = self.at.get(place) if self.drained else None
        return [front] if front is not None and alive[front] else None


def deadlock_error(
    cycle: int,
    stuck: Sequence[Entry],
    reasons: Mapping[int, Sequence[int]],
    link_name: Callable[[int], str],
    message_name: Callable[[int], str],
    *,
    others_move: bool = False,
) -> DeadlockError:
    """The error that names a circle of VCs whose packets wait for each other. `reasons`: what `never_move` says."""
    import networkx as nx  # late: few runs need it, and it is slow to load

    graph = nx.DiGraph([(i, other) for i, others in reasons.items() for other in others])
    try:
        circle = [edge[0] for edge in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        circle = list(range(len(stuck)))
    names = [
        f"{link_name(each['link'])} VC {each['vc']} ({message_name(each['message'])})"
        for each in (stuck[i] for i in circle)
    ]
    shown = " -> ".join(names[:_SHOWN]) + (f" -> {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    what = f"{len(stuck)} VCs hold flits and nothing can move"
    if others_move:
        what = f"the packets in {len(reasons)} VCs can never move again, though others do"
    return DeadlockError(f"deadlock in cycle {cycle}: {what}; waiting for each other: {shown}", names)


class Watchdog:
    """Searches for packets that never move again, every `interval` cycles. `needs`: credits that a flit needs."""

    def __init__(
        self,
        engine: Engine,
        links: Links,
        interval: int,
        needs: Callable[[Entry], int],
        *,
        drained: bool = False,
        ordered: bool = False,
    ) -> None:
        self.engine, self.interval, self.needs = engine, interval, needs
        self.drained, self.ordered = drained, ordered
        self.due = interval
        self._vcs, self._depth = links.vcs.tolist(), links.depth.tolist()
        self._before: dict[Place, tuple[int, ...]] = {}

    def waits(self, stuck: Sequence[Entry]) -> dict[int, list[int]]:
        """Return the packets that never move again, each with the packets that it waits for."""
        state = self.engine.state(True)
        room = SlotState(
            state["link.base"].tolist(),
            self._vcs,
            self._depth,
            state["out.credit"].tolist(),
            state["vc.occupancy"].tolist(),
            state["link.pool_left"].tolist(),
        )
        needs = [self.needs(each) for each in stuck]
        return WaitGraph(stuck, needs, room, drained=self.drained, ordered=self.ordered).never_move()

    def passed(self, cycle: int) -> None:
        """The network has come to `cycle` in periods in which everything moves: looking would have found nothing."""
        self.due += max(0, -(-(cycle - self.due) // self.interval)) * self.interval

    def look(self) -> tuple[list[Entry], dict[int, list[int]]]:
        """Return packets that have not moved since the last call, and those that never will with what they wait for."""
        self.due = self.engine.now + self.interval
        if not self.engine.flits_in_flight:
            self._before = {}
            return [], {}
        now: dict[Place, tuple[int, ...]] = {}
        unmoved: list[Entry] = []
        for each in self.engine.waiting():
            place = each["link"], each["vc"]
            now[place] = (each["message"], each["packet"], each["left"])
            if self._before.get(place) == now[place]:
                unmoved.append(each)
        self._before = now
        return unmoved, self.waits(unmoved) if unmoved else {}
