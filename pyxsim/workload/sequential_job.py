"""A graph of tasks as ASTRA-sim carries it out: what ends in one nanosecond is taken in one after the other.

Each end lets start what it can before the next one is looked at; so of tasks that become ready in the same nanosecond
not always the one with the lowest number has the resource first. Computing ends in the order in which it began, among
the other things of its NPU.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pyxsim.workload.graph import TIMED, Kind, Longs, TaskGraph
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.job import TaskTimes
from pyxsim.workload.send_recv_matcher import SendRecvMatcher
from pyxsim.workload.system_services import EndCallback, SystemServices, TaskExecutor
from pyxsim.workload.task_executors import TASK_EXECUTORS


class SequentialGraphJob(GraphJob):
    """Carries out a graph on the system layer of ASTRA-sim."""

    sequential = True

    def __init__(self, graph: TaskGraph, *, place: str = "workload") -> None:
        super().__init__(graph, place=place)
        self.makers = (*TASK_EXECUTORS, _Clock, self._make_desk)
        self._waiting: list[int] = []
        self._busy = False
        self._desk: SendRecvMatcher | None = None

    def _make_desk(self, graph: TaskGraph, system: SystemServices, tell: EndCallback) -> TaskExecutor | None:
        tasks = np.flatnonzero(np.isin(graph.kind, (Kind.SEND, Kind.RECEIVE)))
        self._desk = self.desk(graph, tasks, system, tell) if len(tasks) else None
        return self._desk

    def desk(self, graph: TaskGraph, tasks: Longs, system: SystemServices, tell: EndCallback) -> SendRecvMatcher:
        """The station of sends and receives."""
        return SendRecvMatcher(graph, tasks, system, tell, self._messages)

    def times(self) -> TaskTimes:
        """When what happened."""
        times = super().times()
        if self._desk is None:
            return times
        partner = times.partner.copy()
        for send, receive in self._desk.pairs:
            partner[send], partner[receive] = receive, send
        return replace(times, partner=partner)

    def _hear(self, task: int, message: Any = None) -> None:
        if message is not None and self._desk is not None:
            self._desk.arrived(task)
            return
        self._waiting.append(task)
        if self._busy:  # it ended while something was started
            return
        self._busy = True
        while self._waiting:
            self._tasks.run(self._system.cycle, np.array([self._waiting.pop(0)], np.int64))
            self._start()
        self._busy = False

    def _hear_member(self, key: int, collective: Any, npu: int) -> None:
        self._hear(int(self._members[np.searchsorted(self._keys, key + npu)]))


class _Clock:
    """The station of what takes a time of its own: it asks the system for each end by itself."""

    def __init__(self, graph: TaskGraph, system: SystemServices, tell: EndCallback) -> None:
        self.tasks = np.flatnonzero(np.isin(graph.kind, TIMED) & (graph.ticks > 0))
        self._graph, self._tell = graph, tell
        self._system: Any = system  # its NPUs have lists of what they do

    def start(self, task: int) -> None:
        """One of its tasks starts, now."""
        npu, end = int(self._graph.npu[task]), self._system.cycle + int(self._graph.ticks[task])
        self._system.at(end, partial(self._tell, task), npu)

    def waiting(self) -> list[str]:
        """Nobody waits for others here."""
        return []
