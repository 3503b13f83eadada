"""Flits by windows of time in networks of delays: counted by route and mapped to links later, or by link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.network.windows import Windows

NEVER = 1 << 62
COUNTED = ("flits", "stall_serial")  # what an engine counts by itself


class Recorder(Protocol):
    """A recorder of windows. The current window ends before cycle `due`."""

    @property
    def window(self) -> int: ...
    @property
    def due(self) -> int: ...

    def close(self, cycle: int, flits: IntArray) -> None:
        """Count what was carried since the last call; the next event is in `cycle`."""

    def finish(self, cycle: int, flits: IntArray) -> None:
        """End the run at `cycle`."""

    def table(self) -> Windows:
        """Return every window from 0 to the end."""


class Counter(Protocol):
    """An engine that counts per link the flits that started, and the cycles in which a message waited for the link.

    Each int64[rows, links], by windows of `window` cycles.
    """

    @property
    def window(self) -> int: ...
    @property
    def windows(self) -> tuple[IntArray, IntArray]: ...

    def widen(self, cycles: int) -> None:
        """Double the windows until the first `cycles` cycles have few enough of them."""


class EngineCounts:
    """The windows of an engine that counts them itself; the first `links` of what it has are links."""

    due = NEVER

    def __init__(self, counter: Counter, links: int) -> None:
        self._counter = counter
        self._links = links
        self._end = 0

    @property
    def window(self) -> int:
        return self._counter.window

    def close(self, cycle: int, flits: IntArray) -> None:
        """Do nothing: the engine counts by itself."""

    def finish(self, cycle: int, flits: IntArray) -> None:
        self._counter.widen(cycle)
        begun = np.flatnonzero(self._counter.windows[0].any(axis=1))
        self._end = max(-(-cycle // self.window), int(begun[-1]) + 1 if len(begun) else 0)

    def table(self) -> Windows:
        rows = (table[: self._end, : self._links].astype(np.uint64) for table in self._counter.windows)
        counts = dict(zip(COUNTED, rows, strict=True))
        return Windows(np.arange(self._end, dtype=np.int64) * self.window, self.window, counts)


class WindowedCounts:
    """Counts of routes in windows of time, at most `rows` of them: beyond that, windows double.

    `on_links(flits)`: maps the flits of routes to links; called at the end, once per window. The number of routes may
    grow from call to call.
    """

    def __init__(self, window: int, rows: int, links: int, on_links: Callable[[IntArray], IntArray]) -> None:
        self.window = window
        self.due = window  # the current window ends before this cycle
        self._most = rows
        self._links = links
        self._on_links = on_links
        self._before: IntArray = np.zeros(0, np.int64)
        self._rows: dict[int, tuple[IntArray, IntArray]] = {}  # of each window: ways, and what they carried
        self._end = 0

    def close(self, cycle: int, flits: IntArray) -> None:
        """Count what was carried since the last call; the next event is in `cycle`."""
        new = flits.copy()
        new[: len(self._before)] -= self._before
        self._before = flits
        ways = np.flatnonzero(new)
        if len(ways):
            self._add((self.due - 1) // self.window, ways, new[ways])
        self.due = max(self.due, (cycle // self.window + 1) * self.window)

    def finish(self, cycle: int, flits: IntArray) -> None:
        """End the run at `cycle`."""
        self.close(cycle, flits)
        self._end = max(cycle, (max(self._rows) * self.window + 1) if self._rows else 0)
        while self._count() > self._most:
            self._double()

    def table(self) -> Windows:
        """Return every window from 0 to the end."""
        count = self._count()
        table = np.zeros((count, self._links), np.uint64)
        for row, (ways, flits) in self._rows.items():
            carried = np.zeros(len(self._before), np.int64)
            carried[ways] = flits
            table[row] = self._on_links(carried).astype(np.uint64)
        return Windows(np.arange(count, dtype=np.int64) * self.window, self.window, {"flits": table})

    def _count(self) -> int:
        return -(-self._end // self.window)

    def _add(self, row: int, ways: IntArray, flits: IntArray) -> None:
        while row >= self._most:
            self._double()
            row //= 2
        if row in self._rows:
            before = self._rows[row]
            ways, place = np.unique(np.concatenate([before[0], ways]), return_inverse=True)
            flits = np.bincount(place, np.concatenate([before[1], flits])).astype(np.int64)
        self._rows[row] = ways, flits

    def _double(self) -> None:
        self.window *= 2
        rows, self._rows = self._rows, {}
        for row, (ways, flits) in rows.items():
            self._add(row // 2, ways, flits)
