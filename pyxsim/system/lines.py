"""Who may work in a queue, and when: the chunks in front of it stand in line.

A line belongs to one queue of one *team*: the NPUs that must work together, which is a group of a dimension (each
group has lines of its own) or, as in ASTRA-sim 1, the whole system. What stands in line is a *task*: one phase of
one chunk for that team.

A task is *live* when all members of the team have its data. A line runs at most `room` live tasks. A member that has
its data may start at once if there is room; once one member has started, the others follow as soon as theirs is there.
Only live tasks take up room. So room is never held by a task that waits for somebody else, and a live task needs
nothing but its own messages: whatever the order in which data arrive, something always goes on. Systems
in which a slot is held while waiting can stop for ever (astra-sim issue 370).
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
    """The tasks of one team in front of one queue."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.running = 0
        self._waiting: list[tuple[int, int, Task]] = []
        self._numbers = itertools.count()

    def join(self, task: Task) -> None:
        """A task stands in line: its first member has its data (with a system-wide team, all have)."""
        bisect.insort(self._waiting, (-task.priority, next(self._numbers), task), key=lambda entry: entry[:2])

    def turned_live(self) -> None:
        """An admitted task has become live: it takes up room from now on."""
        self.running += 1

    def left(self) -> None:
        """A live task is finished."""
        self.running -= 1

    def serve(self) -> None:
        """Admit tasks while there is room."""
        while self._waiting and self.running < self.room:
            _, _, task = self._waiting.pop(0)
            task.admitted = True
            if task.live:
                self.running += 1
            task.admit()
