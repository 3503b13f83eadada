"""Accesses to remote memory: tasks of kind MEMORY that have a size."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.system.memory import MOST_BYTES, Access, MemoryOptions, make_memory
from pyxsim.workload.graph import MOST_CYCLES, Kind, TaskGraph
from pyxsim.workload.system_services import EndCallback, MemoryTotals, SystemServices, TaskExecutor


class RemoteMemoryExecutor(TaskExecutor):
    """Carries out accesses to remote memory. Raises InputError for an access that the memory does not support.

    A joint access begins when the last of its tasks starts.
    """

    def __init__(self, graph: TaskGraph, tasks: IntArray, system: SystemServices, ended: EndCallback) -> None:
        options: MemoryOptions | None = system.options.remote_memory
        self.tasks = tasks
        self._graph, self._system, self._ended_task = graph, system, ended
        for access in Access:
            joint_tasks = tasks[graph.match[tasks] == access]
            refusal = "the system has none" if options is None else options.refusal(access)
            if len(joint_tasks) and refusal:
                problem = f"{graph.label(int(joint_tasks[0]))}: remote memory access ({access.name.lower()}): {refusal}"
                raise InputError(problem, key="system.remote_memory", allowed="a memory that supports it")
        assert options is not None
        if options.most(graph.size[tasks].tolist()) > MOST_CYCLES:
            problem = "the accesses take too many cycles"
            raise InputError(problem, key="system.remote_memory", allowed=f"at most {MOST_CYCLES}")
        largest = int(tasks[np.argmax(graph.size[tasks])])
        if graph.size[largest] > MOST_BYTES:
            problem = f"{graph.label(largest)}: accesses {graph.size[largest]} bytes of remote memory"
            raise InputError(problem, allowed=f"at most {MOST_BYTES}")
        self._memory = make_memory(options)
        self.joint = _joint_accesses(graph, tasks)
        self._started: list[list[int]] = [[] for _ in self.joint]
        self._joint_of = {task: number for number, joint_tasks in enumerate(self.joint) for task in joint_tasks}
        self._next_step = -1  # cycle of the next call of `_step`; -1: none
        self._moved = {True: np.zeros(graph.npus, np.int64), False: np.zeros(graph.npus, np.int64)}

    def start(self, task: int) -> None:
        """Start an access; a joint one begins with the last of its tasks."""
        graph, now = self._graph, self._system.cycle
        access, npu, size = Access(graph.match[task]), int(graph.npu[task]), int(graph.size[task])
        self._moved[access.loads][npu] += size
        if access.together:
            started = self._started[self._joint_of[task]]
            started.append(task)
            if len(started) < graph.npus:
                return
        self._memory.begin(now, task, npu, size, access)
        self._schedule_step(now)

    def totals(self) -> MemoryTotals:
        """Return the use of remote memory so far."""
        return MemoryTotals(self._moved[True], self._moved[False], self._memory.used())

    def waiting(self) -> list[str]:
        """Return a line for each started task of a joint access that has not begun."""
        lines = []
        for number, started in enumerate(self._started):
            if 0 < len(started) < self._graph.npus:
                missing = next(task for task in self.joint[number] if task not in started)
                lines += [f"{self._graph.label(task)} waits for {self._graph.label(missing)}" for task in started]
        return lines

    def _schedule_step(self, cycle: int) -> None:
        if not 0 <= self._next_step <= cycle:
            self._next_step = cycle
            self._system.at(cycle, self._step)

    def _step(self) -> None:
        now = self._system.cycle
        if not 0 <= self._next_step <= now:
            return  # an earlier call has replaced this one
        self._next_step = -1
        for task in self._memory.run(now):
            for member in self.joint[self._joint_of[task]] if task in self._joint_of else (task,):
                self._ended_task(member)
        following = self._memory.next()
        if following >= 0:
            self._schedule_step(following)


def _joint_accesses(graph: TaskGraph, tasks: IntArray) -> list[list[int]]:
    """The tasks of each joint access: the k-th of its kind on each NPU, in the order of task numbers."""
    accesses: list[list[int]] = []
    for access in (access for access in Access if access.together):
        of_kind = tasks[graph.match[tasks] == access]
        of_kind = of_kind[np.argsort(graph.npu[of_kind], kind="stable")]
        count = np.bincount(graph.npu[of_kind], minlength=graph.npus)
        if len(of_kind) and count.min() != count.max():
            most, fewest = int(count.argmax()), int(count.argmin())
            kind = access.name.lower()
            problem = f"NPU {most} has {count[most]} accesses of kind {kind}, NPU {fewest} {count[fewest]}"
            raise InputError(problem, allowed="the same number on each NPU, because the accesses are joint")
        for row in of_kind.reshape(graph.npus, -1).T:
            sizes = graph.size[row]
            if sizes.min() != sizes.max():
                small, large = (graph.label(int(row[at])) for at in (sizes.argmin(), sizes.argmax()))
                problem = f"{large} accesses {sizes.max()} bytes, but {small} accesses {sizes.min()} in the same joint"
                raise InputError(f"{problem} {access.name.lower()}", allowed="the same number of bytes")
            accesses.append(row.tolist())
    return accesses


def remote_memory(graph: TaskGraph, system: SystemServices, ended: EndCallback) -> RemoteMemoryExecutor | None:
    """Return the executor of a graph; None where no task accesses remote memory."""
    tasks = np.flatnonzero((graph.kind == Kind.MEMORY) & (graph.size > 0))
    return RemoteMemoryExecutor(graph, tasks, system, ended) if len(tasks) else None
