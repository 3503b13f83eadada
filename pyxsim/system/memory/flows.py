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


@dataclass
class _Flow:
    number: int
    stretches: list[Stretch]  # those to come; the last is next
    path: Path = ()
    left: int = 0  # parts
    rate: int = 0  # and of them in a cycle

    def go_on(self) -> bool:
        """Begin with the next stretch that has bytes; False if there is none."""
        while self.stretches:
            self.path, size = self.stretches.pop()
            if size:
                self.left = size * _PARTS
                return True
        return False


class Flows:
    """Flows over some links that share them."""

    def __init__(self, links: Sequence[Used]) -> None:
        self.links = links
        self._rates = [int(link.rate * _PARTS) for link in links]
        self._flows: list[_Flow] = []
        self._waiting: list[tuple[int, int, _Flow]] = []  # from which cycle, in which order
        self._begun = 0
        self._now = 0
        self._next = -1
        self._known = True  # the rates, and `_next`

    def begin(self, at: int, number: int, stretches: Sequence[Stretch]) -> None:
        """A flow that moves its first byte in cycle `at`."""
        heapq.heappush(self._waiting, (at, self._begun, _Flow(number, list(reversed(stretches)))))
        self._begun += 1

    def run(self, now: int) -> list[int]:
        """Carry everything on to a cycle; the numbers of the flows that have ended, as they began."""
        time, self._now = now - self._now, now
        for link in {link for flow in self._flows for link in flow.path} if time else ():
            self.links[link].busy += time
        ended, staying = [], []
        for flow in self._flows:
            flow.left -= flow.rate * time
            through = flow.left <= _SPECK
            self._known &= not through
            if not through or self._go_on(flow):
                staying.append(flow)
            else:
                ended.append(flow.number)
        while self._waiting and self._waiting[0][0] <= now:
            flow = heapq.heappop(self._waiting)[2]
            self._known = False
            if self._go_on(flow):
                staying.append(flow)
            else:
                ended.append(flow.number)
        self._flows = staying
        return ended

    def next(self) -> int:
        """The first cycle in which a flow begins or a stretch ends; -1: none."""
        if not self._known:
            self._fill()
            self._known = True
            self._next = min((self._now - (_SPECK - flow.left) // flow.rate for flow in self._flows), default=-1)
        first = self._waiting[0][0] if self._waiting else -1
        return max(first, self._next) if min(first, self._next) < 0 else min(first, self._next)

    def _go_on(self, flow: _Flow) -> bool:
        going = flow.go_on()
        for link in flow.path if going else ():
            self.links[link].bytes += flow.left // _PARTS
        return going

    def _fill(self) -> None:
        """All rates rise together; those over a link that is full stop there."""
        over: dict[Path, list[_Flow]] = {}
        for flow in self._flows:
            over.setdefault(flow.path, []).append(flow)
        rising: dict[int, int] = {}  # flows of each link that still rise
        for path, flows in over.items():
            for link in path:
                rising[link] = rising.get(link, 0) + len(flows)
        left = {link: self._rates[link] for link in rising}
        while over:
            share = {link: left[link] // many for link, many in rising.items() if many}
            level = min(share.values())
            for path in [path for path in over if any(share[link] == level for link in path)]:
                flows = over.pop(path)
                for flow in flows:
                    flow.rate = level
                for link in path:
                    left[link] -= level * len(flows)
                    rising[link] -= len(flows)
