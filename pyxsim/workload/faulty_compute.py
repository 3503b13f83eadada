"""Computation on NPUs that stop or slow down for a time ([[faults]] with `stop` or `slow`, docs/faults.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import ceil

import numpy as np

from pyxsim.network.fault_times import NEVER
from pyxsim.system.options import ComputeFault
from pyxsim.workload.graph import Kind, TaskGraph
from pyxsim.workload.system_services import EndCallback, SystemServices, TaskExecutor


def end_of_work(faults: Sequence[ComputeFault], start: int, ticks: Fraction) -> int:
    """Return the cycle in which work that begins in cycle `start` ends, or NEVER.

    Parameters
    ----------
    faults
        Those of its NPU: with active factors `f`, it does 1 / product(f) cycles of work per cycle, and none while it is
        stopped.
    ticks
        Cycles that the work takes without faults.
    """
    now, work = start, Fraction(ticks)
    while work > 0:
        following = min(fault.times.following(now) for fault in faults)
        speed = Fraction(1)
        for fault in faults:
            if fault.times.active(now):
                speed = speed / fault.slow if fault.slow else Fraction(0)
        if speed and now + work / speed <= following:
            return now + ceil(work / speed)
        if following >= NEVER:
            return NEVER
        work -= (following - now) * speed
        now = following
    return now


class FaultyComputeExecutor(TaskExecutor):
    """Runs the computation of NPUs with faults."""

    def __init__(
        self, graph: TaskGraph, faults: Mapping[int, Sequence[ComputeFault]], system: SystemServices, ended: EndCallback
    ) -> None:
        self.tasks = np.flatnonzero((graph.kind == Kind.COMPUTE) & np.isin(graph.npu, list(faults)))
        self._graph, self._faults, self._system, self._ended = graph, faults, system, ended
        self._slow = system.options.slow(graph.npus)
        self._stopped: list[int] = []

    def start(self, task: int) -> None:
        """Start the task of an NPU in the current cycle."""
        npu, now = int(self._graph.npu[task]), self._system.cycle
        ticks = Fraction(ceil(int(self._graph.ticks[task]) * Fraction(self._slow[npu])))
        end = end_of_work(self._faults[npu], now, ticks)
        if end < NEVER:
            self._system.at(end, partial(self._ended, task))
        else:
            self._stopped.append(task)

    def waiting(self) -> list[str]:
        graph = self._graph
        return [f"{graph.label(task)} does not end: NPU {graph.npu[task]} has stopped" for task in self._stopped]


def faulty_compute_executor(graph: TaskGraph, system: SystemServices, ended: EndCallback) -> TaskExecutor | None:
    """Return the executor of a graph where NPUs stop or slow down for a time; None otherwise."""
    faults: Mapping[int, Sequence[ComputeFault]] = system.options.compute_faults
    executor = FaultyComputeExecutor(graph, faults, system, ended) if faults else None
    return executor if executor is not None and len(executor.tasks) else None
