"""The executors of tasks that neither last a given number of cycles nor are messages or collectives.

A new kind of task needs a row in `TASK_EXECUTORS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.system.endpoint import MOST, Endpoints
from pyxsim.workload.faulty_compute import faulty_compute_executor
from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.remote_memory import remote_memory
from pyxsim.workload.system_services import EndCallback, SystemServices, TaskExecutor

ExecutorFactory = Callable[[TaskGraph, SystemServices, EndCallback], TaskExecutor | None]
"""Makes the executor of a graph on a system layer; None where it has no tasks. Raises InputError."""


class ComputeExecutor(TaskExecutor):
    """Carries out computation that communication slows down (docs/endpoint.md)."""

    def __init__(self, graph: TaskGraph, endpoint: Endpoints, tasks: IntArray, ended: EndCallback) -> None:
        self.tasks = tasks
        self._graph, self._endpoint, self._ended_task = graph, endpoint, ended

    def start(self, task: int) -> None:
        """Let an NPU begin to compute in the current cycle."""
        graph = self._graph
        npu, ticks, size = int(graph.npu[task]), int(graph.ticks[task]), int(graph.size[task])
        self._endpoint.compute(npu, ticks, size, partial(self._ended_task, task))


def compute_executor(graph: TaskGraph, system: SystemServices, ended: EndCallback) -> TaskExecutor | None:
    """Return the executor of a graph where the endpoint is shared; None otherwise.

    It carries out computation that takes time: with bytes, or all of it if cores are shared.
    """
    if system.endpoint is None:
        return None
    options = system.endpoint.options
    shared = (graph.kind == Kind.COMPUTE) & (graph.ticks > 0)
    if not options.compute_share:
        shared &= (graph.size > 0) & (options.memory is not None)
    tasks = np.flatnonzero(shared)
    slowest = ceil(max(system.options.slow(graph.npus)))
    large = tasks[(graph.size[tasks] > MOST) | (graph.ticks[tasks] > MOST // slowest)]
    if len(large):
        problem = f"{graph.label(int(large[0]))}: too large for a shared endpoint"
        raise InputError(problem, allowed=f"at most {MOST} bytes and cycles")
    return ComputeExecutor(graph, system.endpoint, tasks, ended) if len(tasks) else None


TASK_EXECUTORS: tuple[ExecutorFactory, ...] = (remote_memory, compute_executor, faulty_compute_executor)
