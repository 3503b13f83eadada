"""What each NPU did all the time: how long it computed, communicated, or had nothing to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyxsim.workload.graph import Kind, Longs, TaskGraph
from pyxsim.workload.job import TaskTimes
from pyxsim.workload.spans import merged

if TYPE_CHECKING:
    from pyxsim.workload.spans import Spans

COMMUNICATION = (Kind.SEND, Kind.RECEIVE, Kind.COLLECTIVE)


@dataclass(frozen=True)
class Usage:
    """Cycles of each NPU up to the end of the workload; what is done twice at a time counts once.

    `busy`: something is at work; `idle`: nothing is. `exposed`: it communicates and does not compute. `finished`: the
    cycle in which its last task ended. `by_resource` and `idle_by_resource`: of each NPU and resource, whether
    something is at work on it; int64[npus, resources].
    """

    compute: Longs
    memory: Longs
    communication: Longs
    exposed: Longs
    busy: Longs
    idle: Longs
    finished: Longs
    by_resource: Longs
    idle_by_resource: Longs


@dataclass(frozen=True)
class AtWork:
    """The tasks that have started, with the cycles in which they are at work; sorted by NPU, then by `begin`."""

    task: Longs
    npu: Longs
    begin: Longs
    end: Longs

    def of(self, which: NDArray[np.bool_]) -> AtWork:
        """Some of them."""
        return AtWork(self.task[which], self.npu[which], self.begin[which], self.end[which])

    def spans(self, npus: int) -> Spans:
        """For each NPU, when one or more of them are at work."""
        return merged(self.npu, self.begin, self.end, npus)


def at_work(graph: TaskGraph, times: TaskTimes, until: int) -> AtWork:
    """What is at work when, up to cycle `until`: a receive from when its message was sent, all others from their start;
    what has not ended by then, until then."""
    tasks = np.flatnonzero(times.start >= 0)
    begin, end = times.start[tasks], times.end[tasks]
    end = np.where(end < 0, until, end)
    receives = np.flatnonzero(graph.kind[tasks] == Kind.RECEIVE)
    sends = times.partner[tasks[receives]]
    sent = np.where(sends >= 0, times.start[sends], -1)
    # A message that nobody has sent keeps nobody busy.
    begin[receives] = np.where(sent < 0, end[receives], np.maximum(begin[receives], sent))
    npu = graph.npu[tasks].astype(np.int64)
    order = np.lexsort((begin, npu))
    return AtWork(tasks[order], npu[order], begin[order], end[order])


def usage(graph: TaskGraph, times: TaskTimes, until: int | None = None, found: AtWork | None = None) -> Usage:
    """What each NPU did until cycle `until`, by default until the last end. A mark is no work.

    `found`: what `at_work` says, if that is known.
    """
    last = times.last if until is None else until
    work = at_work(graph, times, last) if found is None else found
    kind, resource = graph.kind[work.task], graph.resource[work.task]

    def of(which: NDArray[np.bool_]) -> Longs:
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


def _cycles(work: AtWork, npus: int) -> Longs:
    """For each NPU, the cycles in which one of the tasks is at work."""
    start, begin, end = work.spans(npus)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(end - begin)])
    return np.diff(before[start])
