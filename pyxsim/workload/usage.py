"""What each NPU did all the time: how long it computed, communicated, or had nothing to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyxsim.workload.graph import Kind, Longs, TaskGraph
from pyxsim.workload.run import Times
from pyxsim.workload.tasks import covered

COMMUNICATION = (Kind.SEND, Kind.RECEIVE, Kind.COLLECTIVE)


@dataclass(frozen=True)
class Usage:
    """Cycles of each NPU up to the end of the workload; what is done twice at a time counts once.

    `busy`: something is at work; `idle`: nothing is. `exposed`: it communicates and does not compute. `by_resource` and
    `idle_by_resource`: of each NPU and resource, whether something is at work on it; int64[npus, resources].
    """

    compute: Longs
    memory: Longs
    communication: Longs
    exposed: Longs
    busy: Longs
    idle: Longs
    by_resource: Longs
    idle_by_resource: Longs


def usage(graph: TaskGraph, times: Times) -> Usage:
    """What each NPU did. A mark is no work; a receive is from when its message was sent."""
    done, last = times.end >= 0, times.last
    kind = graph.kind

    def of(which: NDArray[np.bool_]) -> Longs:
        return _cycles(graph, times, np.flatnonzero(which & done))

    compute = kind == Kind.COMPUTE
    talk = np.isin(kind, COMMUNICATION)
    computing = of(compute)
    busy = of(kind != Kind.MARK)
    resources = [of(graph.resource == number) for number in range(len(graph.resources))]
    by_resource = np.stack(resources, axis=1) if resources else np.zeros((graph.npus, 0), np.int64)
    return Usage(
        compute=computing,
        memory=of(kind == Kind.MEMORY),
        communication=of(talk),
        exposed=of(talk | compute) - computing,
        busy=busy,
        idle=last - busy,
        by_resource=by_resource,
        idle_by_resource=last - by_resource,
    )


def _cycles(graph: TaskGraph, times: Times, tasks: Longs) -> Longs:
    """For each NPU, the cycles in which one of the tasks is at work."""
    begin = times.start[tasks].copy()
    receives = np.flatnonzero((graph.kind[tasks] == Kind.RECEIVE) & (times.partner[tasks] >= 0))
    begin[receives] = np.maximum(begin[receives], times.start[times.partner[tasks[receives]]])
    npu = graph.npu[tasks].astype(np.int64)
    order = np.lexsort((begin, npu))
    return covered(npu[order], begin[order], times.end[tasks][order], graph.npus)
