"""Detect packets that can never move again while others still do, and find which packet waits for which.

The engine reports a deadlock when nothing moves. The periodic `Watchdog` finds a deadlock in a part of the network
while other traffic moves. It has no false alarms, whatever the load.

A front packet is the packet at the front of a VC. It holds an output VC, or requests one of several. Assume a set of
front packets of which none ever moves. Then an output VC is

- *full* forever, for a flit that needs `n` credits, if the front packet of its downstream buffer is in the set, all
  used slots hold flits there (no flit or credit is in flight), and fewer than `n` credits remain; where VCs share a
  pool of slots, the same must hold for every VC that uses slots of the pool, unless only the VC's own slots count.
  With a `shared_limit` it is also full if the VC uses as many slots as its limit allows, at the largest value that the
  limit can have while the packets of the set hold their VCs;
- *kept* forever if the packet that holds it is in the set; or, where a VC must drain before its next use, if the front
  packet of its downstream buffer is in the set.

Only the front packet of a buffer empties slots, and only its packet releases a VC. So if every packet of the set holds
a VC that is full forever, or requests VCs that are all full or kept forever, none of them is the first to move, and the
assumption holds. The largest such set is a greatest fixpoint: packets that can move are removed until none is left to
remove. A packet that only waits for its turn has a credit, or requests a VC whose holder moves, and is removed.
Conversely, once all flits and credits in flight have arrived, the packets of a deadlock form such a set, so the second
search after that finds it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import EQUAL_SHARE, Links
from pyxsim.errors import DeadlockError

_SHOWN = 12

Entry = Mapping[str, Any]  # a front packet, as in Engine.waiting
Place = tuple[int, int]  # (link, VC)


@dataclass(frozen=True)
class SlotState:
    """The slots of all VCs.

    Attributes
    ----------
    first
        Per link: number of its VC 0 among all VCs.
    vcs, depth, pool_left
        Per link: VCs, slots of a VC, free slots of the pool.
    credit
        Per VC: credits at the sender; below 0 they are slots of the pool.
    occupancy
        Per VC: flits in the buffer.
    slots
        Per link: slots of all its VCs, and of its pool.
    limit
        Most slots that a VC may use: a number, EQUAL_SHARE or POWER_SHARE; 0: all.
    """

    first: Sequence[int]
    vcs: Sequence[int]
    depth: Sequence[int]
    credit: Sequence[int]
    occupancy: Sequence[int]
    pool_left: Sequence[int]
    slots: Sequence[int] = ()
    limit: int = 0

    def over_limit(self, place: Place, need: int, held: int) -> bool:
        """Return whether a VC lacks `need` slots within its limit, if packets hold `held` or more VCs of its link."""
        link, vc = place
        most = self.limit
        if most < 0:
            parts = max(1, held)
            most = max(1, self.slots[link] // (parts if most == EQUAL_SHARE else 1 << (parts - 1).bit_length()))
        return bool(most) and self.depth[link] - self.credit[self.first[link] + vc] + need > most

    def credits(self, place: Place) -> int:
        """Return the number of flits that can be sent on a VC."""
        link, vc = place
        return max(0, self.credit[self.first[link] + vc]) + self.pool_left[link]

    def lacks_own(self, place: Place, need: int) -> bool:
        """Return whether a VC has fewer than `need` free slots of its own, and not all of them."""
        link, vc = place
        return max(0, self.credit[self.first[link] + vc]) < min(need, self.depth[link])

    def settled(self, place: Place) -> bool:
        """Return whether every used slot holds a flit in the buffer, so that none is in flight."""
        link, vc = place
        number = self.first[link] + vc
        return self.depth[link] - self.credit[number] == self.occupancy[number]

    def borrowers(self, link: int) -> Iterator[Place]:
        """Yield the VCs of a link that use slots of its pool."""
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
        self.at: dict[Place, int] = {(packet["link"], packet["vc"]): i for i, packet in enumerate(stuck)}
        self.holder: dict[Place, int] = {
            (packet["wants"], packet["holds"]): i for i, packet in enumerate(stuck) if packet["holds"] >= 0
        }
        self.before: list[list[int]] = [[] for _ in stuck]  # older packets of the port that request the same output
        if ordered:
            self._find_elders()

    def _find_elders(self) -> None:
        ports: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, entry in enumerate(self.stuck):
            ports[entry["link"], entry["wants"]].append(i)
        for members in ports.values():
            members.sort(key=lambda i: (self.stuck[i]["front"], self.stuck[i]["vc"]))
            for index, i in enumerate(members):
                self.before[i] = members[:index]

    def never_move(self) -> dict[int, list[int]]:
        """Return the largest set of packets that never move again: each with others of the set that it waits for."""
        alive = [True] * len(self.stuck)  # in the set
        reasons: dict[int, list[int]] = {}
        waiters: list[set[int]] = [set() for _ in self.stuck]
        unchecked = list(range(len(self.stuck)))
        while unchecked:
            i = unchecked.pop()
            if not alive[i]:
                continue
            blockers = self._stopped(i, alive)
            if blockers is None:
                alive[i] = False
                reasons.pop(i, None)
                unchecked += waiters[i]
                continue
            reasons[i] = blockers
            for blocker in blockers:
                waiters[blocker].add(i)
        return reasons

    def _stopped(self, i: int, alive: Sequence[bool]) -> list[int] | None:
        """Return the packets of the set that block this one for good, or None if it can move."""
        for elder in self.before[i]:
            if alive[elder]:
                return [elder]
        entry = self.stuck[i]
        if entry["holds"] >= 0:
            return self._full((entry["wants"], entry["holds"]), self.needs[i], alive)
        blockers: dict[int, None] = {}
        for link, low, high in entry["asks"]:
            for vc in range(low, high):
                place = link, vc
                need = entry["own"] or self.needs[i]
                reasons = self._full(place, need, alive, own=entry["own"] > 0) or self._kept(place, alive)
                if reasons is None:
                    return None
                blockers.update(dict.fromkeys(reasons))
        return list(blockers) or None

    def _full(self, place: Place, need: int, alive: Sequence[bool], *, own: bool = False) -> list[int] | None:
        room = self.room
        front = self.at.get(place)
        if front is None or not alive[front] or not room.settled(place):
            return None
        if room.limit:
            holders = (self.holder.get((place[0], vc)) for vc in range(room.vcs[place[0]]))
            held = [holder for holder in holders if holder is not None and alive[holder]]
            if room.over_limit(place, need, len(held)):
                return [front] if room.limit > 0 else [front, *held]
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
    """Return the error that lists a cycle of VCs whose packets wait for each other; `reasons` as from `never_move`."""
    import networkx as nx  # late: few runs need it, and it is slow to load

    graph = nx.DiGraph([(i, blocker) for i, blockers in reasons.items() for blocker in blockers])
    try:
        cycle_of_vcs = [edge[0] for edge in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        cycle_of_vcs = list(range(len(stuck)))
    names = [
        f"{link_name(entry['link'])} VC {entry['vc']} ({message_name(entry['message'])})"
        for entry in (stuck[i] for i in cycle_of_vcs)
    ]
    shown = " -> ".join(names[:_SHOWN]) + (f" -> {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    what = f"{len(stuck)} VCs hold flits and nothing can move"
    if others_move:
        what = f"the packets in {len(reasons)} VCs can never move again, though others do"
    return DeadlockError(f"deadlock in cycle {cycle}: {what}; waiting for each other: {shown}", names)


class Watchdog:
    """Searches for packets that never move again, every `interval` cycles.

    `needs`: credits that a flit needs. `limit`: as in `SlotState`.
    """

    def __init__(
        self,
        engine: Engine,
        links: Links,
        interval: int,
        needs: Callable[[Entry], int],
        *,
        drained: bool = False,
        ordered: bool = False,
        limit: int = 0,
    ) -> None:
        self.engine, self.interval, self.needs = engine, interval, needs
        self.drained, self.ordered, self.limit = drained, ordered, limit
        self._slots = (links.vcs * links.depth + links.pool).tolist()
        self.due = interval
        self._vcs, self._depth = links.vcs.tolist(), links.depth.tolist()
        self._first = (np.cumsum(links.vcs) - links.vcs).tolist()
        self._before: dict[Place, tuple[int, ...]] = {}
        self._settled_at = -1  # when a search found all packets where they were before, and nothing wrong

    @property
    def settled(self) -> bool:
        """Whether a search has just found nothing, and will find nothing either if nothing moves meanwhile."""
        return self._settled_at == self.engine.now

    def waits(self, stuck: Sequence[Entry]) -> dict[int, list[int]]:
        """Return the packets that never move again, each with the packets that it waits for."""
        credit, occupancy, pool_left = (values.tolist() for values in self.engine.slots())
        room = SlotState(self._first, self._vcs, self._depth, credit, occupancy, pool_left, self._slots, self.limit)
        needs = [self.needs(packet) for packet in stuck]
        return WaitGraph(stuck, needs, room, drained=self.drained, ordered=self.ordered).never_move()

    def passed(self, cycle: int) -> None:
        """Note that no search up to `cycle` would find anything: everything moves in a period, or see `settled`."""
        self.due += max(0, -(-(cycle - self.due) // self.interval)) * self.interval

    def search(self) -> tuple[list[Entry], dict[int, list[int]]]:
        """Return packets that have not moved since the last call, and those that never will, with their blockers."""
        self.due = self.engine.now + self.interval
        if not self.engine.flits_in_flight:
            self._before, self._settled_at = {}, self.engine.now
            return [], {}
        now: dict[Place, tuple[int, ...]] = {}
        unmoved: list[Entry] = []
        for entry in self.engine.waiting():
            place = entry["link"], entry["vc"]
            now[place] = (entry["message"], entry["packet"], entry["left"])
            if self._before.get(place) == now[place]:
                unmoved.append(entry)
        self._before = now
        reasons = self.waits(unmoved) if unmoved else {}
        self._settled_at = self.engine.now if len(unmoved) == len(now) and not reasons else -1
        return unmoved, reasons
