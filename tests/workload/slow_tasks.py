"""A graph of tasks carried out cycle by cycle, as docs/workload.md tells it: slow, and easy to read.

The system layer is the one of hands.py: a collective ends for all members so many cycles after the last has entered, a
message so many after it was handed over. A remote access ends so many cycles after its start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil

from pyxsim.collective.communicator import Communicator
from pyxsim.workload.graph import TIMED, Kind, TaskGraph


class SlowTasks:
    """`ready`, `start`, `end` of each task, -1 for what never happens.

    `log`: (cycle, task) of what was entered or handed over, in order.
    """

    def __init__(
        self,
        graph: TaskGraph,
        shape: Sequence[int],
        collective: Callable[[int], int],
        message: Callable[[int], int],
        skew: Sequence[int],
        slow: Sequence[Fraction],
        remote: Callable[[int], int] = lambda size: size,
    ) -> None:
        self.graph, self.collective, self.message, self.slow, self.remote = graph, collective, message, slow, remote
        count = len(graph)
        self.tasks = range(count)
        self.ready, self.start, self.end = [-1] * count, [-1] * count, [-1] * count
        self.log: list[tuple[int, int]] = []
        stretches = pairwise(graph.before_start.tolist())
        self.waits = [set(graph.before[begin:end].tolist()) for begin, end in stretches]
        self.due: dict[int, int] = {}  # task -> the cycle in which it ends by its ticks
        self.told: dict[int, int] = {}  # task -> the cycle in which the system layer will tell its end
        self.arrived: set[int] = set()  # sends of which that has been told
        self.sends: dict[tuple[int, ...], list[int]] = defaultdict(list)  # of each channel, as they started
        self.receives: dict[tuple[int, ...], list[int]] = defaultdict(list)
        self.groups = [self._groups(row, shape) for row in range(len(graph.calls))]
        self.entered: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
        cycle = 0
        while cycle <= max([*skew, *self.due.values(), *self.told.values()]):
            first = [t for t in self.tasks if self.due.get(t) == cycle]
            for npu in range(graph.npus):
                begins = skew[npu] == cycle
                ends = [task for task in first if graph.npu[task] == npu]
                if begins or ends:
                    self.rounds(npu, cycle, ends, begins)
            while told := [t for t in self.tasks if self.told.get(t) == cycle and self.end[t] < 0]:
                # Remote memory tells first, the system layer when that has nothing more to tell.
                told = [t for t in told if graph.kind[t] == Kind.MEMORY] or told
                self.arrived.update(told)
                ends = told + [r for t in told if (r := self.receiver(t)) is not None]
                for npu in sorted({int(graph.npu[task]) for task in ends}):
                    self.rounds(npu, cycle, [task for task in ends if graph.npu[task] == npu], False)
            cycle += 1

    def _groups(self, row: int, shape: Sequence[int]) -> list[tuple[int, ...]]:
        call = self.graph.calls[row]
        if call.dims is not None:
            return [group.members for group in Communicator.along(call.dims, shape)]
        if call.groups is not None:
            return list(call.groups)
        return [call.members if call.members is not None else tuple(range(self.graph.npus))]

    def channel(self, task: int) -> tuple[int, ...]:
        graph = self.graph
        ends = (graph.npu[task], graph.peer[task])
        return (*(ends if graph.kind[task] == Kind.SEND else ends[::-1]), graph.match[task], graph.size[task])

    def receiver(self, send: int) -> int | None:
        """The receive that waits for the message of a send."""
        if self.graph.kind[send] != Kind.SEND:
            return None
        k = self.sends[self.channel(send)].index(send)
        posted = self.receives[self.channel(send)]
        return posted[k] if k < len(posted) else None

    def rounds(self, npu: int, cycle: int, ends: list[int], begins: bool) -> None:
        graph, mine = self.graph, [task for task in self.tasks if self.graph.npu[task] == npu]
        while ends or begins:
            for task in sorted(ends):
                self.end[task] = cycle
            for task in mine:
                waits = all(self.end[each] >= 0 for each in self.waits[task])
                if self.ready[task] < 0 and waits and (self.waits[task] or begins):
                    self.ready[task] = cycle
            begins = False
            starts = []
            for task in mine:
                if self.ready[task] < 0 or self.start[task] >= 0:
                    continue
                resource = graph.resource[task]
                at_work = [t for t in mine if graph.resource[t] == resource and self.end[t] < 0 <= self.start[t]]
                if resource < 0 or len(at_work) < graph.resources[resource][1]:
                    self.start[task] = cycle
                    starts.append(task)
            ends = [task for task in starts if self.begin(task, cycle)]

    def begin(self, task: int, cycle: int) -> bool:
        """Begin a task; whether it ends in this cycle."""
        graph, kind = self.graph, self.graph.kind[task]
        if kind == Kind.MEMORY and graph.size[task]:
            self.told[task] = cycle + self.remote(int(graph.size[task]))
            return False
        if kind in TIMED:
            factor = self.slow[graph.npu[task]] if kind == Kind.COMPUTE else 1
            self.due[task] = cycle + ceil(int(graph.ticks[task]) * factor)
            return self.due[task] == cycle
        if kind == Kind.RECEIVE:
            posted, sent = self.receives[self.channel(task)], self.sends[self.channel(task)]
            posted.append(task)
            return len(sent) >= len(posted) and sent[len(posted) - 1] in self.arrived
        self.log.append((cycle, task))
        if kind == Kind.SEND:
            self.sends[self.channel(task)].append(task)
            self.told[task] = cycle + self.message(int(graph.size[task]))
            return False
        row = int(graph.call[task])
        (group,) = [each for each in self.groups[row] if graph.npu[task] in each]
        entered = self.entered[row, group]
        entered.append(task)
        if len(entered) == len(group):
            for each in entered:
                self.told[each] = cycle + self.collective(graph.calls[row].size)
        return False
