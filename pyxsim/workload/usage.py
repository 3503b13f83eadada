"""How long each NPU computed, communicated, or was idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.job import TaskTimes
from pyxsim.workload.spans import merged

if TYPE_CHECKING:
    from pyxsim.workload.spans import Spans

COMMUNICATION = (Kind.SEND, Kind.RECEIVE, Kind.COLLECTIVE)


@dataclass(frozen=True)
class Usage:
    """Cycles per NPU, int64[npus]; tasks at the same time count once.

    Attributes
    ----------
    compute, memory, communication
        A task of that kind is active.
    exposed
        It communicates and does not compute.
    busy, idle
        Some task is active; none is.
    finished
        Cycle in which its last task ended.
    by_resource, idle_by_resource
        int64[npus, resources]: a task on the resource is active; none is.
    """

    compute: IntArray
    memory: IntArray
    communication: IntArray
    exposed: IntArray
    busy: IntArray
    idle: IntArray
    finished: IntArray
    by_resource: IntArray
    idle_by_resource: IntArray


@dataclass(frozen=True)
class AtWork:
    """The tasks that have started, with the cycles in which they are active; sorted by NPU, then by `begin`."""

    task: IntArray
    npu: IntArray
    begin: IntArray
    end: IntArray

    def of(self, which: NDArray[np.bool_]) -> AtWork:
        """Return a selection."""
        return AtWork(self.task[which], self.npu[which], self.begin[which], self.end[which])

    def spans(self, npus: int) -> Spans:
        """Return the intervals of each NPU in which at least one task is active."""
        return merged(self.npu, self.begin, self.end, npus)


def at_work(graph: TaskGraph, times: TaskTimes, until: int) -> AtWork:
    """Return when tasks are active, up to cycle `until`.

    A receive is active from the start of its send, other tasks from their own start; a task that has not ended, to
    `until`.
    """
    tasks = np.flatnonzero(times.start >= 0)
    begin, end = times.start[tasks], times.end[tasks]
    end = np.where(end < 0, until, end)
    receives = np.flatnonzero(graph.kind[tasks] == Kind.RECEIVE)
    sends = times.partner[tasks[receives]]
    sent = np.where(sends >= 0, times.start[sends], -1)
    # A message that was not sent keeps no NPU busy.
    begin[receives] = np.where(sent < 0, end[receives], np.maximum(begin[receives], sent))
    npu = graph.npu[tasks].astype(np.int64)
    order = np.lexsort((begin, npu))
    return AtWork(tasks[order], npu[order], begin[order], end[order])


def usage(graph: TaskGraph, times: TaskTimes, until: int | None = None, work: AtWork | None = None) -> Usage:
    """Return what each NPU did until cycle `until` (default: the last end). Marks do not count.

    `work`: the result of `at_work`, if known.
    """
    last = times.last if until is None else until
    work = at_work(graph, times, last) if work is None else work
    kind, resource = graph.kind[work.task], graph.resource[work.task]

    def of(which: NDArray[np.bool_]) -> IntArray:
        return _cycles(work.of(which), graph.npus)

    compute = kind == Kind.COMPUTE
    talk = np.isin(kind, COMMUNICATION)
    computing = of(compute)
    busy = of(kind != Kind.MARK)
    resources = [of(resource == number) for number in range(len(graph.resources))]
    by_resource = np.stack(resources, axis=1) if resources else np.zeros((graph.npus, 0), np.int64)
    finished = np.zeros(graph.npus, np.int64)
    np.maximum.at(finished, graph.npu, times.end)
    return Usage(
        compute=computing,
        memory=of(kind == Kind.MEMORY),
        communication=of(talk),
        exposed=of(talk | compute) - computing,
        busy=busy,
        idle=last - busy,
        finished=finished,
        by_resource=by_resource,
        idle_by_resource=last - by_resource,
    )


def _cycles(work: AtWork, npus: int) -> IntArray:
    """Per NPU, the cycles in which at least one task is active."""
    start, begin, end = work.spans(npus)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(end - begin)])
    return np.diff(before[start])
