"""Bytes that flow over shared links, each at the rate that is fair: max-min, by filling all links evenly.

What a flow moves is a list of stretches, each over some links at once, one after the other. A stretch ends with a
cycle, the first in which its bytes are through.

Bytes are counted in whole parts so small that nobody sees them: rates are rounded down to parts, which is less than a
speck of all that a flow moves, and who has less than a speck left has nothing left.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

Path = tuple[int, ...]
Stretch = tuple[Path, int]  # links, bytes
_PARTS = 1 << 96  # of a byte
_SPECK = _PARTS >> 20


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
    """What has begun, in which order; `stretches`: those to come, the last is next."""

    order: int
    number: int
    stretches: list[Stretch]


class _Way:
    """Flows over the same links, which have the same rate. `passed`: parts that each of them would have moved if it had
    always been there; of each flow where that will be at the end of its stretch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rate = 0
        self.passed = 0
        self.ends: list[tuple[int, _Flow]] = []  # a heap


class Flows:
    """Flows over some links that share them."""

    def __init__(self, links: Sequence[Used]) -> None:
        self.links = links
        self._rates = [int(link.rate * _PARTS) for link in links]
        self._ways: dict[Path, _Way] = {}  # those that have flows
        self._over: dict[int, int] = {}  # flows over each link that has some
        self._waiting: list[tuple[int, _Flow]] = []  # by the cycle in which they begin
        self._begun = 0
        self._now = 0
        self._next = -1
        self._known = True  # the rates, and `_next`

    def begin(self, at: int, number: int, stretches: Sequence[Stretch]) -> None:
        """A flow that moves its first byte in cycle `at`."""
        heapq.heappush(self._waiting, (at, _Flow(self._begun, number, list(reversed(stretches)))))
        self._begun += 1

    def run(self, now: int) -> list[int]:
        """Carry everything on to a cycle; the numbers of the flows that have ended, as they began."""
        time, self._now = now - self._now, now
        for link in self._over:
            self.links[link].busy += time
        through: list[_Flow] = []
        for way in list(self._ways.values()):
            way.passed += way.rate * time
            while way.ends and way.ends[0][0] - way.passed <= _SPECK:
                through.append(heapq.heappop(way.ends)[1])
                self._count(way.path, -1)
            if not way.ends:
                del self._ways[way.path]
        while self._waiting and self._waiting[0][0] <= now:
            through.append(heapq.heappop(self._waiting)[1])
        self._known &= not through
        return [flow.number for flow in sorted(through) if not self._go_on(flow)]

    def next(self) -> int:
        """The first cycle in which a flow begins or a stretch ends; -1: none."""
        if not self._known:
            self._fill()
            ends = (self._now - (_SPECK + way.passed - way.ends[0][0]) // way.rate for way in self._ways.values())
            self._next = min(ends, default=-1)
            self._known = True
        first = self._waiting[0][0] if self._waiting else -1
        return max(first, self._next) if min(first, self._next) < 0 else min(first, self._next)

    def _go_on(self, flow: _Flow) -> bool:
        """Begin with the next stretch of a flow that has bytes; False if there is none."""
        while flow.stretches:
            path, size = flow.stretches.pop()
            if size:
                way = self._ways.setdefault(path, _Way(path))
                heapq.heappush(way.ends, (way.passed + size * _PARTS, flow))
                self._count(path, 1)
                for link in path:
                    self.links[link].bytes += size
                return True
        return False

    def _count(self, path: Path, more: int) -> None:
        for link in path:
            flows = self._over.pop(link, 0) + more
            if flows:
                self._over[link] = flows

    def _fill(self) -> None:
        """All rates rise together; those over a link that is full stop there."""
        rising = dict(self._over)
        left = {link: self._rates[link] for link in rising}
        ways = list(self._ways.values())
        while ways:
            level = min(left[link] // flows for link, flows in rising.items())
            full = {link for link, flows in rising.items() if left[link] // flows == level}
            still = []
            for way in ways:
                if full.isdisjoint(way.path):
                    still.append(way)
                    continue
                way.rate = level
                for link in way.path:
                    left[link] -= level * len(way.ends)
                    rising[link] -= len(way.ends)
            rising = {link: flows for link, flows in rising.items() if flows}
            ways = still
