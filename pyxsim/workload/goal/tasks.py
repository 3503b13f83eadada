"""GOAL schedules as graphs of tasks, and graphs as schedules.

A `calc` is a computation that occupies a resource named for its CPU; messages occupy none. An operation of which only
the start is awaited has a mark before it: what waits for its start waits for the mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.workload.goal.matching import match_messages
from pyxsim.workload.goal.schedule import ANY, Op, Rank, Schedule, rank_of
from pyxsim.workload.graph import MOST_CYCLES, Kind, TaskGraph, check

NAMES = ["calc", "send", "recv", "start"]
_KINDS = np.array([-1, Kind.SEND, Kind.RECEIVE, Kind.COMPUTE], np.int8)
_NAMES = np.array([-1, 1, 2, 0], np.int32)
_MARK = NAMES.index("start")
_MOST_BYTES = 2**62
_MOST_CPUS = 127  # resources of a graph
_PER_SECOND = 10**9


@dataclass(frozen=True)
class Scales:
    """How numbers of a schedule become those of a graph: cycles per second, and factors for times and bytes."""

    clock: Fraction = Fraction(_PER_SECOND)
    compute: Fraction = Fraction(1)
    comm: Fraction = Fraction(1)


def graph_of(schedule: Schedule, file: str, npus: int | None = None, scales: Scales | None = None) -> TaskGraph:
    """Return the tasks of a schedule, in the order of ranks and operations. Raises InputError.

    `npus`: of the network, at least as many as ranks; by default one for each rank.
    """
    scales, npus = scales or Scales(), schedule.count if npus is None else npus
    if schedule.count > npus:
        raise InputError(f"has {schedule.count} ranks", file=file, allowed=f"up to {npus}, the NPUs of the network")
    ranks = {rank.number: _Tasks(rank) for rank in schedule.ranks}
    first, parts = 0, [ranks[number] for number in sorted(ranks)]
    del ranks
    for part in parts:
        part.move(first)
        first += part.count

    def joined(name: str) -> NDArray[np.generic]:
        return np.concatenate([getattr(part, name) for part in parts])

    kind, size, npu = (joined(name) for name in ("kind", "size", "npu"))
    peer, tag, node, cpu = (joined(name) for name in ("peer", "tag", "node", "cpu"))
    waits, on = joined("waits"), joined("on")
    order = np.argsort(waits, kind="stable")
    before_start = np.zeros(first + 1, np.int64)
    np.cumsum(np.bincount(waits.astype(np.int64), minlength=first), out=before_start[1:])
    calc, message = kind == Kind.COMPUTE, (kind == Kind.SEND) | (kind == Kind.RECEIVE)
    used = np.unique(cpu[calc])
    if len(used) > _MOST_CPUS:
        raise InputError(f"uses {len(used)} CPUs", file=file, allowed=f"at most {_MOST_CPUS}")
    resource = np.where(calc, np.searchsorted(used, cpu), -1).astype(np.int8)
    graph = TaskGraph(
        npus=npus,
        npu=npu.astype(np.int32),
        kind=kind.astype(np.int8),
        ticks=np.zeros(first, np.int64),
        size=np.zeros(first, np.int64),
        peer=np.full(first, -1, np.int32),
        match=np.where(message, tag, 0).astype(np.int64),
        call=np.full(first, -1, np.int32),
        resource=resource,
        layer=np.full(first, -1, np.int32),
        name=joined_names(kind),
        part=np.zeros(first, np.int8),
        before_start=before_start,
        before=on[order].astype(np.int64),
        names=list(NAMES),
        resources=tuple((f"cpu {number}", 1) for number in used.tolist()),
        node=node.astype(np.uint64),
    )
    graph.ticks[calc] = _scaled(size[calc].astype(np.uint64), scales.compute * scales.clock / _PER_SECOND, file)
    graph.size[message] = np.maximum(_scaled(size[message].astype(np.uint64), scales.comm, file, up=False), 1)
    match_messages(graph, peer.astype(np.int64), file)
    return graph


def joined_names(kind: NDArray[np.generic]) -> NDArray[np.int32]:
    """Return the row of `NAMES` of each kind of task."""
    names = np.full(len(Kind), _MARK, np.int32)
    names[[Kind.COMPUTE, Kind.SEND, Kind.RECEIVE]] = 0, 1, 2
    return names[kind.astype(np.int64)]


class _Tasks:
    """The tasks of a rank: its operations, each after its mark if it has one."""

    def __init__(self, rank: Rank) -> None:
        marked = np.zeros(len(rank), np.bool_)
        marked[rank.before[rank.at_start]] = True
        place = np.arange(len(rank)) + np.cumsum(marked)  # of each operation among the tasks
        mark = place - marked  # what the operation's own dependencies hold up
        self.count = len(rank) + int(marked.sum())
        self.npu = np.full(self.count, rank.number, np.int32)
        for name, column in (("size", rank.size), ("peer", rank.peer), ("tag", rank.tag), ("cpu", rank.cpu)):
            tasks = np.zeros(self.count, column.dtype)
            tasks[place] = column
            setattr(self, name, tasks)
        self.kind = np.full(self.count, Kind.MARK, np.int8)
        self.kind[place] = _KINDS[rank.kind]
        self.node = np.empty(self.count, np.uint32)
        self.node[place] = self.node[mark] = np.arange(1, len(rank) + 1)
        earlier = np.where(rank.at_start, mark[rank.before], place[rank.before])
        self.waits = np.concatenate([mark[rank.after], place[marked]])
        self.on = np.concatenate([earlier, mark[marked]])

    def move(self, first: int) -> None:
        """Number the tasks from `first` on."""
        self.waits += first
        self.on += first


def _scaled(values: NDArray[np.uint64], scale: Fraction, file: str, *, up: bool = True) -> IntArray:
    """Return values times a scale, rounded up or down. Raises InputError for one that is out of range."""
    most, over, under = int(values.max(initial=0)), scale.numerator, scale.denominator
    if most * over // under > min(MOST_CYCLES, _MOST_BYTES):
        raise InputError(f"an operation of size {most}", file=file, allowed=f"up to {MOST_CYCLES} cycles and bytes")
    more = under - 1 if up else 0
    if most * over + more < 2**63:
        return (values.astype(np.int64) * over + more) // under
    return np.fromiter(((value * over + more) // under for value in values.tolist()), np.int64, len(values))


# -- graphs as schedules -----------------------------------------------------------------------------------------------


def schedule_of(graph: TaskGraph, clock: Fraction = Fraction(_PER_SECOND)) -> tuple[Schedule, list[str]]:
    """Return the schedule of a graph, and what it cannot say. Raises InputError for what has no operation in GOAL.

    `clock`: cycles per second; times are rounded up to nanoseconds.
    """
    check(graph)
    _refuse(graph)
    return Schedule(graph.npus, _ranks(graph, clock)), _warnings(graph, clock)


def _refuse(graph: TaskGraph) -> None:
    """Raise InputError for tasks that GOAL has no operation for."""
    remote = (graph.kind == Kind.MEMORY) & (graph.size != 0)
    for wrong, problem in (
        (graph.kind == Kind.COLLECTIVE, "is a collective; GOAL has messages only"),
        (remote, "is an access to remote memory; GOAL has messages only"),
    ):
        if wrong.any():
            raise InputError(f"{graph.label(int(wrong.argmax()))} {problem}", allowed="computation and messages")
    message = (graph.kind == Kind.SEND) | (graph.kind == Kind.RECEIVE)
    if (wrong := message & ((graph.match < 0) | (graph.match >= ANY))).any():
        task = int(wrong.argmax())
        raise InputError(f"{graph.label(task)}: tag {graph.match[task]}", allowed=f"0 to {ANY - 1}")
    if graph.npus >= ANY:
        raise InputError(f"{graph.npus} NPUs", allowed=f"up to {ANY - 1}")
    _cpus(graph)


def _cpus(graph: TaskGraph) -> NDArray[np.uint8]:
    """The CPU of each resource, and of tasks without one (the last). Raises InputError."""
    named = [name.removeprefix("cpu ") for name, _ in graph.resources]
    if all(name.isascii() and name.isdigit() and int(name) < 256 for name in named):
        cpus = [int(name) for name in named]
        free = next((number for number in range(256) if number not in cpus), 0)
    else:
        cpus, free = list(range(len(named))), len(named)
    if max([*cpus, free]) > 255:
        raise InputError(f"the graph has {len(named)} resources", allowed="at most 255")
    return np.array([*cpus, free], np.uint8)


def _warnings(graph: TaskGraph, clock: Fraction) -> list[str]:
    """What a schedule cannot say of a graph."""
    found = []
    timed = np.isin(graph.kind, (Kind.COMPUTE, Kind.MEMORY, Kind.MARK)) & (graph.ticks > 0)
    if (alone := np.count_nonzero(timed & (graph.resource < 0))) > 0:
        found.append(f"{alone} tasks that occupy no resource share a CPU of their own, one at a time")
    for number, (name, room) in enumerate(graph.resources):
        if room > 1 and (timed & (graph.resource == number)).any():
            found.append(f"a CPU carries out one calc at a time, resource '{name}' {room} tasks")
    if (~timed & (graph.resource >= 0) & (graph.kind != Kind.COMPUTE)).any():
        found.append("messages occupy no resource: they may overlap")
    if timed.any() and (clock.numerator > _PER_SECOND or _PER_SECOND % clock.numerator or clock.denominator > 1):
        found.append("times are rounded up to nanoseconds")
    if (graph.layer >= 0).any():
        found.append("layers and names of tasks are left out")
    return found


def _ranks(graph: TaskGraph, clock: Fraction) -> Iterator[Rank]:
    order = np.argsort(graph.npu, kind="stable")
    first = np.searchsorted(graph.npu[order], np.arange(graph.npus + 1))
    cpus, marks = _cpus(graph), _start_marks(graph)
    ops = np.full(len(Kind), Op.CALC, np.uint8)
    ops[[Kind.SEND, Kind.RECEIVE]] = Op.SEND, Op.RECV
    numbers = np.empty(len(graph), np.int64)  # the operation of each task
    for npu in range(graph.npus):
        tasks = order[first[npu] : first[npu + 1]]
        kept, gone = tasks[~marks[tasks]], tasks[marks[tasks]]
        numbers[kept] = np.arange(len(kept))
        numbers[gone] = numbers[gone + 1]
        many = graph.before_start[tasks + 1] - graph.before_start[tasks]
        places = np.arange(many.sum()) + np.repeat(graph.before_start[tasks] - (np.cumsum(many) - many), many)
        waits, on = np.repeat(tasks, many), graph.before[places]
        own = marks[on] & (waits == on + 1)  # an operation waits for its mark
        waits, on = waits[~own], on[~own]
        kind = ops[graph.kind[kept]]
        calc, mark = kind == Op.CALC, graph.kind[kept] == Kind.MARK
        size = np.where(calc, _nanoseconds(graph.ticks[kept], clock), graph.size[kept]).astype(np.uint64)
        peer, tag = (np.where(calc, 0, column[kept]).astype(np.uint32) for column in (graph.peer, graph.match))
        cpu = np.where(calc, cpus[np.where(mark, -1, graph.resource[kept])], 0).astype(np.uint8)
        columns = (kind, size, peer, tag, cpu, np.zeros(len(kept), np.uint8))
        after, before = numbers[waits].astype(np.uint32), numbers[on].astype(np.uint32)
        yield rank_of(npu, columns, (after, before, marks[on]))


def _start_marks(graph: TaskGraph) -> NDArray[np.bool_]:
    """Which tasks are the marks of `graph_of`: named for it, and directly before a task that waits for them alone."""
    marks = np.zeros(len(graph), np.bool_)
    name = graph.names.index(NAMES[_MARK]) if NAMES[_MARK] in graph.names else -1
    named = (graph.kind == Kind.MARK) & (graph.name == name) & (graph.ticks == 0)
    alone = np.flatnonzero(np.diff(graph.before_start) == 1)
    alone = alone[(alone > 0) & (graph.before[graph.before_start[alone]] == alone - 1) & ~named[alone]]
    marks[alone - 1] = named[alone - 1]
    return marks


def _nanoseconds(ticks: IntArray, clock: Fraction) -> IntArray:
    scale = Fraction(_PER_SECOND) / clock
    if int(ticks.max(initial=0)) * scale.numerator < 2**63:
        return -(-ticks * scale.numerator // scale.denominator)
    return np.array([-(-tick * scale.numerator // scale.denominator) for tick in ticks.tolist()], np.uint64)
