"""Who may work in a queue, and when: the chunks in front of it stand in line.

A line belongs to one queue of one group of NPUs, which must work together. What stands in line is a *task*: one phase
of one chunk for that group.

A task is *live* when all members of the group have its data. A line runs as many tasks as it has room for. While there
is room, members that have their data start early, and the others follow as soon as theirs is there; but an early task
takes room from other early ones only, never from a live one. So a live task waits for live tasks alone, and those need
nothing but their own messages: whatever the order in which data arrive, something always goes on. Systems in which a
slot is held by a chunk that waits for somebody else can stop for ever (astra-sim issue 370). The price: when an early
task turns live, the line may run more tasks than it has room for.

Which task is next: that of the highest priority; among equals the policy of the line decides, and then who came first.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Protocol


class Task(Protocol):
    """One phase of one chunk for one group. The words are those of `system.intra_dimension`."""

    live: bool
    admitted: bool
    kind: str  # of its phase
    phases_left: int  # of its chunk, with this one

    @property
    def size(self) -> int:
        """The most bytes that an NPU of the group has in the phase."""

    @property
    def priority(self) -> int:
        """Higher goes first. It is asked for when the task comes to the line."""

    def admit(self) -> None:
        """Members that have their data start; the others start when theirs comes."""


class ChunkQueue:
    """The tasks in front of one queue of one group. `running`: live ones at work; `early`: those begun before."""

    def __init__(self, room: int, policy: str = "FIFO") -> None:
        self.room = room
        self.running = 0
        self.early = 0
        self._rank = POLICIES[policy]
        self._last = ""  # kind of the task that was admitted last
        self._waiting: list[tuple[int, int, Task]] = []  # by priority, then in order of arrival
        self._joined = 0  # tasks so far

    def join(self, task: Task) -> None:
        """A task stands in line: its first member has its data."""
        bisect.insort(self._waiting, (-task.priority, self._joined, task))
        self._joined += 1

    def became_live(self) -> None:
        """An early task has become live."""
        self.early -= 1
        self.running += 1

    def left(self) -> None:
        """A live task is finished."""
        self.running -= 1

    def serve(self) -> None:
        """Admit tasks while there is room."""
        while (task := self._next()) is not None:
            task.admitted = True
            self._last = task.kind
            if task.live:
                self.running += 1
            else:
                self.early += 1
            task.admit()

    def _next(self) -> Task | None:
        """Take the first task out of the line that there is room for."""
        if self.running >= self.room:
            return None
        full = self.running + self.early >= self.room
        rank, best, chosen = self._rank, 0, -1
        for place, (priority, _, task) in enumerate(self._waiting):
            if chosen >= 0 and priority > self._waiting[chosen][0]:
                break
            if full and not task.live:
                continue
            own = rank(task, self._last) if rank else 0
            if chosen < 0 or own < best:
                best, chosen = own, place
            if not rank:
                break
        return self._waiting.pop(chosen)[2] if chosen >= 0 else None


def _alternate(task: Task, last: str) -> int:
    """After a reduce-scatter an all-gather, after that a reduce-scatter; others do not matter."""
    turn = {"reduce-scatter": "all-gather", "all-gather": "reduce-scatter"}.get(last)
    return int(turn is not None and task.kind != turn)


def _size(task: Task, last: str) -> int:
    return task.size


def _phases_left(task: Task, last: str) -> int:
    return task.phases_left


POLICIES: dict[str, Callable[[Task, str], int] | None] = {
    "FIFO": None,
    "RG": _alternate,
    "smallest-first": _size,
    "fewest-phases-first": _phases_left,
}
"""How each policy of `system.intra_dimension` ranks a task, given the kind of the one before it: the least is next.
None: all are alike."""
