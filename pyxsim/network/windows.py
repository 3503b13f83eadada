"""Counters per link and time window, which every backend returns: `Windows` is the table, `WindowRecorder` builds one.

The recorder takes running totals at any cycles (packet backend); delay models count in delay/windowed_counts.py. Window
`i` holds the counts of cycles `[i*window, (i+1)*window)`. The table is bounded: when it would exceed its limits,
the window doubles and neighboring rows are added, so a long run keeps every count and loses only resolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.uint64]
Totals = Mapping[str, NDArray[np.int64]]

MAX_ROWS = 4096
MAX_CELLS = 1 << 24
"""Counters x links x windows. At 8 bytes each the finished table takes 128 MiB at most."""
ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Windows:
    """Counts per window and link.

    Attributes
    ----------
    start
        int64[T], cycles.
    length
        Cycles of a window; the last one may be shorter.
    counts
        Counter -> uint64[T, L].
    """

    start: NDArray[np.int64]
    length: int
    counts: dict[str, Counts]

    def __len__(self) -> int:
        return len(self.start)

    @classmethod
    def whole(cls, cycles: int, totals: Totals) -> Windows:
        """Return one window for a run of `cycles` cycles (none for 0 cycles)."""
        rows = 1 if cycles > 0 else 0
        counts = {name: np.asarray(total).astype(np.uint64)[np.newaxis][:rows] for name, total in totals.items()}
        return cls(np.zeros(rows, dtype=np.int64), max(1, cycles), counts)

    def until(self, cycles: int) -> Windows:
        """Return the windows of a run of `cycles` cycles; its last window also has the counts of later ones."""
        last = max(0, -(-cycles // self.length) - 1)
        if last >= len(self) - 1:
            return self
        counts = {
            name: np.concatenate([values[:last], values[last:].sum(axis=0, keepdims=True)])
            for name, values in self.counts.items()
        }
        return Windows(self.start[: last + 1], self.length, counts)


class WindowRecorder:
    """Divides running totals into windows.

    Parameters
    ----------
    window
        Initial length in cycles.
    links
        Entries of each counter.
    max_rows, max_cells
        Maximum number of windows, and of entries of the table over all counters (at least one window is kept).
    of
        Links of the table of which this one is a part, so that both have the same windows.
    """

    def __init__(
        self, window: int, links: int, max_rows: int = MAX_ROWS, max_cells: int = MAX_CELLS, of: int | None = None
    ) -> None:
        if window < 1 or max_rows < 1 or max_cells < 1 or links < 0:
            raise ValueError(f"{window=}, {max_rows=} and {max_cells=} must be at least 1, {links=} at least 0")
        self.window = window
        self.links = links
        self.end = 0
        self.last = 0  # the last recorded cycle with a new count
        self._max_rows = max_rows
        self._max_cells = max_cells
        self._of = links if of is None else of
        self._names: tuple[str, ...] = ()
        self._before: NDArray[np.int64] = np.zeros((0, links), dtype=np.int64)
        # Windows with a count, oldest first: number of the window, and its counts [counter, link].
        self._rows: list[int] = []
        self._values: list[NDArray[Any]] = []

    def record(self, cycle: int, totals: Totals) -> None:
        """Record the running totals at the beginning of cycle `cycle`, each int64[links].

        Counts since the last call belong to the window of cycle `cycle - 1`. Call it at every multiple of `window`
        with new counts before it, and at the end of the run, at any cycle. `window` may have doubled when it returns.
        Raises ValueError if time or a total decreases.
        """
        now = self._stack(totals)
        if cycle < self.end:
            raise ValueError(f"time went back from cycle {self.end} to {cycle}")
        new = now - self._before
        if (new < 0).any():
            raise ValueError(f"a running total became smaller before cycle {cycle}")
        counted = bool(new.any())
        if counted and cycle < 1:
            raise ValueError("counted before the first cycle")
        self.end = cycle
        while self._count() > self._limit():
            self._double()
        if counted:
            self._add((cycle - 1) // self.window, new)
            self.last = cycle
        self._before = now

    def cuts(self, begin: int, end: int) -> NDArray[np.int64]:
        """Return the ends of windows in (begin, end], which is about to be simulated; windows are widened as needed.

        Windows may be widened before the counts up to `begin` are recorded: short windows that are merged later have
        the same counts as long ones. They are as long as if the totals at each end were recorded one by one.
        """
        while end // self.window > self._limit():
            self._double()
        return np.arange(begin // self.window + 1, end // self.window + 1, dtype=np.int64) * self.window

    def record_many(self, cycles: NDArray[np.int64], names: Sequence[str], totals: NDArray[np.int64]) -> None:
        """Record totals at many cycles, in order; `totals` is int64[cycles, counters, links]."""
        self._stack(dict(zip(names, totals[0], strict=True)))  # checks the names
        new = np.diff(totals, axis=0, prepend=self._before[np.newaxis])
        if cycles[0] < max(self.end, 1) or (new < 0).any():
            raise ValueError(f"time or a running total went back before cycle {cycles[0]}, or in the cycles after it")
        self.cuts(self.end, int(cycles[-1]))
        counted = np.flatnonzero(new.reshape(len(new), -1).any(axis=1))
        if len(counted):
            self._add_many((cycles[counted] - 1) // self.window, new[counted])
            self.last = int(cycles[counted[-1]])
        self.end, self._before = int(cycles[-1]), totals[-1].copy()

    def close(self, cycle: int) -> None:
        """End the run at `cycle`; later cycles without a count are dropped."""
        self.end = max(cycle, self.last)

    def table(self) -> Windows:
        """Return every window from 0 to the last recorded cycle, with zeros for those without a count."""
        rows = self._count()
        counts = {name: np.zeros((rows, self.links), dtype=np.uint64) for name in self._names}
        for row, values in zip(self._rows, self._values, strict=True):
            for table, value in zip(counts.values(), values, strict=True):
                table[row] = value
        return Windows(np.arange(rows, dtype=np.int64) * self.window, self.window, counts)

    def _stack(self, totals: Totals) -> NDArray[np.int64]:
        if not self._names:
            self._names = tuple(totals)
            self._before = np.zeros((len(self._names), self.links), dtype=np.int64)
        if tuple(totals) != self._names:
            raise ValueError(f"counters {', '.join(totals)}; before they were {', '.join(self._names)}")
        stacked = np.zeros((len(self._names), self.links), dtype=np.int64)
        for i, (name, total) in enumerate(totals.items()):
            if np.shape(total) != (self.links,):
                raise ValueError(f"counter {name} has shape {np.shape(total)} for {self.links} links")
            stacked[i] = total
        return stacked

    def _count(self) -> int:
        """Number of windows so far, including a partial last one."""
        return -(-self.end // self.window)

    def _limit(self) -> int:
        per_row = max(1, self._of * len(self._names))
        return max(1, min(self._max_rows, self._max_cells // per_row))

    def _add(self, row: int, new: NDArray[Any]) -> None:
        if self._rows and self._rows[-1] == row:
            self._values[-1] = _narrow(self._values[-1].astype(np.uint64) + new.astype(np.uint64))
        else:
            self._rows.append(row)
            self._values.append(_narrow(new))

    def _add_many(self, rows: NDArray[np.int64], new: NDArray[Any]) -> None:
        """Add counts [n, counters, links] to windows `rows`, int64[n], ascending and possibly repeated."""
        first = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1))
        values = _narrow(np.add.reduceat(new.astype(np.uint64), first) if len(first) < len(rows) else new)
        self._add(int(rows[0]), values[0])
        self._rows.extend(rows[first[1:]].tolist())
        self._values.extend(values[1:])

    def _double(self) -> None:
        rows, values = self._rows, self._values
        self._rows, self._values = [], []
        self.window *= 2
        for at in range(0, len(rows), ROWS_AT_ONCE):
            several = slice(at, at + ROWS_AT_ONCE)
            self._add_many(np.array(rows[several]) // 2, np.stack(values[several]))


class PeakRecorder:
    """Keeps the largest value of each link in each window; windows widen with those of a `WindowRecorder`."""

    def __init__(self) -> None:
        self._rows: dict[int, NDArray[Any]] = {}  # number of the window -> its peaks
        self._window = 0

    def record(self, cycle: int, peaks: NDArray[np.int64], window: int) -> None:
        """Record int64[links], the peaks of the cycles before `cycle`, in a window of `window` cycles."""
        if self._window and window > self._window:
            before, self._rows = self._rows, {}
            for row, values in before.items():
                self._merge(row * self._window // window, values)
        self._window = window
        if peaks.any():
            self._merge((cycle - 1) // window, _narrow(peaks))

    def _merge(self, row: int, values: NDArray[Any]) -> None:
        known = self._rows.get(row)
        self._rows[row] = values if known is None else np.maximum(known, values)

    def table(self, start: NDArray[np.int64], length: int, links: int) -> NDArray[np.int64]:
        """Return int64[T, links]: the peaks of windows of `length` cycles from `start`; the last has later ones too."""
        made = np.zeros((len(start), links), np.int64)
        for row, values in self._rows.items():
            at = min(row * self._window // length, len(made) - 1)
            if at >= 0:
                made[at] = np.maximum(made[at], values)
        return made


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """The counts in half the memory if they fit, which is usual: a link counts at most one per cycle."""
    fits = values.size == 0 or int(values.max()) < 1 << 32
    return values.astype(np.uint32 if fits else np.uint64)
