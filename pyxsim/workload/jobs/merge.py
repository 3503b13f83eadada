"""Merges the task graphs of several jobs into one graph on the NPUs of a network."""

from __future__ import annotations

from collections.abc import Sequence
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


def merged(jobs: Sequence[PlacedGraph], shape: Sequence[int]) -> TaskGraph:
    """Return the tasks of all jobs on a network of `shape`, in the order of the jobs.

    Names, layers and collectives begin with the name of the job. Raises InputError for an algorithm per dimension that
    does not fit the dimensions of the network.
    """
    npus = int(np.prod(shape))
    columns: dict[str, list[Any]] = {}
    calls: list[Call] = []
    names: list[str] = []
    layers: list[str] = []
    resources: list[tuple[str, int]] = []
    tasks = edges = 0
    starts: list[IntArray] = [np.zeros(1, np.int64)]
    for job in jobs:
        graph = job.graph
        resource = np.array([_number(resources, each) for each in graph.resources] + [-1], np.int8)
        numbered = {
            "npu": job.npus[graph.npu].astype(np.int32),
            "peer": np.where(graph.peer >= 0, job.npus[graph.peer], -1).astype(np.int32),
            "call": np.where(graph.call >= 0, graph.call + len(calls), -1).astype(np.int32),
            "name": graph.name + np.int32(len(names)),
            "layer": np.where(graph.layer >= 0, graph.layer + len(layers), -1).astype(np.int32),
            "resource": resource[graph.resource],
            "before": graph.before + tasks,
            **{column: getattr(graph, column) for column in _PLAIN},
        }
        for column, values in numbered.items():
            columns.setdefault(column, []).append(values)
        starts.append(graph.before_start[1:] + edges)
        calls += [_on_network(call, job, shape) for call in graph.calls]
        names += [f"{job.name}: {name}" for name in graph.names]
        unnamed = range(len(graph.layers), int(graph.layer.max(initial=-1)) + 1)
        layers += [f"{job.name}: {layer}" for layer in (*graph.layers, *(f"layer {each}" for each in unnamed))]
        tasks, edges = tasks + len(graph), edges + len(graph.before)
    if not jobs:
        return GraphBuilder(npus).graph()
    nodes = [job.graph.node for job in jobs]
    return TaskGraph(
        npus=npus,
        **{column: np.concatenate(values) for column, values in columns.items()},
        before_start=np.concatenate(starts),
        calls=calls,
        names=names,
        resources=tuple(resources),
        layers=layers,
        node=None
        if any(node is None for node in nodes)
        else np.concatenate([node for node in nodes if node is not None]),
    )


def joined(first: TaskRun, others: Sequence[TaskRun]) -> TaskRun:
    """Return several runs on one network as a single run; runs of the same graph share its names and layers."""
    offsets: dict[int, tuple[int, int, int]] = {}  # by id of a graph: its first call, name and layer
    calls: list[Call] = []
    names: list[str] = []
    layers: list[str] = []
    resources: list[tuple[str, int]] = []
    columns: dict[str, list[Any]] = {}
    times: dict[str, list[Any]] = {}
    starts: list[IntArray] = [np.zeros(1, np.int64)]
    tasks = edges = groups = 0
    for run in (first, *others):
        graph = run.graph
        if id(graph) not in offsets:
            offsets[id(graph)] = len(calls), len(names), len(layers)
            calls += graph.calls
            names += graph.names
            layers += graph.layers
        call, name, layer = (np.int32(each) for each in offsets[id(graph)])
        resource = np.array([_number(resources, each) for each in graph.resources] + [-1], np.int8)
        shifted = {
            "npu": graph.npu,
            "peer": graph.peer,
            "call": np.where(graph.call >= 0, graph.call + call, -1).astype(np.int32),
            "name": graph.name + name,
            "layer": np.where(graph.layer >= 0, graph.layer + layer, -1).astype(np.int32),
            "resource": resource[graph.resource],
            "before": graph.before + tasks,
            **{column: getattr(graph, column) for column in _PLAIN},
        }
        for column, values in shifted.items():
            columns.setdefault(column, []).append(values)
        for column, by in (("ready", 0), ("start", 0), ("end", 0), ("cause", tasks), ("partner", tasks)):
            values = getattr(run.times, column)
            times.setdefault(column, []).append(np.where(values >= 0, values + by, -1).astype(values.dtype))
        times.setdefault("group", []).append(np.where(run.times.group >= 0, run.times.group + groups, -1))
        starts.append(graph.before_start[1:] + edges)
        groups += int(run.times.group.max(initial=-1)) + 1
        tasks, edges = tasks + len(graph), edges + len(graph.before)
    graph = TaskGraph(
        npus=first.graph.npus,
        **{column: np.concatenate(values) for column, values in columns.items()},
        before_start=np.concatenate(starts),
        calls=calls,
        names=names,
        resources=tuple(resources),
        layers=layers,
    )
    whole = {column: np.concatenate(values) for column, values in times.items()}
    whole["group"] = whole["group"].astype(np.int32)
    return TaskRun(graph, TaskTimes(**whole))


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
