"""A system layer without a network: a collective takes the same time after its last member has entered, for all of its
members, and so does a message after it was handed over. What it tells of one cycle comes together, after what was
asked for."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyxsim.collective.communicator import Communicator
from tests.system.ideal import options


@dataclass
class Open:
    """A collective or a message. `left`: the members that have not entered."""

    communicator: Communicator
    time: int
    tell: Callable[[Any, int], None]
    name: str = ""
    tag: int = 0
    left: set[int] = field(default_factory=set)
    start: int = -1
    end: int = -1


class FixedHands:
    """See above. `collective`, `message`: what they take, in cycles (from their bytes)."""

    def __init__(
        self,
        shape: Sequence[int],
        collective: Callable[[int], int] = lambda size: size,
        message: Callable[[int], int] = lambda size: size,
        **others: Any,
    ) -> None:
        self.shape = tuple(shape)
        self.npus = math.prod(shape)
        self.options = options(dims=len(self.shape), **others)
        self.endpoint = None
        self.cycle = 0
        self.log: list[tuple[int, str, int]] = []  # cycle, name, NPU of all that began
        self._times = (collective, message)
        self._events: list[tuple[int, int, Any]] = []
        self._ends: list[tuple[int, int, Open, int]] = []
        self._count = 0

    def communicator(self, members: Sequence[int]) -> Communicator:
        return Communicator.of(tuple(members), self.shape)

    def issue(self, kind: str, size: int, *, communicator: Communicator, joined: Any, **others: Any) -> Open:
        assert others.pop("open") is True
        members = set(communicator.members)
        return Open(communicator, self._times[0](size), joined, others["name"], others["tag"], members)

    def enter(self, collective: Open, npu: int) -> None:
        self.log.append((self.cycle, collective.name, npu))
        collective.start = self.cycle if collective.start < 0 else collective.start
        collective.left.remove(npu)
        if not collective.left:
            collective.end = self.cycle + collective.time
            for member in collective.communicator.members:
                self._end(collective, member)

    def send(self, src: int, dst: int, size: int, *, done: Any, **others: Any) -> Open:
        assert others.pop("open") is True
        pair = Communicator((src, dst), (2,), (-1,))
        return Open(pair, self._times[1](size), lambda each, _: done(each), others["name"], others["tag"], {src})

    def hand_over(self, message: Open) -> None:
        (npu,) = message.left
        self.log.append((self.cycle, message.name, npu))
        message.left.clear()
        message.start, message.end = self.cycle, self.cycle + message.time
        self._end(message, npu)

    def at(self, cycle: int, action: Callable[[], None]) -> None:
        assert cycle >= self.cycle
        self._count += 1
        heapq.heappush(self._events, (cycle, self._count, action))

    def _end(self, what: Open, npu: int) -> None:
        self._count += 1
        heapq.heappush(self._ends, (what.end, self._count, what, npu))

    def run(self) -> int:
        while self._events or self._ends:
            self.cycle = min(each[0][0] for each in (self._events, self._ends) if each)
            while self._events and self._events[0][0] <= self.cycle:
                heapq.heappop(self._events)[2]()
            while self._ends and self._ends[0][0] <= self.cycle:
                _, _, what, npu = heapq.heappop(self._ends)
                what.tell(what, npu)
        return self.cycle
