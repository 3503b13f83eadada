"""Reads what traces are made from: one rank of a job, or all ranks, in any form that has its own reader.

Times are in picoseconds, which are exact in Chakra traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import prod
from pathlib import Path

import numpy as np

from pyxsim import chakra
from pyxsim.chakra.groups import groups_beside, read_groups
from pyxsim.chakra.trace_graph import load
from pyxsim.collective.communicator import coordinates
from pyxsim.errors import InputError, raise_all
from pyxsim.rank_files import are_traces, find
from pyxsim.workload.goal import is_goal, read_goal
from pyxsim.workload.goal.tasks import Scales
from pyxsim.workload.goal.tasks import graph_of as goal_graph
from pyxsim.workload.graph import Call, TaskGraph, check
from pyxsim.workload.nsight import graph_of as nsight_graph
from pyxsim.workload.nsight import is_nsight
from pyxsim.workload.pytorch import graph_of as pytorch_graph
from pyxsim.workload.pytorch import rank_graph_of as pytorch_rank
from pyxsim.workload.trace_head import read_head
from pyxsim.workload.traces import Rules, read_rank, read_traces

CLOCK = Fraction(10**12)
ALLOWED = "Chakra traces, traces of PyTorch (.kineto.json), GOAL, or an export of Nsight Systems (.sqlite)"
_KINETO = (".kineto.json", ".kineto.json.gz")
_MOST_GPUS = 1 << 16  # of an export of Nsight Systems


@dataclass(frozen=True)
class Source:
    """Tasks of some ranks of a job.

    Attributes
    ----------
    shape
        Dimensions that its collectives name.
    rank
        The rank that `graph` has the tasks of; None for all.
    others
        Reads the tasks of another rank, by its number: those that the files have, too.
    """

    name: str
    graph: TaskGraph
    shape: tuple[int, ...]
    rank: int | None = None
    others: Mapping[int, Callable[[], TaskGraph]] = field(default_factory=dict)

    def members(self, call: Call, rank: int) -> tuple[int, ...]:
        """Return the ranks that take part in a collective together with `rank`."""
        if call.members is not None:
            return call.members
        if call.groups is not None:
            return next(group for group in call.groups if rank in group)
        if call.dims is None:
            return tuple(range(self.graph.npus))
        weights = [prod(self.shape[:dim]) for dim in range(len(self.shape))]
        base = rank - sum(coordinates(rank, self.shape)[dim] * weights[dim] for dim in call.dims)
        members = np.array([base])
        for dim in call.dims:
            members = np.add.outer(members, np.arange(self.shape[dim]) * weights[dim]).ravel()
        return tuple(sorted(members.tolist()))


def read_all(name: str) -> Source:
    """Return the tasks of all ranks of a job. Raises InputError."""
    if name.endswith(_KINETO):
        ranks = len(find(name))
        graph = pytorch_graph(name, ranks, CLOCK)
        return Source(name, graph, (ranks,))
    if _is_text(name, is_goal):
        with read_goal(name) as schedule:
            graph = goal_graph(schedule, name, None, Scales(CLOCK))
        _checked(graph, name)
        return Source(name, graph, (graph.npus,))
    if _is_text(name, is_nsight):
        graph = nsight_graph(name, _MOST_GPUS, CLOCK)
        graph.npus = int(graph.npu.max()) + 1
        _checked(graph, name)
        return Source(name, graph, (graph.npus,))
    files = _chakra(name)
    ranks = max(files) + 1
    head = read_head(chakra.read(files[min(files)]).metadata, str(files[min(files)]))
    shape = head.shape if head.shape is not None and prod(head.shape) == ranks else (ranks,)
    graph = read_traces(name, shape, Rules(CLOCK, groups=_groups(name, None, ranks), keep_operations=True))
    return Source(name, graph, shape)


def read_one(name: str, rank: int | None = None, groups: str | None = None) -> Source:
    """Return the tasks of one rank of a job. Raises InputError.

    `rank`: by default that of a single file, else 0. `groups`: a file with the ranks of each group, by default
    PREFIX.groups.json. The number of ranks is that of the metadata, else the highest rank that the trace names, plus 1.
    """
    if _is_text(name, is_goal) or _is_text(name, is_nsight):
        if groups is not None:
            raise InputError(f"{name} has groups of its own", key="--groups", allowed="with Chakra traces")
        whole = read_all(name)
        own = _known(rank or 0, range(whole.graph.npus), name)
        others = {each: partial(_only, whole.graph, each) for each in range(whole.graph.npus) if each != own}
        return Source(name, _only(whole.graph, own), whole.shape, own, others)
    files = find(name) if name.endswith(_KINETO) else _chakra(name)
    chosen = _known(next(iter(files)) if rank is None else rank, files, name)
    file = str(files[chosen])
    if name.endswith(_KINETO):
        if groups is not None:
            raise InputError(f"{name} has groups of its own", key="--groups", allowed="with Chakra traces")
        others = {each: partial(_of_pytorch, str(path), each) for each, path in files.items() if each != chosen}
        graph, chosen = pytorch_rank(file, chosen, CLOCK)
        return Source(file, graph, (graph.npus,), chosen, others)
    trace = load(file, chosen)
    raise_all(trace.faults)
    head = read_head(chakra.read(file).metadata, file)
    known = _groups(file, groups, None) or {}
    named = [*known.values(), *trace.own_groups.values(), trace.peer[trace.peer >= 0].tolist()]
    least = max([chosen, max(files), *(max(ranks, default=0) for ranks in named)]) + 1
    shape = head.shape or (least,)
    if prod(shape) < least:
        problem = f"is for {prod(shape)} ranks, but names rank {least - 1}"
        raise InputError(problem, file=file, key="shape", allowed=f"{least} ranks or more")
    rules = Rules(CLOCK, groups=known, keep_operations=True)
    others = {each: partial(read_rank, str(path), each, shape, rules) for each, path in files.items() if each != chosen}
    return Source(file, read_rank(file, chosen, shape, rules), shape, chosen, others)


def _of_pytorch(file: str, rank: int) -> TaskGraph:
    return pytorch_rank(file, rank, CLOCK)[0]


def _chakra(name: str) -> dict[int, Path]:
    if Path(name).is_file() and not are_traces(name):
        raise InputError("is not a trace", file=name, allowed=ALLOWED)
    return find(name)


def _is_text(name: str, kind: Callable[[str], bool]) -> bool:
    return "*" not in name and kind(name)


def _known(rank: int, ranks: Iterable[int], name: str) -> int:
    known = list(ranks)
    if rank not in known:
        allowed = f"{known[0]} to {known[-1]}" if len(known) > 1 else str(known[0])
        raise InputError(f"there is no trace of rank {rank}", file=name, allowed=allowed)
    return rank


def _groups(name: str, given: str | None, ranks: int | None) -> dict[str, tuple[int, ...]] | None:
    """The groups of Chakra traces: of a file that is given, or that lies beside them as `generate` writes it."""
    file = given or groups_beside(name)
    return None if file is None else read_groups(file, ranks)


def _only(graph: TaskGraph, rank: int) -> TaskGraph:
    """The tasks of one rank of a graph."""
    tasks = np.flatnonzero(graph.npu == rank)
    place = np.full(len(graph), -1, np.int64)
    place[tasks] = np.arange(len(tasks))
    starts, ends = graph.before_start[tasks], graph.before_start[tasks + 1]
    before = [graph.before[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    columns = ("npu", "kind", "ticks", "size", "peer", "match", "call", "resource", "layer", "name", "part")
    return replace(
        graph,
        **{column: getattr(graph, column)[tasks] for column in columns},
        before_start=np.concatenate([[0], np.cumsum([len(each) for each in before])]).astype(np.int64),
        before=place[np.concatenate(before)] if before else graph.before[:0],
        node=None if graph.node is None else graph.node[tasks],
    )


def _checked(graph: TaskGraph, name: str) -> None:
    try:
        check(graph)
    except InputError as error:
        raise error.at(file=name) from None
