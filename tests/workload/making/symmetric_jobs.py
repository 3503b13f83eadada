"""Random jobs whose ranks all do the same in their groups, and small steps of a pipeline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from pyxsim.study.generate import generate
from pyxsim.workload.graph import Call, GraphBuilder, Kind, TaskGraph
from pyxsim.workload.making.layout import Layout, Shift, Span
from pyxsim.workload.making.sources import Source, read_all

MODEL = """kind = "transformer"
help = "small"
source = "made up"
layers = 4
hidden = 128
heads = 4
ffn = 512
vocabulary = 1000
sequence = 64
"""
ROOTED = ("broadcast", "reduce")


@dataclass(frozen=True)
class Step:
    """A task of every rank: "compute", "ring", or a collective."""

    what: str
    value: int
    span: Span
    before: tuple[int, ...]


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Two axes, each of at least two ranks."""
    return Layout((draw(st.sampled_from((2, 3, 4))), draw(st.sampled_from((2, 3, 4)))))


@st.composite
def step_lists(draw: st.DrawFn) -> list[Step]:
    """Tasks that use both axes, so that the layout can be found again."""
    words = ("compute", "ring", "all-reduce", "all-gather", "reduce-scatter", "broadcast", "barrier")
    steps = [Step("all-reduce", 4096, Span(0, 1), ()), Step("all-reduce", 8192, Span(1, 2), (0,))]
    for place in range(2, 2 + draw(st.integers(0, 8))):
        span = draw(st.sampled_from((Span(0, 1), Span(1, 2), Span(0, 2))))
        before = tuple(sorted(draw(st.sets(st.integers(0, place - 1), max_size=2))))
        steps.append(Step(draw(st.sampled_from(words)), draw(st.integers(1, 1 << 20)), span, before))
    return steps


def job(layout: Layout, steps: list[Step], *, shard: Layout | None = None) -> TaskGraph:
    """All ranks of a job. `shard`: the layout for whose groups the sizes of all-gathers are given."""
    builder, ranks = GraphBuilder(layout.ranks), np.arange(layout.ranks)
    numbers: list[np.ndarray] = []
    for tag, step in enumerate(steps):
        before = [numbers[each] for each in step.before]
        if step.what == "compute":
            numbers.append(builder.tasks(ranks, Kind.COMPUTE, ticks=step.value, resource="compute", before=before))
        elif step.what == "ring":
            shift = Shift(min(step.span.first, 1), 1)
            ends = {Kind.SEND: shift, Kind.RECEIVE: Shift(shift.axis, -1)}
            for kind, way in ends.items():
                peers = layout.targets(ranks, way)
                sent = builder.tasks(ranks, kind, size=step.value, peer=peers, match=tag, before=before)
                numbers.append(sent) if kind == Kind.SEND else None
        else:
            groups = layout.groups(step.span, 0)
            size = 0 if step.what == "barrier" else step.value
            if step.what == "all-gather" and shard is not None:
                size = math.ceil(size * shard.size(step.span) / layout.size(step.span))
            root = 0 if step.what in ROOTED else None
            whole = len(groups) == 1
            call = builder.call(Call(step.what, size, groups=None if whole else tuple(groups), root=root))
            numbers.append(builder.tasks(ranks, Kind.COLLECTIVE, call=call, resource="communication", before=before))
    return builder.graph()


def described(graph: TaskGraph, rank: int) -> list[object]:
    """What a rank does, whatever the numbers of its tasks and calls."""
    tasks = np.flatnonzero(graph.npu == rank).tolist()
    place = {task: number for number, task in enumerate(tasks)}
    source = Source("", graph, (graph.npus,))
    found: list[object] = []
    for task in tasks:
        call = graph.calls[graph.call[task]] if graph.call[task] >= 0 else None
        what = None
        if call is not None:
            members = tuple(sorted(source.members(call, rank)))
            root = members.index(call.root) if call.root is not None and call.groups is None else call.root
            what = (call.kind, call.size, members, root)
        before = [
            place[each] for each in graph.before[graph.before_start[task] : graph.before_start[task + 1]].tolist()
        ]
        values = [int(getattr(graph, name)[task]) for name in ("kind", "ticks", "size", "peer", "match", "resource")]
        found.append((values, what, before))
    return found


def pipeline(folder: Path, *, data: int = 2, name: str = "p") -> Source:
    """The traces of a step of a small transformer, with tensor, data and pipeline parallelism."""
    (folder / "model.toml").write_text(MODEL, encoding="utf-8")
    tables = {
        "network": {"topology": "torus", "shape": [2, data, 3]},
        "system": {"npu": {"device": "a100-80gb"}},
        "workload": {
            "model": str(folder / "model.toml"),
            "batch": 8 * data,
            "micro_batch": 2,
            "parallelism": {"tensor": 2, "data": data, "pipeline": 3},
        },
    }
    generate(tables, folder / f"{name}.*.et")
    return read_all(str(folder / f"{name}.*.et"))
