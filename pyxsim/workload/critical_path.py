"""Which tasks made the end what it is: the way back from the last end, each task with why it did not begin sooner.

The steps follow each other without gaps from cycle 0 to the end, so their times add up to it. What a step takes less,
the whole takes less, as far as nothing else becomes critical.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from pyxsim.workload.graph import Kind, Longs, TaskGraph
from pyxsim.workload.job import TaskTimes


class Link(Enum):
    """Why a step begins when it does."""

    BEGIN = "begin"  # it is the first
    DEPENDENCY = "dependency"  # the task before it had to end
    RESOURCE = "resource"  # the task before it had the resource
    MESSAGE = "message"  # the task before it received what was sent to it
    MEMBERS = "members"  # the task before it was the last to come to what they do together


class Step(NamedTuple):
    """A stretch of the path: a task, from when to when (cycles), and how it hangs on the step before.

    `task` is -1 in a first step in which an NPU had not begun yet.
    """

    task: int
    begin: int
    end: int
    link: Link


def critical_path(graph: TaskGraph, times: TaskTimes) -> list[Step]:
    """The steps from cycle 0 to the last end. Of several ways, that to the lowest number. Where not all tasks have
    ended, to the last end that there is; without any there are no steps."""
    return _Path(graph, times).steps() if times.end.max(initial=-1) >= 0 else []


class _Path:
    """The way back."""

    def __init__(self, graph: TaskGraph, times: TaskTimes) -> None:
        self.times = times
        # Of collectives, and of accesses to remote memory that NPUs make together.
        members = np.flatnonzero(times.group >= 0)
        groups = times.group[members]
        order = np.argsort(groups, kind="stable")
        self.members = members[order]
        self.of_group = np.searchsorted(groups[order], np.arange(times.group.max(initial=-1) + 2)).tolist()
        self.came: dict[int, tuple[Longs, Longs]] = {}
        # A memoryview gives a plain number in a third of the time of an array: a path can be as long as the graph.
        self.kind = np.ascontiguousarray(graph.kind).data
        columns = (times.ready, times.start, times.end, times.cause, times.partner, times.group)
        self.columns = [np.ascontiguousarray(column).data for column in columns]

    def steps(self) -> list[Step]:
        kinds, (readies, starts, ends, causes, partners, groups) = self.kind, self.columns
        receive = int(Kind.RECEIVE)
        task, until = int(self.times.end.argmax()), self.times.last
        steps: list[Step] = []
        while True:
            start, kind = starts[task], kinds[task]
            if kind == receive and (send := partners[task]) >= 0 and ends[send] > start:
                # The message was on its way: that is where the time went.
                steps.append(Step(task, until, until, Link.MESSAGE))
                task = send
                continue
            if groups[task] >= 0 and (last := self._last_member(task, start, until)) != task:
                came = starts[last]
                steps.append(Step(task, came, until, Link.MEMBERS))
                task, until = last, came
                continue
            cause = causes[task]
            if cause < 0:
                steps.append(Step(task, start, until, Link.BEGIN))
                if start:
                    steps.append(Step(-1, 0, start, Link.BEGIN))
                return steps[::-1]
            steps.append(Step(task, start, until, Link.RESOURCE if start > readies[task] else Link.DEPENDENCY))
            task, until = cause, start

    def _last_member(self, task: int, start: int, until: int) -> int:
        """Of a collective, the member that came last before one was through; it itself, if nobody came later."""
        group = self.columns[-1][task]
        if self.of_group[group + 1] - self.of_group[group] == 1:
            return task
        members, starts = self._as_they_came(group)
        came = int(starts[np.searchsorted(starts, until, side="right") - 1])
        if came <= start:
            return task
        return int(members[np.searchsorted(starts, came)])

    def _as_they_came(self, group: int) -> tuple[Longs, Longs]:
        """The members of a collective in the order in which they entered, and when."""
        if group not in self.came:
            members = self.members[self.of_group[group] : self.of_group[group + 1]]
            starts = self.times.start[members]
            order = np.lexsort((members, starts))
            self.came[group] = members[order], starts[order]
        return self.came[group]
