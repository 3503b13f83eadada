"""Flows over shared links at max-min fair rates.

A flow is a sequence of stretches, each over a set of links at once. A stretch ends in the first cycle in which all its
bytes have passed.
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
    """Use of a memory or of a link to it: bytes carried and cycles in which it was busy.

    `rate`: its capacity in bytes per cycle; 0 for no limit.
    """

    name: str
    rate: Fraction
    bytes: int = 0
    busy: int = 0


class _Flow(NamedTuple):
    """`stretches`: the remaining ones, the next one last."""

    number: int
    stretches: list[Stretch]


class Flows:
    """Flows over some links that share them."""

    def __init__(self, links: Sequence[Used]) -> None:
        self._links = links
        self._shares = Shares([link.rate for link in links])
        self._flows: dict[int, _Flow] = {}  # in the order of `begin`
        self._waiting: list[tuple[int, int]] = []  # by the cycle of their start
        self._begun = 0
        self._now = 0

    def begin(self, at: int, number: int, stretches: Sequence[Stretch]) -> None:
        """Start a flow that moves its first byte in cycle `at`."""
        self._flows[self._begun] = _Flow(number, list(reversed(stretches)))
        heapq.heappush(self._waiting, (at, self._begun))
        self._begun += 1

    def run(self, now: int) -> list[int]:
        """Advance to a cycle. Returns the numbers of the flows that have ended, in the order of their start."""
        finished = self._shares.carry(now - self._now)
        self._now = now
        while self._waiting and self._waiting[0][0] <= now:
            finished.append(heapq.heappop(self._waiting)[1])
        return [self._flows.pop(flow).number for flow in sorted(finished) if not self._next_stretch(flow)]

    def next(self) -> int:
        """Return the next cycle in which a flow begins or a stretch ends, -1 for none."""
        following = [self._waiting[0][0]] if self._waiting else []
        if (cycles := self._shares.next()) >= 0:
            following.append(self._now + cycles)
        return min(following, default=-1)

    def used(self) -> list[Used]:
        """Return the use of the links so far."""
        for link, busy in zip(self._links, self._shares.busy(), strict=True):
            link.busy = busy
        return list(self._links)

    def _next_stretch(self, flow: int) -> bool:
        """Start the next stretch of a flow that has bytes. Returns False if there is none."""
        stretches = self._flows[flow].stretches
        while stretches:
            path, size = stretches.pop()
            if size:
                self._shares.begin(path, size, flow)
                for link in path:
                    self._links[link].bytes += size
                return True
        return False
