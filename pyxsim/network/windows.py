"""Counters per link and time window, from the running totals of a simulation.

A window is a number of cycles; window `i` holds what was counted in the cycles `[i*window, (i+1)*window)`. The table is
bounded whatever is simulated: when it would grow past its limits the window doubles and neighbours are added up, so a
long run keeps every count and loses only resolution.
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
    """Counts per window and link: `start` int64[T] (cycles), `length` (cycles, the last window may end earlier),
    `counts` {counter: uint64[T, L]}."""

    start: NDArray[np.int64]
    length: int
    counts: dict[str, Counts]

    def __len__(self) -> int:
        return len(self.start)

    @classmethod
    def whole(cls, cycles: int, totals: Totals) -> Windows:
        """One window over all of a run of `cycles` cycles (no window for a run of 0 cycles)."""
        rows = 1 if cycles > 0 else 0
        counts = {name: np.asarray(total).astype(np.uint64)[np.newaxis][:rows] for name, total in totals.items()}
        return cls(np.zeros(rows, dtype=np.int64), max(1, cycles), counts)


class WindowRecorder:
    """Cuts running totals into windows.

    `window`: cycles to start with; `links`: entries of each counter; `max_rows`: windows at most; `max_cells`: entries
    of the table at most, over all counters (at least one window is kept however many links there are). `of`: links of
    the table that this one is to be a part of, so that both have the same windows.
    """

    def __init__(
        self, window: int, links: int, max_rows: int = MAX_ROWS, max_cells: int = MAX_CELLS, of: int | None = None
    ) -> None:
        if window < 1 or max_rows < 1 or max_cells < 1 or links < 0:
            raise ValueError(f"{window=}, {max_rows=} and {max_cells=} must be at least 1, {links=} at least 0")
        self.window = window
        self.links = links
        self.end = 0
        self.last = 0  # the end of what was counted last
        self._max_rows = max_rows
        self._max_cells = max_cells
        self._of = links if of is None else of
        self._names: tuple[str, ...] = ()
        self._before: NDArray[np.int64] = np.zeros((0, links), dtype=np.int64)
        # Windows in which something was counted, oldest first: number of the window, and its counts [counter, link].
        self._rows: list[int] = []
        self._values: list[NDArray[Any]] = []

    def record(self, cycle: int, totals: Totals) -> None:
        """Take in the running totals at the beginning of cycle `cycle`, each int64[links].

        What was counted since the last call is booked to the window of cycle `cycle - 1`. So the call has to come at
        every multiple of `window` before which something was counted, and once more at the end, at any cycle; windows
        in which nothing happens need no call. `window` may have doubled when the call returns: read it again.
        Raises ValueError when time or a total goes back.
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
        the same counts as long ones.
        """
        while -(-end // self.window) > self._limit():
            self._double()
        return np.arange(begin // self.window + 1, end // self.window + 1, dtype=np.int64) * self.window

    def record_many(self, cycles: NDArray[np.int64], names: Sequence[str], totals: NDArray[np.int64]) -> None:
        """`record` for many cycles in turn. `totals`: int64[cycles, counters, links]."""
        self._stack(dict(zip(names, totals[0], strict=True)))  # are they the counters that they were?
        new = np.diff(totals, axis=0, prepend=self._before[np.newaxis])
        if cycles[0] < max(self.end, 1) or (new < 0).any():
            raise ValueError(f"time or a running total went back before cycle {cycles[0]}, or in the cycles after it")
        self.cuts(self.end, int(cycles[-1]))
        some = np.flatnonzero(new.reshape(len(new), -1).any(axis=1))
        if len(some):
            self._add_many((cycles[some] - 1) // self.window, new[some])
            self.last = int(cycles[some[-1]])
        self.end, self._before = int(cycles[-1]), totals[-1].copy()

    def close(self, cycle: int) -> None:
        """The run ended at `cycle`: time that was recorded after it, and in which nothing was counted, is left out."""
        self.end = max(cycle, self.last)

    def table(self) -> Windows:
        """Every window from 0 to the last cycle recorded, those without a count as zeros."""
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
        """Windows that the time so far takes, the last one perhaps begun only."""
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
        """`rows`: int64[n], ascending, those that are equal are one window; `new`: [n, counters, links]."""
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


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """The same counts in half the memory where they fit: nearly always, as a link counts at most once a cycle."""
    fits = values.size == 0 or int(values.max()) < 1 << 32
    return values.astype(np.uint32 if fits else np.uint64)
