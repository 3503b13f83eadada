"""Computations at NPUs whose memory is shared with communication: the endpoint says when they end."""

from __future__ import annotations

from functools import partial
from math import ceil

import numpy as np

from pyxsim.errors import InputError
from pyxsim.system.endpoint import MOST, Endpoints
from pyxsim.workload.graph import Kind, Longs, TaskGraph
from pyxsim.workload.system_services import EndCallback, SystemServices, TaskExecutor


class Computing:
    """The station of computations that others hold up (docs/endpoint.md)."""

    def __init__(self, graph: TaskGraph, endpoint: Endpoints, tasks: Longs, tell: EndCallback) -> None:
        self.tasks = tasks
        self._graph, self._endpoint, self._tell = graph, endpoint, tell

    def start(self, task: int) -> None:
        """An NPU begins to compute, now."""
        graph = self._graph
        npu, ticks, size = int(graph.npu[task]), int(graph.ticks[task]), int(graph.size[task])
        self._endpoint.compute(npu, ticks, size, partial(self._tell, task))

    def waiting(self) -> list[str]:
        """None of them waits for anybody."""
        return []


def computing(graph: TaskGraph, system: SystemServices, tell: EndCallback) -> TaskExecutor | None:
    """Where there is a shared endpoint, computations that take time: those with bytes, or all if cores are shared."""
    if system.endpoint is None:
        return None
    options = system.endpoint.options
    concerned = (graph.kind == Kind.COMPUTE) & (graph.ticks > 0)
    if not options.compute_share:
        concerned &= (graph.size > 0) & (options.memory is not None)
    tasks = np.flatnonzero(concerned)
    slowest = ceil(max(system.options.slow(graph.npus)))
    large = tasks[(graph.size[tasks] > MOST) | (graph.ticks[tasks] > MOST // slowest)]
    if len(large):
        problem = f"{graph.label(int(large[0]))}: more than can be counted where the endpoint is shared"
        raise InputError(problem, allowed=f"at most {MOST} bytes and cycles")
    return Computing(graph, system.endpoint, tasks, tell) if len(tasks) else None
