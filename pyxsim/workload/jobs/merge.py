"""Merges the task graphs of several jobs into one graph on the NPUs of a network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.communicator import Communicator
from pyxsim.errors import InputError
from pyxsim.workload.graph import Call, GraphBuilder, TaskGraph
from pyxsim.workload.job import TaskRun, TaskTimes

_PLAIN = ("kind", "ticks", "size", "match", "part")  # columns that are the same on every NPU


@dataclass(frozen=True)
class PlacedGraph:
    """The tasks of one job.

    Attributes
    ----------
    graph
        Its tasks by rank.
    npus
        int64[ranks], the NPU of each rank.
    shape
        Its ranks as a grid, for collectives along dimensions.
    key
        Key of its work, for errors.
    """

    name: str
    graph: TaskGraph
    npus: IntArray
    shape: tuple[int, ...]
    key: str


class _Concatenation:
    """Task graphs one after the other, as one graph."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.names: list[str] = []
        self.layers: list[str] = []
        self.tasks = 0
        self._resources: list[tuple[str, int]] = []
        self._columns: dict[str, list[Any]] = {}
        self._starts: list[IntArray] = [np.zeros(1, np.int64)]
        self._edges = 0

    def next_texts(self) -> tuple[int, int, int]:
        """Return the numbers of the next call, name and layer."""
        return len(self.calls), len(self.names), len(self.layers)

    def add_texts(self, calls: Iterable[Call], names: Iterable[str], layers: Iterable[str]) -> None:
        """Add the calls, names and layers of a graph."""
        self.calls += calls
        self.names += names
        self.layers += layers

    def add_tasks(self, graph: TaskGraph, texts: tuple[int, int, int], npus: IntArray | None = None) -> None:
        """Add tasks whose calls, names and layers begin at `texts`. `npus`: the NPU of each rank, if it differs."""
        call, name, layer = (np.int32(first) for first in texts)
        resource = np.array([_number(self._resources, each) for each in graph.resources] + [-1], np.int8)
        columns = {
            "npu": graph.npu if npus is None else npus[graph.npu].astype(np.int32),
            "peer": graph.peer if npus is None else np.where(graph.peer >= 0, npus[graph.peer], -1).astype(np.int32),
            "call": np.where(graph.call >= 0, graph.call + call, -1).astype(np.int32),
            "name": graph.name + name,
            "layer": np.where(graph.layer >= 0, graph.layer + layer, -1).astype(np.int32),
            "resource": resource[graph.resource],
            "before": graph.before + self.tasks,
            **{column: getattr(graph, column) for column in _PLAIN},
        }
        for column, values in columns.items():
            self._columns.setdefault(column, []).append(values)
        self._starts.append(graph.before_start[1:] + self._edges)
        self.tasks, self._edges = self.tasks + len(graph), self._edges + len(graph.before)

    def graph(self, npus: int, **columns: Any) -> TaskGraph:
        """Return the graph of all tasks. `columns`: further ones."""
        return TaskGraph(
            npus=npus,
            **{column: np.concatenate(values) for column, values in self._columns.items()},
            before_start=np.concatenate(self._starts),
            calls=self.calls,
            names=self.names,
            resources=tuple(self._resources),
            layers=self.layers,
            **columns,
        )


def merged(jobs: Sequence[PlacedGraph], shape: Sequence[int]) -> TaskGraph:
    """Return the tasks of all jobs on a network of `shape`, in the order of the jobs.

    Names, layers and collectives begin with the name of the job. Raises InputError for an algorithm per dimension that
    does not fit the dimensions of the network.
    """
    npus = int(np.prod(shape))
    if not jobs:
        return GraphBuilder(npus).graph()
    whole = _Concatenation()
    for job in jobs:
        graph, texts = job.graph, whole.next_texts()
        unnamed = range(len(graph.layers), int(graph.layer.max(initial=-1)) + 1)
        layers = (*graph.layers, *(f"layer {each}" for each in unnamed))
        whole.add_texts(
            (_on_network(call, job, shape) for call in graph.calls),
            (f"{job.name}: {name}" for name in graph.names),
            (f"{job.name}: {layer}" for layer in layers),
        )
        whole.add_tasks(graph, texts, job.npus)
    nodes = [job.graph.node for job in jobs if job.graph.node is not None]
    return whole.graph(npus, node=np.concatenate(nodes) if len(nodes) == len(jobs) else None)


def joined(first: TaskRun, others: Sequence[TaskRun]) -> TaskRun:
    """Return several runs on one network as a single run; runs of the same graph share its names and layers."""
    whole = _Concatenation()
    texts: dict[int, tuple[int, int, int]] = {}  # by id of a graph
    times: dict[str, list[Any]] = {}
    groups = 0
    for run in (first, *others):
        graph = run.graph
        if id(graph) not in texts:
            texts[id(graph)] = whole.next_texts()
            whole.add_texts(graph.calls, graph.names, graph.layers)
        for column, by in (("ready", 0), ("start", 0), ("end", 0), ("cause", whole.tasks), ("partner", whole.tasks)):
            values = getattr(run.times, column)
            times.setdefault(column, []).append(np.where(values >= 0, values + by, -1).astype(values.dtype))
        times.setdefault("group", []).append(np.where(run.times.group >= 0, run.times.group + groups, -1))
        groups += int(run.times.group.max(initial=-1)) + 1
        whole.add_tasks(graph, texts[id(graph)])
    columns = {column: np.concatenate(values) for column, values in times.items()}
    columns["group"] = columns["group"].astype(np.int32)
    return TaskRun(whole.graph(first.graph.npus), TaskTimes(**columns))


def _number(resources: list[tuple[str, int]], resource: tuple[str, int]) -> int:
    """The number of a resource, which is added to the list if it is new."""
    if resource not in resources:
        resources.append(resource)
    return resources.index(resource)


def _on_network(call: Call, job: PlacedGraph, shape: Sequence[int]) -> Call:
    """A collective over ranks as one over NPUs."""
    npus: list[int] = job.npus.tolist()
    members = groups = None
    if call.dims is not None:
        groups = tuple(_placed(group.members, npus) for group in Communicator.along(call.dims, job.shape))
    elif call.groups is not None:
        groups = tuple(_placed(group, npus) for group in call.groups)
    else:
        members = _placed(range(len(npus)) if call.members is None else call.members, npus)
    root = call.root
    if root is not None and not call.has_groups:
        root = npus[root]
    return replace(
        call,
        dims=None,
        groups=groups,
        members=members,
        root=root,
        name=job.name if call.name in ("", call.kind) else f"{job.name}: {call.name}",
        algorithms=_algorithms(call, groups or (members or (),), job, shape),
    )


def _placed(ranks: Sequence[int], npus: Sequence[int]) -> tuple[int, ...]:
    return tuple(npus[rank] for rank in ranks)


def _algorithms(
    call: Call, groups: Sequence[tuple[int, ...]], job: PlacedGraph, shape: Sequence[int]
) -> tuple[str, ...] | None:
    """One algorithm for each dimension of the network that the NPUs of a group span."""
    names = call.algorithms
    if names is None:
        return None
    counts = {len(Communicator.of(group, shape).shape) for group in groups}
    if len(counts) == 1 and len(set(names)) == 1:
        return names[:1] * counts.pop()
    if counts == {len(names)}:
        return names
    problem = f"{call.name or call.kind} has {len(names)} algorithms, but its NPUs span {_listed(counts)} dimensions"
    raise InputError(problem, key=job.key, allowed="one algorithm, or a placement along as many dimensions")


def _listed(counts: set[int]) -> str:
    return " or ".join(map(str, sorted(counts)))
