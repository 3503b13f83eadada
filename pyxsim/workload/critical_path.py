"""The critical path: back from the last end, each task with the reason why it did not begin sooner.

The steps follow one another without gaps from cycle 0 to the end, so their times add up to the run time. A shorter step
makes the run shorter by the same time, until another path becomes critical.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.job import TaskTimes


class Link(Enum):
    """Why a step begins when it does."""

    BEGIN = "begin"  # the first step
    DEPENDENCY = "dependency"  # it depends on the previous task
    RESOURCE = "resource"  # the previous task held its resource
    MESSAGE = "message"  # the previous task received its message
    MEMBERS = "members"  # the previous task was the last member to enter


class Step(NamedTuple):
    """A section of the path: a task, its cycles, and the link to the previous step.

    `task` is -1 in a first step before the NPU began.
    """

    task: int
    begin: int
    end: int
    link: Link


def critical_path(graph: TaskGraph, times: TaskTimes) -> list[Step]:
    """Return the steps from cycle 0 to the last end; of equal paths, the one with the lowest task number.

    In an incomplete run it leads to the last end so far; without any end it has no steps.
    """
    return _Path(graph, times).steps() if times.end.max(initial=-1) >= 0 else []


class _Path:
    """Follows the path backwards."""

    def __init__(self, graph: TaskGraph, times: TaskTimes) -> None:
        self.times = times
        # Of collectives and joint accesses to remote memory.
        members = np.flatnonzero(times.group >= 0)
        groups = times.group[members]
        order = np.argsort(groups, kind="stable")
        self.members = members[order]
        self.of_group = np.searchsorted(groups[order], np.arange(times.group.max(initial=-1) + 2)).tolist()
        self.came: dict[int, tuple[IntArray, IntArray]] = {}
        # A memoryview yields Python numbers three times as fast as an array: a path can be as long as the graph.
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
                # The time was spent on the message.
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
        """The member of a collective that entered last before one finished; the task itself if none entered later."""
        group = self.columns[-1][task]
        if self.of_group[group + 1] - self.of_group[group] == 1:
            return task
        members, starts = self._as_they_came(group)
        came = int(starts[np.searchsorted(starts, until, side="right") - 1])
        if came <= start:
            return task
        return int(members[np.searchsorted(starts, came)])

    def _as_they_came(self, group: int) -> tuple[IntArray, IntArray]:
        """The members of a collective in the order in which they entered, and when."""
        if group not in self.came:
            members = self.members[self.of_group[group] : self.of_group[group + 1]]
            starts = self.times.start[members]
            order = np.lexsort((members, starts))
            self.came[group] = members[order], starts[order]
        return self.came[group]
