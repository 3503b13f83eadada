"""Models of remote memory: when accesses end."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

from pyxsim.system.memory.flows import Flows, Used
from pyxsim.system.memory.layouts import Hierarchical, Layout, OfNodes, OfNpus, Pool
from pyxsim.system.memory.memory_options import Access, MemoryOptions


class Memory(Protocol):
    """Serves accesses in the order of the calls; time never goes back."""

    def begin(self, now: int, number: int, npu: int, size: int, access: Access) -> None:
        """Start an access; one that all NPUs make together starts with the last of them."""

    def run(self, now: int) -> list[int]:
        """Advance to a cycle and return the numbers of the accesses that have ended since the last call."""

    def next(self) -> int:
        """Return the cycle of the next event, possibly the current one; -1 for none."""

    def used(self) -> list[Used]:
        """Return the use of its parts and links."""


def make_memory(options: MemoryOptions) -> Memory:
    """Return the memory that the settings describe."""
    kind = options.settings.kind
    if kind == "per-npu":
        return Unshared(options)
    if kind in ("per-node", "pool") and options.settings.sharing != "fair":
        return OneByOne(options)
    return Shared(_LAYOUTS[kind](options), options.latency)


_LAYOUTS: dict[str, Callable[[MemoryOptions], Layout]] = {
    "per-node": OfNodes,
    "pool": Pool,
    "zero-infinity": OfNpus,
    "hierarchical": Hierarchical,
}


class _KnownEnds:
    """Accesses whose end is known when they begin."""

    def __init__(self, options: MemoryOptions, places: list[Used]) -> None:
        self._options = options
        self._places = places
        self._until = [0] * len(places)  # the last end at each place
        self._ends: list[tuple[int, int]] = []

    def _serve(self, begin: int, number: int, place: int, size: int) -> None:
        end = begin + self._options.latency + self._options.transfer(size)
        heapq.heappush(self._ends, (end, number))
        used = self._places[place]
        used.bytes += size
        used.busy += max(0, end - max(begin, self._until[place]))
        self._until[place] = max(self._until[place], end)

    def run(self, now: int) -> list[int]:
        ended = []
        while self._ends and self._ends[0][0] <= now:
            ended.append(heapq.heappop(self._ends)[1])
        return ended

    def next(self) -> int:
        return self._ends[0][0] if self._ends else -1

    def used(self) -> list[Used]:
        return self._places


class Unshared(_KnownEnds):
    """Accesses do not influence each other."""

    def __init__(self, options: MemoryOptions) -> None:
        super().__init__(options, [Used(f"memory of NPU {npu}", Fraction(0)) for npu in range(options.npus)])

    def begin(self, now: int, number: int, npu: int, size: int, access: Access) -> None:
        self._serve(now, number, npu, size)


class OneByOne(_KnownEnds):
    """One access at a time, including its latency, for each node or for all."""

    def __init__(self, options: MemoryOptions) -> None:
        self._layout = _LAYOUTS[options.settings.kind](options)
        super().__init__(options, [used for (used,) in self._layout.parts])

    def begin(self, now: int, number: int, npu: int, size: int, access: Access) -> None:
        place = self._layout.part(npu)
        self._serve(max(now, self._until[place]), number, place, size)


class Shared:
    """Concurrent accesses that share links."""

    def __init__(self, layout: Layout, latency: int) -> None:
        self._layout = layout
        self._latency = latency
        self._parts = [Flows(links) for links in layout.parts]
        self._changed: set[int] = set()  # parts whose next event is unknown
        self._next = [-1] * len(self._parts)
        self._wakes: list[tuple[int, int]] = []  # cycles and parts; entries that differ from `_next` are stale

    def begin(self, now: int, number: int, npu: int, size: int, access: Access) -> None:
        part = self._layout.part(npu)
        self._parts[part].begin(now + self._latency, number, self._layout.stretches(npu, size, access))
        self._changed.add(part)

    def run(self, now: int) -> list[int]:
        ended: list[int] = []
        while 0 <= self.next() <= now:
            part = self._wakes[0][1]
            ended += self._parts[part].run(now)
            self._changed.add(part)
        return ended

    def next(self) -> int:
        for part in self._changed:
            wake = self._parts[part].next()
            if wake >= 0 and wake != self._next[part]:
                heapq.heappush(self._wakes, (wake, part))
            self._next[part] = wake
        self._changed.clear()
        while self._wakes and self._next[self._wakes[0][1]] != self._wakes[0][0]:
            heapq.heappop(self._wakes)
        return self._wakes[0][0] if self._wakes else -1

    def used(self) -> list[Used]:
        return [link for part in self._parts for link in part.used()]
