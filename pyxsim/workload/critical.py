"""Which tasks made the end what it is: the way back from the last end, each task with why it did not begin sooner.

The steps follow each other without gaps from cycle 0 to the end, so their times add up to it. What a step takes less,
the whole takes less, as far as nothing else becomes critical.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.run import Times


class Link(Enum):
    """Why a step begins when it does."""

    BEGIN = "begin"  # it is the first
    DEPENDENCY = "dependency"  # the task before it had to end
    RESOURCE = "resource"  # the task before it had the resource
    MESSAGE = "message"  # the task before it received what was sent to it
    MEMBERS = "members"  # the task before it waited in the collective for this one, the last to come


class Step(NamedTuple):
    """A stretch of the path: a task, from when to when (cycles), and how it hangs on the step before.

    `task` is -1 in a first step in which an NPU had not begun yet.
    """

    task: int
    begin: int
    end: int
    link: Link


def critical_path(graph: TaskGraph, times: Times) -> list[Step]:
    """The steps from cycle 0 to the last end. Of several ways, that to the lowest number."""
    if (times.end < 0).any():
        raise ValueError("tasks that have not ended have no critical path")
    found = _Path(graph, times)
    return found.steps()


class _Path:
    """The way back."""

    def __init__(self, graph: TaskGraph, times: Times) -> None:
        self.graph = graph
        self.times = times
        members = graph.of_kind(Kind.COLLECTIVE)
        self.members = members[np.lexsort((times.start[members], times.group[members]))]  # as they came
        self.of_group = np.searchsorted(times.group[self.members], np.arange(times.group.max() + 2))

    def steps(self) -> list[Step]:
        graph, times = self.graph, self.times
        task, until = int(times.end.argmax()), times.last
        steps: list[Step] = []
        while True:
            start = int(times.start[task])
            kind = graph.kind[task]
            if kind == Kind.RECEIVE and (send := int(times.partner[task])) >= 0 and times.end[send] > start:
                # The message was on its way: that is where the time went.
                steps.append(Step(task, until, until, Link.MESSAGE))
                task = send
                continue
            if kind == Kind.COLLECTIVE and (last := self._last_member(task, until)) != task:
                came = int(times.start[last])
                steps.append(Step(task, came, until, Link.MEMBERS))
                task, until = last, came
                continue
            cause = int(times.cause[task])
            if cause < 0:
                steps.append(Step(task, start, until, Link.BEGIN))
                if start:
                    steps.append(Step(-1, 0, start, Link.BEGIN))
                return steps[::-1]
            waited = times.start[task] > times.ready[task]
            steps.append(Step(task, start, until, Link.RESOURCE if waited else Link.DEPENDENCY))
            task, until = cause, start

    def _last_member(self, task: int, until: int) -> int:
        """Of a collective, the member that came last before one was through; it itself, if nobody came later."""
        group = self.times.group[task]
        members = self.members[self.of_group[group] : self.of_group[group + 1]]
        starts = self.times.start[members]
        came = int(starts[np.searchsorted(starts, until, side="right") - 1])
        if came <= self.times.start[task]:
            return task
        return int(members[np.searchsorted(starts, came)])
