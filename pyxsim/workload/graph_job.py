"""A job that carries out a graph of tasks: it starts tasks that have become ready and processes ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.communicator import Communicator
from pyxsim.errors import InputError
from pyxsim.settings.algorithms import algorithm_key
from pyxsim.system import Options
from pyxsim.workload.graph import MOST_CYCLES, MOST_SHOWN, Call, Kind, TaskGraph, channels, check
from pyxsim.workload.job import IssuedCollective, Job, LayerCollectives, TaskRun, TaskTimes
from pyxsim.workload.layer_table import WHOLE
from pyxsim.workload.system_services import MemoryTotals, SystemServices, TaskExecutor
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
_NONE: IntArray = np.zeros(0, np.int64)


class GraphJob(Job):
    """A graph of tasks as a job.

    Parameters
    ----------
    graph
        The tasks.
    key
        The setting that names the workload; errors cite it.
    may_be_empty
        Whether it may have no tasks.

    Raises
    ------
    InputError
        If the graph cannot be carried out (see `graph.check`).
    """

    planned = False
    per_npu = True
    factories: Sequence[ExecutorFactory] = TASK_EXECUTORS

    def __init__(self, graph: TaskGraph, *, key: str = "workload", may_be_empty: bool = False) -> None:
        if len(graph) or not may_be_empty:
            check(graph)
        self.graph = graph
        self.collectives: list[IssuedCollective] = []
        self.traffic: list[str] = []
        self.executors: list[TaskExecutor] = []
        self._key = key
        self._ended: list[int] = []  # tasks that have ended since the last step
        self._ended_members: list[int] = []  # keys of members of collectives that have, likewise
        self._next_step = -1  # cycle of the next step that starts or ends tasks by their ticks; -1: none
        self._step_scheduled = False  # whether `_process_ends` will be called in this cycle
        members = graph.of_kind(Kind.COLLECTIVE)
        keys = graph.call[members].astype(np.int64) * graph.npus + graph.npu[members]
        order = np.argsort(keys)
        self._keys, self._members = keys[order], members[order]

    def begin(self, system: SystemServices) -> None:
        """Issue collectives and messages as open ones and start the first tasks. Raises InputError."""
        graph = self.graph
        npus = int(np.prod(system.shape))
        if graph.npus != npus:
            problem = f"the workload has {graph.npus} NPUs, but the network has {npus}"
            raise InputError(problem, key=self._key, allowed="equal numbers")
        if any(call.dims is not None for call in graph.calls):
            check(graph, system.shape)
        self._system = system
        self._tags: dict[str, int] = {}
        self._per_group: list[Any] = []
        self._group = np.full(len(graph), -1, np.int32)
        for number, call in enumerate(graph.calls):
            self._issue(number, call)
        self._messages = self._open_messages()
        begin = self.begin_cycles(system)
        ways = np.array([_WAYS[kind] for kind in sorted(Kind)], np.int8)[graph.kind]
        # How tasks without ticks start: for each task, a row of `_starters`.
        self._starters: list[Callable[[int], None]] = [self._hand_over, self._enter]
        self._starter_of = (graph.kind == Kind.COLLECTIVE).astype(np.int8)
        for make in self.factories:
            executor = make(graph, system, self._task_ended)
            if executor is not None:
                self.executors.append(executor)
                ways[executor.tasks], self._starter_of[executor.tasks] = Way.TOLD, len(self._starters)
                self._starters.append(executor.start)
                for number, joint in enumerate(executor.joint, len(self._per_group)):
                    self._group[joint] = number
        self._tasks = Tasks(
            npus,
            graph.npu,
            ways,
            self._ticks(system),
            graph.resource,
            [slots for _, slots in graph.resources],
            graph.before_start,
            graph.before,
            channels(graph)[0],
            begin,
        )
        self._schedule_step(min(begin))

    def begin_cycles(self, system: SystemServices) -> list[int]:
        """Return the cycle in which each NPU may start tasks."""
        return [system.options.skew(npu) for npu in range(self.graph.npus)]

    def task_graph(self) -> TaskGraph | None:
        """Return the tasks."""
        return self.graph

    @property
    def end(self) -> int:
        """Cycle in which the last task ended."""
        return self.times().last

    @property
    def left(self) -> int:
        """Number of tasks that have not ended."""
        return self._tasks.left

    def remote_memory(self) -> MemoryTotals | None:
        """Return what was done with remote memory; None without any."""
        return next((totals for executor in self.executors if (totals := executor.totals()) is not None), None)

    def stuck_report(self) -> list[str]:
        """Return a line per started task that waits for another NPU; without any, per task that has not ended."""
        if not self.left:
            return []
        graph, times = self.graph, self.times()
        lines = []
        for task in np.flatnonzero((times.start >= 0) & (times.end < 0) & (graph.kind == Kind.RECEIVE)).tolist():
            message = f"{graph.size[task]} bytes with tag {graph.match[task]} from NPU {graph.peer[task]}"
            lines.append(f"{graph.label(task)} waits for {message}")
        for executor in self.executors:
            lines += executor.waiting()
        unfinished = np.flatnonzero(times.end < 0)
        lines = lines or [f"{graph.label(task)} has not ended" for task in unfinished.tolist()]
        more = len(lines) - _MOST_STUCK
        return [*lines[:_MOST_STUCK], f"... and {more} more"] if more > 0 else lines

    def times(self) -> TaskTimes:
        """Return when each task became ready, started and ended."""
        tasks = self._tasks
        partner = np.full(len(self.graph), -1, np.int32)
        both = (tasks.sender >= 0) & (tasks.receiver >= 0)
        partner[tasks.sender[both]], partner[tasks.receiver[both]] = tasks.receiver[both], tasks.sender[both]
        return TaskTimes(tasks.ready, tasks.start, tasks.end, tasks.cause, partner, self._group)

    @property
    def task_count(self) -> int:
        return len(self.graph)

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
        """Return the options with the priorities of the workload, and with a split dimension twice.

        ASTRA-sim 2 ignores priorities in traces unless its scheduling is explicit.
        """
        if options.compat is None and len({call.priority for call in self._all_calls()}) > 1:
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

    def _all_calls(self) -> Sequence[Call]:
        """All collectives that the job may issue."""
        return self.graph.calls

    # -- collectives and messages --

    def _tag(self, name: str, npu: int) -> int:
        """The number of a name of traffic that an NPU takes part in."""
        if name not in self._tags:
            self._tags[name] = len(self.traffic)
            self.traffic.append(name)
        return self._tags[name]

    def _algorithm_setting(self, number: int) -> str:
        """The setting of the algorithms of a call."""
        return f"system.{algorithm_key(self.graph.calls[number].kind)}"

    def _issue(self, number: int, call: Call) -> None:
        """Issue a collective: one of the system layer per group."""
        system, key = self._system, self._algorithm_setting(number)
        name = call.name or call.kind
        collective = IssuedCollective(name, key, _group_name(call), call.root)
        for at, group in enumerate(_communicators(call, system)):
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
                    tag=self._tag(name, group.members[0]),
                    open=True,
                    joined=partial(self._member_ended, number * self.graph.npus),
                    matrix=None if call.matrices is None else call.matrices[at],
                )
            except InputError as error:
                raise error.named_by(key) from None
            collective.per_group.append(issued)
            keys = number * self.graph.npus + np.array(group.members, np.int64)
            self._group[self._members[np.searchsorted(self._keys, keys)]] = len(self._per_group)
            self._per_group.append(issued)
        self.collectives.append(collective)

    def _open_messages(self) -> dict[int, Any]:
        """An open message for each task that sends."""
        graph, system = self.graph, self._system
        tasks = graph.of_kind(Kind.SEND)
        columns = (tasks, graph.npu[tasks], graph.peer[tasks], graph.size[tasks], graph.name[tasks])
        messages = {}
        for task, src, dst, size, name in zip(*(column.tolist() for column in columns), strict=True):
            called = graph.names[name]
            on_end = partial(self._task_ended, task)
            messages[task] = system.send(
                src, dst, size, name=called, tag=self._tag(called, src), open=True, done=on_end
            )
        return messages

    def _ticks(self, system: SystemServices) -> IntArray:
        """Cycles of each task; a straggler's computation takes its factor longer, rounded up."""
        graph, ticks = self.graph, self.graph.ticks
        for npu, factor in enumerate(system.options.slow(graph.npus)):
            if factor != 1:
                ticks = ticks.copy() if ticks is graph.ticks else ticks
                slow = np.flatnonzero((graph.npu == npu) & (graph.kind == Kind.COMPUTE))
                ticks[slow] = _scaled(ticks[slow], factor, self._key)
        return ticks

    # -- events --

    def _member_ended(self, key: int, collective: Any, npu: int) -> None:
        self._ended_members.append(key + npu)
        self._schedule_now()

    def _task_ended(self, task: int, message: Any = None) -> None:
        self._ended.append(task)
        self._schedule_now()

    def _schedule_now(self) -> None:
        # Scheduled as an event, so that all ends of this cycle are processed together.
        if not self._step_scheduled:
            self._step_scheduled = True
            self._system.at(self._system.cycle, self._process_ends)

    def _schedule_step(self, cycle: int) -> None:
        if cycle >= 0 and not 0 <= self._next_step <= cycle:
            self._next_step = cycle
            self._system.at(cycle, self._step)

    def _step(self) -> None:
        """End tasks by their ticks and start those that become ready."""
        if self._due():
            self._tasks.run(self._system.cycle, _NONE)
            self._start()

    def _process_ends(self) -> None:
        """Process the reported ends, after those by ticks, and start tasks that become ready."""
        now = self._system.cycle
        members = self._members[np.searchsorted(self._keys, np.array(self._ended_members, np.int64))]
        ended = np.concatenate([np.array(self._ended, np.int64), members])
        self._ended, self._ended_members, self._step_scheduled = [], [], False
        if self._due():
            self._tasks.run(now, _NONE)
        self._tasks.run(now, ended)
        self._start()

    def _due(self) -> bool:
        due = 0 <= self._next_step <= self._system.cycle
        self._next_step = -1 if due else self._next_step
        return due

    def _start(self) -> None:
        starts = self._tasks.outbox()
        for task, row in zip(starts.tolist(), self._starter_of[starts].tolist(), strict=True):
            self._starters[row](task)
        self._schedule_step(self._tasks.next())

    def _hand_over(self, task: int) -> None:
        self._system.hand_over(self._messages[task])

    def _enter(self, task: int) -> None:
        self._system.enter(self._per_group[self._group[task]], int(self.graph.npu[task]))


