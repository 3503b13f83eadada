"""Flits by windows of time in the delay models: counted by path and mapped to links at the end, or by link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.network.windows import Windows

NEVER = 1 << 62
COUNTED = ("flits", "stall_serial")  # counters of an engine that counts by itself


class Recorder(Protocol):
    """A recorder of windows. The current window ends before cycle `due`."""

    @property
    def window(self) -> int: ...
    @property
    def due(self) -> int: ...

    def close(self, cycle: int, flits: IntArray) -> None:
        """Count the flits since the last call; the next event is in `cycle`."""

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
        """Double the windows until they cover the first `cycles` cycles."""


class EngineCounts:
    """The windows of an engine that counts by itself. `columns()`: int64[links], the column of each link."""

    due = NEVER

    def __init__(self, counter: Counter, columns: Callable[[], IntArray]) -> None:
        self._counter = counter
        self._columns = columns
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
        rows = (table[: self._end, self._columns()].astype(np.uint64) for table in self._counter.windows)
        counts = dict(zip(COUNTED, rows, strict=True))
        return Windows(np.arange(self._end, dtype=np.int64) * self.window, self.window, counts)


class WindowedCounts:
    """Counts of paths in at most `rows` windows of time; for a longer run the windows double.

    `on_links(flits)` maps the flits of paths to links; it is called at the end, once per window. The number of paths
    may grow from call to call.
    """

    def __init__(self, window: int, rows: int, links: int, on_links: Callable[[IntArray], IntArray]) -> None:
        self.window = window
        self.due = window  # the current window ends before this cycle
        self._most = rows
        self._links = links
        self._on_links = on_links
        self._before: IntArray = np.zeros(0, np.int64)
        self._rows: dict[int, tuple[IntArray, IntArray]] = {}  # window -> (paths, their flits)
        self._end = 0

    def close(self, cycle: int, flits: IntArray) -> None:
        """Count the flits since the last call; the next event is in `cycle`."""
        while cycle >= self.due and (self.due - 1) // self.window >= self._most:
            self._double()  # also while links carry nothing: slow ones are busy for many windows
        new = flits.copy()
        new[: len(self._before)] -= self._before
        self._before = flits
        paths = np.flatnonzero(new)
        if len(paths):
            self._add((self.due - 1) // self.window, paths, new[paths])
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
        for row, (paths, flits) in self._rows.items():
            carried = np.zeros(len(self._before), np.int64)
            carried[paths] = flits
            table[row] = self._on_links(carried).astype(np.uint64)
        return Windows(np.arange(count, dtype=np.int64) * self.window, self.window, {"flits": table})

    def _count(self) -> int:
        return -(-self._end // self.window)

    def _add(self, row: int, paths: IntArray, flits: IntArray) -> None:
        while row >= self._most:
            self._double()
            row //= 2
        if row in self._rows:
            before = self._rows[row]
            paths, index = np.unique(np.concatenate([before[0], paths]), return_inverse=True)
            flits = np.bincount(index, np.concatenate([before[1], flits])).astype(np.int64)
        self._rows[row] = paths, flits

    def _double(self) -> None:
        self.window *= 2
        rows, self._rows = self._rows, {}
        for row, (paths, flits) in rows.items():
            self._add(row // 2, paths, flits)
