"""Bytes that flow over shared links, each at the rate that is fair: max-min, by filling all links evenly.

What a flow moves is a list of stretches, each over some links at once, one after the other. A stretch ends with a
cycle, the first in which its bytes are through.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from pyxsim.system.memory.shares import Shares

Path = tuple[int, ...]
Stretch = tuple[Path, int]  # links, bytes


@dataclass
class Used:
    """What a memory, or a link to it, has done: bytes that it carried, and cycles in which it had something to carry.

    `rate`: bytes per cycle that it can carry; 0 for as many as anybody wants.
    """

    name: str
    rate: Fraction
    bytes: int = 0
    busy: int = 0


class _Flow(NamedTuple):
    """`stretches`: those to come, the last is next."""

    number: int
    stretches: list[Stretch]


class Flows:
    """Flows over some links that share them."""

    def __init__(self, links: Sequence[Used]) -> None:
        self._links = links
        self._shares = Shares([link.rate for link in links])
        self._flows: dict[int, _Flow] = {}  # in the order in which they were begun
        self._waiting: list[tuple[int, int]] = []  # by the cycle in which they begin
        self._begun = 0
        self._now = 0

    def begin(self, at: int, number: int, stretches: Sequence[Stretch]) -> None:
        """A flow that moves its first byte in cycle `at`."""
        self._flows[self._begun] = _Flow(number, list(reversed(stretches)))
        heapq.heappush(self._waiting, (at, self._begun))
        self._begun += 1

    def run(self, now: int) -> list[int]:
        """Carry everything on to a cycle; the numbers of the flows that have ended, as they began."""
        through = self._shares.carry(now - self._now)
        self._now = now
        while self._waiting and self._waiting[0][0] <= now:
            through.append(heapq.heappop(self._waiting)[1])
        return [self._flows.pop(flow).number for flow in sorted(through) if not self._go_on(flow)]

    def next(self) -> int:
        """The first cycle in which a flow begins or a stretch ends; -1: none."""
        following = [self._waiting[0][0]] if self._waiting else []
        if (cycles := self._shares.next()) >= 0:
            following.append(self._now + cycles)
        return min(following, default=-1)

    def used(self) -> list[Used]:
        """What the links have done so far."""
        for link, busy in zip(self._links, self._shares.busy(), strict=True):
            link.busy = busy
        return list(self._links)

    def _go_on(self, flow: int) -> bool:
        """Begin with the next stretch of a flow that has bytes; False if there is none."""
        stretches = self._flows[flow].stretches
        while stretches:
            path, size = stretches.pop()
            if size:
                self._shares.begin(path, size, flow)
                for link in path:
                    self._links[link].bytes += size
                return True
        return False
