"""A graph of tasks as a job of the system layer: it begins what has become ready, and hears what has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil
from typing import Any

import numpy as np

from pyxsim.collective.communicator import Communicator
from pyxsim.errors import InputError
from pyxsim.settings.algorithms import algorithm_key
from pyxsim.system import Options
from pyxsim.workload.graph import MOST_CYCLES, MOST_SHOWN, Call, Kind, Longs, TaskGraph, channels, check
from pyxsim.workload.job import IssuedCollective, Job, LayerCollectives, TaskRun, TaskTimes
from pyxsim.workload.layer_table import WHOLE
from pyxsim.workload.remote_memory import MemoryTotals, RemoteMemoryExecutor
from pyxsim.workload.system_services import SystemServices, TaskExecutor
from pyxsim.workload.task_executors import TASK_EXECUTORS, ExecutorFactory
from pyxsim.workload.tasks import Tasks, Way

_WAYS = {
    Kind.COMPUTE: Way.TIMED,
    Kind.MEMORY: Way.TIMED,
    Kind.MARK: Way.TIMED,
    Kind.SEND: Way.SEND,
    Kind.RECEIVE: Way.RECEIVE,
    Kind.COLLECTIVE: Way.TOLD,
}


_MOST_STUCK = 20  # lines
_NOTHING: Longs = np.zeros(0, np.int64)


class GraphJob(Job):
    """Carries out a graph. Raises InputError for one that cannot be (see graph.check).

    `place`: the setting that names the workload; faults are told with it. `dims`: the dimensions of the network as the
    workload sees them, where it sees others.
    """

    planned = False
    per_npu = True
    makers: Sequence[ExecutorFactory] = TASK_EXECUTORS

    def __init__(self, graph: TaskGraph, *, place: str = "workload") -> None:
        check(graph)
        self.graph = graph
        self.collectives: list[IssuedCollective] = []
        self.traffic: list[str] = []
        self.stations: list[TaskExecutor] = []
        self._place = place
        self._told: list[int] = []  # sends that have arrived since the last step
        self._joined: list[int] = []  # keys of members that are through, likewise
        self._next = -1  # the cycle of the next step that is asked for, without what is told
        self._asked_for = False  # one that takes in what is told, in this very cycle
        members = graph.of_kind(Kind.COLLECTIVE)
        keys = graph.call[members].astype(np.int64) * graph.npus + graph.npu[members]
        order = np.argsort(keys)
        self._keys, self._members = keys[order], members[order]

    def begin(self, system: SystemServices) -> None:
        """Issue everything, and let the NPUs begin. Raises InputError where the network cannot do it."""
        graph = self.graph
        npus = int(np.prod(system.shape))
        if graph.npus != npus:
            problem = f"a workload for {graph.npus} NPUs on a network of {npus}"
            raise InputError(problem, key=self._place, allowed="as many")
        if any(call.dims is not None for call in graph.calls):
            check(graph, system.shape)
        self._system = system
        self._tags: dict[str, int] = {}
        self._per_group: list[Any] = []
        self._group = np.full(len(graph), -1, np.int32)
        for number, call in enumerate(graph.calls):
            self._issue(number, call)
        self._messages = self._open_messages()
        begin = [system.options.skew(npu) for npu in range(npus)]
        ways = np.array([_WAYS[kind] for kind in sorted(Kind)], np.int8)[graph.kind]
        # Who carries out what does not end by its ticks: of each task, a row of what begins it.
        self._begin: list[Callable[[int], None]] = [self._hand_over, self._enter]
        self._beginner = (graph.kind == Kind.COLLECTIVE).astype(np.int8)
        for make in self.makers:
            station = make(graph, system, self._hear)
            if station is not None:
                self.stations.append(station)
                ways[station.tasks], self._beginner[station.tasks] = Way.TOLD, len(self._begin)
                self._begin.append(station.start)
            if isinstance(station, RemoteMemoryExecutor):
                for number, own in enumerate(station.together, len(self._per_group)):
                    self._group[own] = number
        self._tasks = Tasks(
            npus,
            graph.npu,
            ways,
            self._ticks(system),
            graph.resource,
            [room for _, room in graph.resources],
            graph.before_start,
            graph.before,
            channels(graph)[0],
            begin,
        )
        self._ask(min(begin))

    @property
    def end(self) -> int:
        """The cycle in which the last task has ended."""
        return self.times().last

    @property
    def left(self) -> int:
        """How many tasks have not ended."""
        return self._tasks.left

    def remote_memory(self) -> MemoryTotals | None:
        """Return what was done with remote memory; None without any."""
        return next((each.totals() for each in self.stations if isinstance(each, RemoteMemoryExecutor)), None)

    def stuck_report(self) -> list[str]:
        """Of tasks that have started and not ended, those that wait for another NPU's, a line each; if none does, those
        that have not ended at all. Empty when all is done."""
        if not self.left:
            return []
        graph, times = self.graph, self.times()
        lines = []
        for task in np.flatnonzero((times.start >= 0) & (times.end < 0) & (graph.kind == Kind.RECEIVE)).tolist():
            what = f"{graph.size[task]} bytes with tag {graph.match[task]} from NPU {graph.peer[task]}"
            lines.append(f"{graph.label(task)} waits for {what}")
        for station in self.stations:
            lines += station.waiting()
        left = np.flatnonzero(times.end < 0)
        lines = lines or [f"{graph.label(task)} has not ended" for task in left.tolist()]
        more = len(lines) - _MOST_STUCK
        return [*lines[:_MOST_STUCK], f"... and {more} more"] if more > 0 else lines

    def times(self) -> TaskTimes:
        """When what happened."""
        tasks = self._tasks
        partner = np.full(len(self.graph), -1, np.int32)
        both = (tasks.sender >= 0) & (tasks.receiver >= 0)
        partner[tasks.sender[both]], partner[tasks.receiver[both]] = tasks.receiver[both], tasks.sender[both]
        return TaskTimes(tasks.ready, tasks.start, tasks.end, tasks.cause, partner, self._group)

    def tasks(self) -> TaskRun:
        """Return the tasks and their times."""
        return TaskRun(self.graph, self.times())

    def layer_collectives(self) -> LayerCollectives:
        """Return the collectives of NPU 0 by layer."""
        graph, times = self.graph, self.times()
        layer = graph.layer if graph.layers else np.zeros(len(graph), np.int32)
        mine = np.flatnonzero((graph.npu == 0) & (graph.kind == Kind.COLLECTIVE) & (times.start >= 0) & (layer >= 0))
        columns = (column[mine].tolist() for column in (times.group, layer, times.start))
        begun = {group: (number, start) for group, number, start in zip(*columns, strict=True)}
        return LayerCollectives(list(graph.layers or [WHOLE]), begun, int(times.end[graph.npu == 0].max(initial=0)))

    def system_options(self, options: Options) -> Options:
        """Return the options with what the workload changes: priorities, and a broken dimension as two alike.

        ASTRA-sim 2 has priorities in its traces, and looks at them only if its scheduling is explicit.
        """
        if options.compat is None and len({call.priority for call in self.graph.calls}) > 1:
            options = replace(options, scheduling="explicit")
        if self.dims is None or self.dims.broken is None:
            return options
        twice = partial(_twice, self.dims.broken)
        return replace(
            options,
            algorithms=partial(_algorithms_twice, options, self.dims.broken),
            queues=twice(options.queues),
            slots=twice(options.slots),
            bandwidths=twice(options.bandwidths),
        )

    # -- what is issued --

    def _tag(self, name: str) -> int:
        """Whose traffic it is: one number for each name."""
        if name not in self._tags:
            self._tags[name] = len(self.traffic)
            self.traffic.append(name)
        return self._tags[name]

    def _issue(self, number: int, call: Call) -> None:
        """Issue a collective, one for each group."""
        system, place = self._system, f"system.{algorithm_key(call.kind)}"
        name = call.name or call.kind
        collective = IssuedCollective(name, place, _group_name(call), call.root)
        for group in _communicators(call, system):
            root = 0 if call.root is None else call.root if call.has_groups else group.members.index(call.root)
            try:
                issued = system.issue(
                    call.kind,
                    call.size,
                    communicator=group,
                    algorithms=call.algorithms,
                    root=root,
                    priority=call.priority,
                    name=name,
                    tag=self._tag(name),
                    open=True,
                    joined=partial(self._hear_member, number * self.graph.npus),
                )
            except InputError as error:
                raise error.named_by(place) from None
            collective.per_group.append(issued)
            keys = number * self.graph.npus + np.array(group.members, np.int64)
            self._group[self._members[np.searchsorted(self._keys, keys)]] = len(self._per_group)
            self._per_group.append(issued)
        self.collectives.append(collective)

    def _open_messages(self) -> dict[int, Any]:
        """A message for each task that sends."""
        graph, system = self.graph, self._system
        tasks = graph.of_kind(Kind.SEND)
        columns = (tasks, graph.npu[tasks], graph.peer[tasks], graph.size[tasks], graph.name[tasks])
        messages = {}
        for task, src, dst, size, name in zip(*(column.tolist() for column in columns), strict=True):
            called = graph.names[name]
            hear = partial(self._hear, task)
            messages[task] = system.send(src, dst, size, name=called, tag=self._tag(called), open=True, done=hear)
        return messages

    def _ticks(self, system: SystemServices) -> Longs:
        """What the tasks take; a straggler computes more slowly, by the factor of its delays, in whole cycles."""
        graph, ticks = self.graph, self.graph.ticks
        for npu, factor in enumerate(system.options.slow(graph.npus)):
            if factor != 1:
                ticks = ticks.copy() if ticks is graph.ticks else ticks
                own = np.flatnonzero((graph.npu == npu) & (graph.kind == Kind.COMPUTE))
                ticks[own] = _scaled(ticks[own], factor, self._place)
        return ticks

    # -- what happens --

    def _hear_member(self, key: int, collective: Any, npu: int) -> None:
        self._joined.append(key + npu)
        self._step_now()

    def _hear(self, task: int, message: Any = None) -> None:
        self._told.append(task)
        self._step_now()

    def _step_now(self) -> None:
        # All that there is to tell comes first, so that it is taken in together.
        if not self._asked_for:
            self._asked_for = True
            self._system.at(self._system.cycle, self._take_in)

    def _ask(self, cycle: int) -> None:
        if cycle >= 0 and not 0 <= self._next <= cycle:
            self._next = cycle
            self._system.at(cycle, self._go_on)

    def _go_on(self) -> None:
        """What ends by its ticks in this cycle, and what starts then."""
        if self._due():
            self._tasks.run(self._system.cycle, _NOTHING)
            self._start()

    def _take_in(self) -> None:
        """What was told, and what starts then; after what ends by its ticks."""
        now = self._system.cycle
        joined = self._members[np.searchsorted(self._keys, np.array(self._joined, np.int64))]
        told = np.concatenate([np.array(self._told, np.int64), joined])
        self._told, self._joined, self._asked_for = [], [], False
        if self._due():
            self._tasks.run(now, _NOTHING)
        self._tasks.run(now, told)
        self._start()

    def _due(self) -> bool:
        due = 0 <= self._next <= self._system.cycle
        self._next = -1 if due else self._next
        return due

    def _start(self) -> None:
        starts = self._tasks.outbox()
        for task, row in zip(starts.tolist(), self._beginner[starts].tolist(), strict=True):
            self._begin[row](task)
        self._ask(self._tasks.next())

    def _hand_over(self, task: int) -> None:
        self._system.hand_over(self._messages[task])

    def _enter(self, task: int) -> None:
        self._system.enter(self._per_group[self._group[task]], int(self.graph.npu[task]))


def _communicators(call: Call, system: SystemServices) -> Sequence[Communicator]:
    """The groups of a collective."""
    shape = tuple(system.shape)
    if call.dims is not None:
        return _along(call.dims, shape)
    if call.groups is None and call.members is None:
        return [Communicator.whole(shape)]
    groups = call.groups if call.groups is not None else [call.members or ()]
    return [system.communicator(group) for group in groups]


@lru_cache(maxsize=64)
def _along(dims: tuple[int, ...], shape: tuple[int, ...]) -> Sequence[Communicator]:
    return tuple(Communicator.along(dims, shape))


def _group_name(call: Call) -> str:
    """Who takes part, in a word."""
    if call.dims is not None:
        return f"dims {_some(call.dims)}"
    if call.groups is not None:
        return f"{len(call.groups)} groups, npus {_some(call.groups[0])}{' | ...' if len(call.groups) > 1 else ''}"
    return "all" if call.members is None else f"npus {_some(call.members)}"


def _some(values: Sequence[int]) -> str:
    return f"{','.join(map(str, values[:MOST_SHOWN]))}{',...' if len(values) > MOST_SHOWN else ''}"


def _scaled(ticks: Longs, factor: Fraction, place: str) -> Longs:
    """The ticks times a factor, rounded up; exact."""
    different, which = np.unique(ticks, return_inverse=True)
    scaled = [ceil(each * factor) for each in different.tolist()]
    if scaled and scaled[-1] > MOST_CYCLES // max(len(ticks), 1):
        raise InputError("a straggler takes more cycles than can be counted", key=place)
    return np.array(scaled, np.int64)[which]


def _twice(place: int, row: Any) -> Any:
    """With one of its entries two times."""
    return [*row[: place + 1], *row[place:]]


def _algorithms_twice(options: Options, place: int, kind: str) -> Any:
    return _twice(place, options.algorithms(kind))
