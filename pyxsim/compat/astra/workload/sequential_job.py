"""A graph of tasks in ASTRA-sim's order of events: tasks that end in one nanosecond end one after the other.

Each end starts every task that it makes ready before the next end is processed, so the task with the lowest number does
not always get a resource first. Computation ends in the order in which it began, among the other events of its NPU.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.compat.astra.workload.send_recv_matcher import SendRecvMatcher
from pyxsim.workload.graph import TIMED, Kind, TaskGraph
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.job import TaskTimes
from pyxsim.workload.system_services import EndCallback, SystemServices, TaskExecutor
from pyxsim.workload.task_executors import TASK_EXECUTORS


class SequentialGraphJob(GraphJob):
    """Carries out a graph on the system layer of ASTRA-sim."""

    sequential = True

    def __init__(self, graph: TaskGraph, *, key: str = "workload") -> None:
        super().__init__(graph, key=key)
        self.factories = (*TASK_EXECUTORS, _Clock, self._make_matcher)
        self._queue: list[int] = []
        self._processing = False
        self._matcher: SendRecvMatcher | None = None

    def _make_matcher(self, graph: TaskGraph, system: SystemServices, ended: EndCallback) -> TaskExecutor | None:
        tasks = np.flatnonzero(np.isin(graph.kind, (Kind.SEND, Kind.RECEIVE)))
        self._matcher = self.matcher(graph, tasks, system, ended) if len(tasks) else None
        return self._matcher

    def matcher(self, graph: TaskGraph, tasks: IntArray, system: SystemServices, ended: EndCallback) -> SendRecvMatcher:
        """Return the executor of sends and receives."""
        return SendRecvMatcher(graph, tasks, system, ended, self._messages)

    def times(self) -> TaskTimes:
        """Return when each task became ready, started and ended."""
        times = super().times()
        if self._matcher is None:
            return times
        partner = times.partner.copy()
        for send, receive in self._matcher.pairs:
            partner[send], partner[receive] = receive, send
        return replace(times, partner=partner)

    def _task_ended(self, task: int, message: Any = None) -> None:
        if message is not None and self._matcher is not None:
            self._matcher.arrived(task)
            return
        self._queue.append(task)
        if self._processing:  # it ended while another task was starting
            return
        self._processing = True
        while self._queue:
            self._tasks.run(self._system.cycle, np.array([self._queue.pop(0)], np.int64))
            self._start()
        self._processing = False

    def _member_ended(self, key: int, collective: Any, npu: int) -> None:
        self._task_ended(int(self._members[np.searchsorted(self._keys, key + npu)]))


class _Clock(TaskExecutor):
    """Carries out tasks of a given duration: each end is an event of its own in the system layer."""

    def __init__(self, graph: TaskGraph, system: SystemServices, ended: EndCallback) -> None:
        self.tasks = np.flatnonzero(np.isin(graph.kind, TIMED) & (graph.ticks > 0))
        self._graph, self._ended_task = graph, ended
        self._system: Any = system  # orders events by NPU

    def start(self, task: int) -> None:
        """Start a task in the current cycle."""
        npu, end = int(self._graph.npu[task]), self._system.cycle + int(self._graph.ticks[task])
        self._system.at(end, partial(self._ended_task, task), npu)
