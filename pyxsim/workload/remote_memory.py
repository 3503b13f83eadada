"""Remote accesses of a graph: tasks of kind MEMORY that have a size, carried out by the remote memory of the system."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyxsim.errors import InputError
from pyxsim.system.memory import MOST_BYTES, Access, MemoryOptions, Used, make_memory
from pyxsim.workload.graph import MOST_CYCLES, Kind, Longs, TaskGraph
from pyxsim.workload.system_services import EndCallback, SystemServices


@dataclass(frozen=True)
class MemoryTotals:
    """What a workload did with remote memory: bytes that began to move, of each NPU, and what carried them.

    Of a gather each NPU loads all that it gets, though the memory reads it once.
    """

    loaded: Longs
    stored: Longs
    used: list[Used]


class RemoteMemoryExecutor:
    """Begins accesses as their tasks start, and tells their ends. Raises InputError for what the memory cannot do.

    `together`: tasks that are one access, which begins with the last of them.
    """

    def __init__(self, graph: TaskGraph, tasks: Longs, system: SystemServices, tell: EndCallback) -> None:
        options: MemoryOptions | None = system.options.remote_memory
        self.tasks = tasks
        self._graph, self._system, self._tell = graph, system, tell
        for access in Access:
            own = tasks[graph.match[tasks] == access]
            refusal = "there is none" if options is None else options.refusal(access)
            if len(own) and refusal:
                problem = f"{graph.label(int(own[0]))}: it accesses remote memory ({access.name.lower()}): {refusal}"
                raise InputError(problem, key="system.remote_memory", allowed="a memory that can do it")
        assert options is not None
        if options.most(graph.size[tasks].tolist()) > MOST_CYCLES:
            problem = "the accesses may take more cycles than can be counted"
            raise InputError(problem, key="system.remote_memory", allowed=f"at most {MOST_CYCLES}")
        largest = int(tasks[np.argmax(graph.size[tasks])])
        if graph.size[largest] > MOST_BYTES:
            problem = f"{graph.label(largest)}: it accesses {graph.size[largest]} bytes of remote memory"
            raise InputError(problem, allowed=f"at most {MOST_BYTES}")
        self._memory = make_memory(options)
        self.together = _together(graph, tasks)
        self._came: list[list[int]] = [[] for _ in self.together]
        self._number = {task: number for number, own in enumerate(self.together) for task in own}
        self._next = -1  # the cycle for which `_go_on` is asked
        self._moved = {True: np.zeros(graph.npus, np.int64), False: np.zeros(graph.npus, np.int64)}

    def start(self, task: int) -> None:
        """A task starts, now; what all do together begins with the last of them."""
        graph, now = self._graph, self._system.cycle
        access, npu, size = Access(graph.match[task]), int(graph.npu[task]), int(graph.size[task])
        self._moved[access.loads][npu] += size
        if access.together:
            came = self._came[self._number[task]]
            came.append(task)
            if len(came) < graph.npus:
                return
        self._memory.begin(now, task, npu, size, access)
        self._ask(now)

    def totals(self) -> MemoryTotals:
        """What was done so far."""
        return MemoryTotals(self._moved[True], self._moved[False], self._memory.used())

    def waiting(self) -> list[str]:
        """Tasks that have started, and wait for those of other NPUs that have not."""
        lines = []
        for number, came in enumerate(self._came):
            if 0 < len(came) < self._graph.npus:
                missing = next(task for task in self.together[number] if task not in came)
                lines += [f"{self._graph.label(task)} waits for {self._graph.label(missing)}" for task in came]
        return lines

    def _ask(self, cycle: int) -> None:
        if not 0 <= self._next <= cycle:
            self._next = cycle
            self._system.at(cycle, self._go_on)

    def _go_on(self) -> None:
        now = self._system.cycle
        if not 0 <= self._next <= now:
            return  # it was asked for again, and that came sooner
        self._next = -1
        for task in self._memory.run(now):
            for each in self.together[self._number[task]] if task in self._number else (task,):
                self._tell(each)
        following = self._memory.next()
        if following >= 0:
            self._ask(following)


def _together(graph: TaskGraph, tasks: Longs) -> list[list[int]]:
    """The tasks of each access that all NPUs do together: the k-th of a kind at each NPU, by number."""
    found: list[list[int]] = []
    for access in (each for each in Access if each.together):
        own = tasks[graph.match[tasks] == access]
        own = own[np.argsort(graph.npu[own], kind="stable")]
        many = np.bincount(graph.npu[own], minlength=graph.npus)
        if len(own) and many.min() != many.max():
            most, least = int(many.argmax()), int(many.argmin())
            problem = f"NPU {most} has {many[most]} accesses of kind {access.name.lower()}, NPU {least} {many[least]}"
            raise InputError(problem, allowed="as many at each: all NPUs do them together")
        for row in own.reshape(graph.npus, -1).T:
            sizes = graph.size[row]
            if sizes.min() != sizes.max():
                small, large = (graph.label(int(row[at])) for at in (sizes.argmin(), sizes.argmax()))
                problem = f"{large}: it is about {sizes.max()} bytes, {small} about {sizes.min()}, and they are one"
                raise InputError(f"{problem} {access.name.lower()}", allowed="as many bytes")
            found.append(row.tolist())
    return found


def remote_memory(graph: TaskGraph, system: SystemServices, tell: EndCallback) -> RemoteMemoryExecutor | None:
    """The station of a graph; None where nothing accesses remote memory."""
    tasks = np.flatnonzero((graph.kind == Kind.MEMORY) & (graph.size > 0))
    return RemoteMemoryExecutor(graph, tasks, system, tell) if len(tasks) else None