def _communicators(call: Call, system: SystemServices) -> Sequence[Communicator]:
    """The communicators of a collective, one per group."""
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
    """The NPUs that take part, in a word."""
    if call.dims is not None:
        return f"dims {_some(call.dims)}"
    if call.groups is not None:
        return f"{len(call.groups)} groups, npus {_some(call.groups[0])}{' | ...' if len(call.groups) > 1 else ''}"
    return "all" if call.members is None else f"npus {_some(call.members)}"


def _some(values: Sequence[int]) -> str:
    return f"{','.join(map(str, values[:MOST_SHOWN]))}{',...' if len(values) > MOST_SHOWN else ''}"


def _scaled(ticks: IntArray, factor: Fraction, key: str) -> IntArray:
    """Ticks times a factor, exactly, rounded up."""
    values, which = np.unique(ticks, return_inverse=True)
    scaled = [ceil(value * factor) for value in values.tolist()]
    if scaled and scaled[-1] > MOST_CYCLES // max(len(ticks), 1):
        raise InputError("a straggler takes too many cycles", key=key)
    return np.array(scaled, np.int64)[which]


def _twice(index: int, row: Any) -> Any:
    """A list with one of its entries twice."""
    return [*row[: index + 1], *row[index:]]


def _algorithms_twice(options: Options, index: int, kind: str) -> Any:
    return _twice(index, options.algorithms(kind))
