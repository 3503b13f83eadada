"""From the trace of one rank, or of one rank of each pipeline stage, to traces of any number of ranks.

All ranks of a stage do the same, each in its own groups. Every axis keeps its size but the last one, that of data
parallelism, which grows, and the first one if a size of tensor parallelism is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.settings.network import MAX_NPUS
from pyxsim.workload.graph import Call, Kind, TaskGraph, check
from pyxsim.workload.making.layout import MOST_TASKS, STAGES, Layout, Shift, Span, layout_of, listed
from pyxsim.workload.making.sources import Source
from pyxsim.workload.making.symmetry import differences, refuse_circles

_COLUMNS = ("npu", "kind", "ticks", "size", "peer", "match", "call", "resource", "layer", "name", "part")
_GATHERED = ("all-gather", "gather")  # their size is what one rank contributes


@dataclass(frozen=True)
class Expanded:
    """Tasks of all ranks, and the layouts of the job that was recorded and of the larger one.

    Attributes
    ----------
    warnings
        Which recorded ranks do not do what the expanded one of their stage does.
    """

    graph: TaskGraph
    before: Layout
    after: Layout
    warnings: tuple[str, ...] = ()


def expand(sources: Sequence[Source], npus: int, tensor: int | None = None) -> Expanded:
    """Return the tasks of `npus` ranks. Raises InputError for ranks that are not symmetric.

    Parameters
    ----------
    sources
        One rank of each pipeline stage.
    tensor
        The size of the first axis; by default that of the trace.
    """
    sources = sorted(sources, key=_rank)
    before = _layout(sources)
    after = _grown(before, npus, tensor, sources[0].name)
    spans = [_spans(source, before) for source in sources]
    _same_in_stages(sources, spans)
    builder = _Joined(after, sources[0])
    for stage, source in enumerate(sources):
        _symmetric(source, before)
        builder.add(stage, source, spans[stage], before)
    graph = builder.graph()
    try:
        check(graph)
    except InputError as error:
        raise error.at(file=sources[0].name) from None
    refuse_circles(graph, sources[0].name)
    warnings = (text for stage, source in enumerate(sources) for text in differences(source, stage, before))
    return Expanded(graph, before, after, tuple(warnings))


def _rank(source: Source) -> int:
    assert source.rank is not None  # callers read one rank each
    return source.rank


def _layout(sources: Sequence[Source]) -> Layout:
    """The layout of the recorded job."""
    first = sources[0]
    for source in sources:
        if source.graph.npus != first.graph.npus:
            problem = f"is of {source.graph.npus} ranks, but {first.name} of {first.graph.npus}"
            raise InputError(problem, file=source.name, allowed="ranks of the same job")
    groups = [source.members(call, _rank(source)) for source in sources for call in source.graph.calls]
    try:
        layout = layout_of(groups, first.graph.npus, len(sources))
    except InputError as error:
        raise error.at(file=first.name) from None
    for stage, source in enumerate(sources):
        if layout.stage_of(_rank(source)) != stage:
            least, most = stage * layout.per_stage, (stage + 1) * layout.per_stage - 1
            problem = f"rank {source.rank} is of pipeline stage {layout.stage_of(_rank(source))}"
            allowed = f"one rank of each stage: for stage {stage} one of {least} to {most}"
            raise InputError(problem, key="--ranks", allowed=allowed)
    return layout


def _grown(layout: Layout, npus: int, tensor: int | None, file: str) -> Layout:
    """The layout of the larger job."""
    axes = list(layout.axes)
    if tensor is not None:
        if len(axes) < 2 and tensor not in (1, npus):
            problem = "has no groups within others, so no axis of tensor parallelism"
            raise InputError(problem, file=file, key="--tensor", allowed="traces with groups of several kinds")
        axes[0] = tensor if len(axes) > 1 else axes[0]
    fixed = prod(axes[:-1]) * layout.stages
    if npus % fixed or npus > MAX_NPUS:
        sizes = f"{prod(axes[:-1])} ranks, which stay together" + (
            f", in each of {layout.stages} stages" if layout.stages > 1 else ""
        )
        raise InputError(
            f"{npus} is no multiple of {sizes}" if npus % fixed else f"{npus} are too many",
            key="--npus",
            allowed=f"multiples of {fixed} up to {MAX_NPUS}",
        )
    return Layout((*axes[:-1], npus // fixed), layout.stages)


def _spans(source: Source, layout: Layout) -> list[Span]:
    """The kind of group of each collective of a rank."""
    rank = _rank(source)
    spans = [layout.span(source.members(call, rank), rank) for call in source.graph.calls]
    assert None not in spans  # layout_of has checked all groups
    return [span for span in spans if span is not None]


def _same_in_stages(sources: Sequence[Source], spans: Sequence[Sequence[Span]]) -> None:
    """Raise InputError if stages differ in the collectives that they call together."""
    calls: list[dict[Span, list[Call]]] = [{} for _ in sources]
    for mine, source, of_calls in zip(calls, sources, spans, strict=True):
        for call in source.graph.call[source.graph.kind == Kind.COLLECTIVE].tolist():
            if of_calls[call].stages != "own":
                mine.setdefault(of_calls[call], []).append(source.graph.calls[call])
    for span in {span for mine in calls for span in mine}:
        stages = range(len(sources)) if span.stages == "all" else (0, len(sources) - 1)
        first, some = sources[0], calls[0].get(span, [])
        for stage in stages:
            source, others = sources[stage], calls[stage].get(span, [])
            if len(others) != len(some):
                problem = f"rank {source.rank} calls {len(others)} collectives of several stages"
                raise InputError(f"{problem}, rank {first.rank} {len(some)}", file=source.name, allowed="equal numbers")
            for turn, (one, other) in enumerate(zip(some, others, strict=True)):
                if (one.kind, one.size) != (other.kind, other.size):
                    problem = f"collective {turn} of several stages is {other.kind} of {other.size} bytes"
                    where = f"{problem}, at rank {first.rank} {one.kind} of {one.size}"
                    raise InputError(where, file=source.name, allowed="the same in all stages")


def _symmetric(source: Source, layout: Layout) -> None:
    """Raise InputError for a message within a stage that not every rank can send and receive alike."""
    rank, graph = _rank(source), source.graph
    sent: Counter[tuple[Shift, int, int]] = Counter()
    for task in np.flatnonzero((graph.kind == Kind.SEND) | (graph.kind == Kind.RECEIVE)).tolist():
        peer, sends = int(graph.peer[task]), graph.kind[task] == Kind.SEND
        shift = layout.shift(rank, peer) if sends else layout.shift(peer, rank)
        if shift is None:
            problem = f"{graph.label(task)}: its peer, rank {peer}, differs from rank {rank} in more than one axis"
            raise InputError(problem, file=source.name, allowed="peers along one axis, or at the same place of a stage")
        if shift.axis != STAGES:
            sent[shift, int(graph.match[task]), int(graph.size[task])] += 1 if sends else -1
    for (shift, tag, size), more in sent.items():
        if more:
            ends = ("sends", "receives") if more > 0 else ("receives", "sends")
            other = layout.targets(np.array([rank]), shift if more > 0 else replace(shift, by=-shift.by))[0]
            problem = f"rank {rank} {ends[0]} {size} bytes with tag {tag} at rank {other} that it never {ends[1]}"
            problem = problem.replace(" at rank", " to rank" if more > 0 else " from rank")
            allowed = "messages that each rank sends and receives alike; of a pipeline one rank of each stage (--ranks)"
            raise InputError(f"is not symmetric: {problem}", file=source.name, allowed=allowed)


class _Joined:
    """Joins the tasks of all stages."""

    def __init__(self, layout: Layout, first: Source) -> None:
        self.layout, self.first = layout, first
        self.columns: dict[str, list[IntArray]] = {column: [] for column in _COLUMNS}
        self.many: list[IntArray] = []
        self.before: list[IntArray] = []
        self.calls: list[Call] = []
        self.names: dict[str, int] = {}
        self.shared: dict[tuple[Span, int], int] = {}
        self.count = 0

    def add(self, stage: int, source: Source, spans: Sequence[Span], before: Layout) -> None:
        """Add the tasks of the ranks of a stage."""
        graph, layout, rank = source.graph, self.layout, _rank(source)
        if graph.resources != self.first.graph.resources or graph.layers != self.first.graph.layers:
            raise InputError("has other resources or layers than the first trace", file=source.name)
        ranks = np.arange(layout.per_stage) + stage * layout.per_stage
        copies, tasks = len(ranks), len(graph)
        if self.count + copies * tasks > MOST_TASKS:
            raise InputError(f"{copies} ranks of {tasks} tasks are too many", allowed=f"{MOST_TASKS} tasks in total")
        values = {column: np.tile(getattr(graph, column).astype(np.int64), copies) for column in _COLUMNS}
        values["npu"] = np.repeat(ranks, tasks)
        renamed = [self.names.setdefault(name, len(self.names)) for name in graph.names]
        values["name"] = np.array(renamed, np.int64)[values["name"]]
        calls = np.full(len(graph.calls) + 1, -1, np.int64)
        turns: Counter[Span] = Counter()
        # In the order of tasks: the k-th collectives of several stages are the same.
        for call in graph.call[graph.kind == Kind.COLLECTIVE].tolist():
            calls[call] = self._call(stage, graph.calls[call], source, spans[call], turns[spans[call]], before)
            turns[spans[call]] += 1
        values["call"] = calls[values["call"]]
        peers = np.full((copies, tasks), -1, np.int64)
        for task in np.flatnonzero((graph.kind == Kind.SEND) | (graph.kind == Kind.RECEIVE)).tolist():
            peer, sends = int(graph.peer[task]), graph.kind[task] == Kind.SEND
            shift = before.shift(rank, peer) if sends else before.shift(peer, rank)
            assert shift is not None  # _symmetric has checked it
            peers[:, task] = layout.targets(ranks, shift if sends else replace(shift, by=-shift.by))
        values["peer"] = peers.ravel()
        for column in _COLUMNS:
            self.columns[column].append(values[column])
        self.many.append(np.tile(np.diff(graph.before_start), copies))
        offsets = self.count + np.arange(copies)[:, np.newaxis] * tasks
        self.before.append((graph.before[np.newaxis, :] + offsets).ravel())
        self.count += copies * tasks

    def _call(self, stage: int, call: Call, source: Source, span: Span, turn: int, before: Layout) -> int:
        """The number of a collective in the larger job."""
        if span.stages != "own" and (span, turn) in self.shared:
            return self.shared[span, turn]
        groups = self.layout.groups(span, stage)
        old, new = before.size(span), self.layout.size(span)
        members = sorted(source.members(call, _rank(source)))
        is_rank = call.root is not None and call.dims is None and call.groups is None
        root = members.index(call.root) if is_rank and call.root in members else call.root
        if root is not None and root >= new:
            problem = f"a {call.kind} has its root at place {root} of {listed(members)}"
            raise InputError(problem, file=source.name, allowed=f"places 0 to {new - 1} of the new groups")
        # The buffer of each rank keeps its size, so that a rank contributes less to a larger group.
        size = -(-call.size * old // new) if call.kind in _GATHERED else call.size
        whole = len(groups) == 1 and len(groups[0]) == self.layout.ranks
        self.calls.append(
            replace(
                call,
                size=size,
                members=None,
                dims=None,
                algorithms=None,
                root=groups[0][root] if whole and root is not None else root,
                groups=None if whole else tuple(groups),
            )
        )
        if span.stages != "own":
            self.shared[span, turn] = len(self.calls) - 1
        return len(self.calls) - 1

    def graph(self) -> TaskGraph:
        """Return the tasks of all ranks."""
        types = {column: getattr(self.first.graph, column).dtype for column in _COLUMNS}
        columns: dict[str, Any] = {
            column: np.concatenate(arrays).astype(types[column]) for column, arrays in self.columns.items()
        }
        return TaskGraph(
            npus=self.layout.ranks,
            **columns,
            before_start=np.concatenate([[0], np.cumsum(np.concatenate(self.many))]).astype(np.int64),
            before=np.concatenate(self.before),
            calls=self.calls,
            names=list(self.names),
            resources=self.first.graph.resources,
            layers=self.first.graph.layers,
        )
