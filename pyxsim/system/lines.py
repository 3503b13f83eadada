"""Who may work in a queue, and when: the chunks in front of it stand in line.

A line belongs to one queue of one *team*: the NPUs that must work together, which is a group of a dimension (each
group has lines of its own) or, as in ASTRA-sim 1, the whole system. What stands in line is a *task*: one phase of
one chunk for that team.

A task is *live* when all members of the team have its data. A line runs as many tasks as it has room for, by priority
and then in order of arrival. While there is room, members that have their data start early, and the others follow as
soon as theirs is there; but an early task takes room from other early ones only, never from a live one. So a live task
waits for live tasks alone, and those need nothing but their own messages: whatever the order in which data arrive,
something always goes on. Systems in which a slot is held by a chunk that waits for somebody else can stop for ever
(astra-sim issue 370). The price: when an early task turns live, the line may run more tasks than it has room for.
"""

from __future__ import annotations

import bisect
import itertools
from typing import Protocol


class Task(Protocol):
    """One phase of one chunk for one team."""

    priority: int  # higher goes first; equal ones in order of arrival
    live: bool
    admitted: bool

    def admit(self) -> None:
        """Members that have their data start; the others start when theirs comes."""


class Line:
    """The tasks of one team in front of one queue. `running`: live ones at work; `early`: those begun before."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.running = 0
        self.early = 0
        self._waiting: list[tuple[int, int, Task]] = []
        self._numbers = itertools.count()

    def join(self, task: Task) -> None:
        """A task stands in line: its first member has its data (with a system-wide team, all have)."""
        bisect.insort(self._waiting, (-task.priority, next(self._numbers), task), key=lambda entry: entry[:2])

    def turned_live(self) -> None:
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
        for place, (_, _, task) in enumerate(self._waiting):
            if task.live or not full:
                del self._waiting[place]
                return task
        return None
