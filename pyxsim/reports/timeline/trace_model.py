"""The data of a trace, as columns: processes with threads, slices on threads, counters, arrows between slices.

Times are whole nanoseconds, the resolution of Perfetto.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.results.work import Columns

OUT, INTO = 1, 2
"""Whether a chain of arrows goes on from a slice, and whether it comes to it."""


@dataclass(eq=False)
class Rows:
    """Rows of the result that become slices.

    `npus`: the NPUs shown. `chunks`: rows of the dataset of chunks. `work`: rows of `table`, the tasks.
    """

    npus: IntArray
    chunks: IntArray
    work: IntArray
    table: Columns


@dataclass
class Process:
    """A group of tracks, in the order of the numbers; `threads` are their names by number, unique in the trace."""

    pid: int
    name: str
    threads: dict[int, str] = field(default_factory=dict)


@dataclass(eq=False)
class Slices:
    """Slices of one kind.

    Slices of a `chain` (0: none) are joined by arrows in order of time; `role` says whether an arrow ends or starts at
    a slice. Names and args are made row by row.
    """

    category: str
    tid: IntArray
    begin: IntArray
    end: IntArray
    name: Callable[[int], str]
    args: Callable[[int], dict[str, Any]]
    chain: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    role: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        if not len(self.chain):
            self.chain = self.role = np.zeros(len(self.tid), np.int64)

    def __len__(self) -> int:
        return len(self.tid)

    def only(self, rows: IntArray) -> Slices:
        """Return some of the rows."""
        return Slices(
            self.category,
            self.tid[rows],
            self.begin[rows],
            self.end[rows],
            lambda row: self.name(int(rows[row])),
            lambda row: self.args(int(rows[row])),
            self.chain[rows],
            self.role[rows],
        )


@dataclass(eq=False)
class Counter:
    """Values from each `time` on, in a process; `of` is the object ("d0+:(0)->(1)"), `what` the quantity."""

    pid: int
    of: str
    what: str
    unit: str
    time: IntArray
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.time)

    @property
    def name(self) -> str:
        """Return the name in Perfetto."""
        return f"{self.of} {self.what}"


Place = tuple[Slices, int]
"""A slice: its block, and the row there."""


@dataclass(eq=False)
class Trace:
    """A trace; `about` describes it, `left_out` has a line per omission."""

    processes: list[Process] = field(default_factory=list)
    slices: list[Slices] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    arrows: list[tuple[Place, Place]] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    _threads: int = 0

    def process(self, name: str, number: int = 0) -> Process:
        """Return a new process with the given or the next number; process 0 is Perfetto's idle process."""
        made = Process(number or len(self.processes) + 1, name)
        self.processes.append(made)
        return made

    def thread(self, process: Process, name: str) -> int:
        """Return the number of a new thread, which differs from those of processes (main threads)."""
        self._threads += 1
        number = THREADS + self._threads
        process.threads[number] = name
        return number

    def threads(
        self, group: IntArray, begin: IntArray, end: IntArray, where: Callable[[int], tuple[Process, str]]
    ) -> IntArray:
        """Return the thread of each row: one per group, more where rows of a group overlap.

        `where` returns the process and the thread name of a group.
        """
        pairs, which = np.unique(np.stack([group, lanes(group, begin, end)]), axis=1, return_inverse=True)
        numbers = []
        for each, lane in pairs.T.tolist():
            process, name = where(each)
            numbers.append(self.thread(process, name if not lane else f"{name} ({lane + 1})"))
        return np.array(numbers, np.int64)[which.ravel()]

    @property
    def pid(self) -> dict[int, int]:
        """The process of each thread."""
        return {tid: process.pid for process in self.processes for tid in process.threads}

    def count(self) -> dict[str, int]:
        """The number of slices, counter samples and arrows."""
        chained = sum(int(((block.role & INTO) > 0).sum()) for block in self.slices)
        return {
            "slices": sum(map(len, self.slices)),
            "samples": sum(map(len, self.counters)),
            "arrows": chained + len(self.arrows),
        }

    def in_order(self) -> Iterator[tuple[int, Slices | Counter, int]]:
        """Yield (time, slices or counter, row) of every event in order of time.

        At equal times counters come first, then slices in the order of their rows, so that effects follow causes.
        """
        parts: list[Slices | Counter] = [*self.counters, *self.slices]
        if not parts:
            return
        times = [part.time if isinstance(part, Counter) else part.begin for part in parts]
        number = np.repeat(np.arange(len(parts)), [len(column) for column in times])
        row = np.concatenate([np.arange(len(column)) for column in times])
        time = np.concatenate(times)
        order = np.lexsort((row, number, time))
        for at, part, place in zip(time[order].tolist(), number[order].tolist(), row[order].tolist(), strict=True):
            yield at, parts[part], place


NAMING = 2
"""Events that a process or a thread takes: its name and its place."""
THREADS = 1_000_000
"""Numbers of threads begin here: more than a trace has processes."""


def lanes(group: IntArray, begin: IntArray, end: IntArray) -> IntArray:
    """Return a lane per row, from 0: the lowest free one, so that rows of a group do not overlap in a lane.

    Rows of zero length occupy one nanosecond, so that later rows do not start inside them.
    """
    lane_of = np.zeros(len(group), np.int64)
    order = np.lexsort((end, begin, group))
    before: int | None = None
    taken: list[tuple[int, int]] = []
    free: list[int] = []
    used = 0
    for row, group_number, start, stop in zip(
        order.tolist(), group[order].tolist(), begin[order].tolist(), end[order].tolist(), strict=True
    ):
        if group_number != before:
            before, taken, free, used = group_number, [], [], 0
        while taken and taken[0][0] <= start:
            heapq.heappush(free, heapq.heappop(taken)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        heapq.heappush(taken, (max(stop, start + 1), lane))
        lane_of[row] = lane
    return lane_of
