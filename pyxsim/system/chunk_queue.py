"""Admission of chunks to a queue: which chunk tasks may run, and in which order.

A `ChunkQueue` belongs to one queue of one group of NPUs that work together. Its entries are *tasks*: one phase of one
chunk for that group.

A task is *live* once all members of the group have its data. A queue has a number of slots for running tasks. While a
slot is free, members that have their data start early and the others follow when theirs arrives; but an early task
takes a slot from other early ones only, never from a live one. So live tasks wait for live tasks only, which need
nothing but their own messages: whatever the order in which data arrive, something can always proceed. Systems in which
a chunk keeps its slot while it waits for another NPU can stop forever (astra-sim issue 370). The price: when an early
task becomes live, the queue may run more tasks than it has slots.

The next task is the one of the highest priority; among equals the queue's order decides, then the cycle in which a
task joined, then the order of issue. So the order in which data arrive within a cycle has no influence.
"""

from __future__ import annotations

import bisect
from typing import Protocol

from pyxsim.plugins import queue_orders


class Task(Protocol):
    """One phase of one chunk for one group, with what `system.intra_dimension` looks at."""

    number: int  # in the order of issue
    live: bool
    admitted: bool
    kind: str  # of its phase
    phases_left: int  # of its chunk, including this one

    @property
    def size(self) -> int:
        """The largest number of bytes that an NPU of the group has in this phase."""

    @property
    def priority(self) -> int:
        """Higher goes first. Read when the task is enqueued."""

    def admit(self) -> None:
        """Start the members that have their data; the others start when theirs arrives."""


class ChunkQueue:
    """The tasks that wait for one queue of one group. `running`: live tasks in slots; `early`: the others in slots."""

    def __init__(self, slots: int, order: str = "FIFO") -> None:
        self.slots = slots
        self.running = 0
        self.early = 0
        self._rank = queue_orders.get(order)
        self._last_kind = ""  # of the task that was admitted last
        self._waiting: list[tuple[int, int, int, Task]] = []  # by priority, then by cycle, then by number

    def enqueue(self, task: Task, cycle: int) -> None:
        """Add a task when its first member has its data."""
        bisect.insort(self._waiting, (-task.priority, cycle, task.number, task))

    def became_live(self) -> None:
        """Count an early task as running."""
        self.early -= 1
        self.running += 1

    def finished(self) -> None:
        """Free the slot of a live task."""
        self.running -= 1

    def forget(self, task: Task) -> None:
        """Remove a task that will not finish."""
        if not task.admitted:
            self._waiting = [entry for entry in self._waiting if entry[-1] is not task]
        elif task.live:
            self.running -= 1
        else:
            self.early -= 1

    def admit_waiting(self) -> None:
        """Admit tasks while slots are free."""
        while (task := self._next()) is not None:
            task.admitted = True
            self._last_kind = task.kind
            if task.live:
                self.running += 1
            else:
                self.early += 1
            task.admit()

    def _next(self) -> Task | None:
        """Remove and return the first waiting task that may have a slot."""
        if self.running >= self.slots:
            return None
        full = self.running + self.early >= self.slots
        best, chosen = 0, -1
        for index, (priority, *_, task) in enumerate(self._waiting):
            if chosen >= 0 and priority > self._waiting[chosen][0]:
                break
            if full and not task.live:
                continue
            rank = self._rank(task, self._last_kind) if self._rank else 0
            if chosen < 0 or rank < best:
                best, chosen = rank, index
            if not self._rank:
                break
        return self._waiting.pop(chosen)[-1] if chosen >= 0 else None


@queue_orders.register("RG")
def _alternate(task: Task, last_kind: str) -> int:
    """Reduce-scatters and all-gathers take turns; other kinds do not matter."""
    preferred = {"reduce-scatter": "all-gather", "all-gather": "reduce-scatter"}.get(last_kind)
    return int(preferred is not None and task.kind != preferred)


@queue_orders.register("smallest-first")
def _size(task: Task, last_kind: str) -> int:
    return task.size


@queue_orders.register("fewest-phases-first")
def _phases_left(task: Task, last_kind: str) -> int:
    return task.phases_left


queue_orders.register("FIFO")(None)
