"""Passes: a graph several times, each NPU for itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.workload.graph import Call, GraphBuilder, Kind, TaskGraph, check
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.passes import repeated
from tests.examples import part_of
from tests.workload.draw_graphs import Drawn, drawn_graphs
from tests.workload.services import FixedHands


def ends(graph: TaskGraph) -> list[int]:
    """When each NPU is through."""
    job, hands = GraphJob(graph), FixedHands((graph.npus,))
    job.begin(hands)
    hands.run()
    last = np.zeros(graph.npus, np.int64)
    np.maximum.at(last, graph.npu, job.times().end)
    return last.tolist()


def two() -> GraphBuilder:
    """NPU 0 computes 10 and sends to NPU 1, which computes 3; both sum."""
    build = GraphBuilder(2)
    total = build.call(Call("all-reduce", 5))
    first = build.task(0, Kind.COMPUTE, "a", ticks=10, resource="compute")
    build.task(0, Kind.SEND, "m", size=7, peer=1, before=[first])
    build.task(1, Kind.RECEIVE, "m", size=7, peer=0)
    build.task(1, Kind.COMPUTE, "b", ticks=3, resource="compute")
    for npu in range(2):
        build.task(npu, Kind.COLLECTIVE, "sum", call=total)
    return build


def test_a_pass_begins_where_the_one_before_ended() -> None:
    graph = two().graph()
    once = ends(graph)
    three = repeated(graph, 3)
    check(three)
    assert len(three) == 3 * 6 + 2 * 2
    assert ends(three)[0] == 3 * once[0]
    assert repeated(graph, 1) is graph


def test_what_does_not_wait_does_not() -> None:
    """NPU 1 computes three times while NPU 0 computes once."""
    build = GraphBuilder(2)
    build.task(0, Kind.COMPUTE, "a", ticks=100)
    build.task(1, Kind.COMPUTE, "b", ticks=10)
    assert ends(repeated(build.graph(), 3)) == [300, 30]


def test_too_many() -> None:
    build = GraphBuilder(1)
    build.tasks(np.zeros(6000, int), Kind.COMPUTE, ticks=1)
    graph = build.graph()
    with pytest.raises(InputError, match=r"workload.passes: 1048576 passes of 6000 tasks are too many"):
        repeated(graph, 1 << 20)


@settings(max_examples=part_of(100))
@given(drawn=drawn_graphs(), passes=st.integers(2, 4))
def test_task_by_task(drawn: Drawn, passes: int) -> None:
    """Written the slow way: each task of each pass, and what it waits for."""
    graph = drawn.graph
    many, step = repeated(graph, passes), len(graph) + graph.npus
    waited = set(graph.before.tolist())
    for turn in range(passes):
        for task in range(len(graph)):
            row = turn * step + task
            for column in ("npu", "kind", "ticks", "size", "peer", "match", "resource", "layer", "name"):
                assert getattr(many, column)[row] == getattr(graph, column)[task]
            if graph.kind[task] == Kind.COLLECTIVE:
                assert many.call[row] == turn * len(graph.calls) + graph.call[task]
            own = graph.before[graph.before_start[task] : graph.before_start[task + 1]].tolist()
            want = [turn * step + each for each in own]
            if turn and not own:
                want = [(turn - 1) * step + len(graph) + int(graph.npu[task])]
            assert before(many, row) == want
        for npu in range(graph.npus if turn < passes - 1 else 0):
            mark = turn * step + len(graph) + npu
            assert (many.kind[mark], many.npu[mark], many.resource[mark], many.call[mark]) == (Kind.MARK, npu, -1, -1)
            own = [task for task in range(len(graph)) if graph.npu[task] == npu and task not in waited]
            assert sorted(before(many, mark)) == [turn * step + task for task in own]
    assert len(many) == passes * step - graph.npus
    assert many.calls == graph.calls * passes


def before(graph: TaskGraph, task: int) -> list[int]:
    return graph.before[graph.before_start[task] : graph.before_start[task + 1]].tolist()
