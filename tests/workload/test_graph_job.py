"""The executor of tasks against the slow one, which knows docs/workload.md only; and what is told afterwards."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.workload.graph import Call, GraphBuilder, Kind, TaskGraph
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.system_services import TaskExecutor
from pyxsim.workload.usage import usage
from tests.examples import part_of
from tests.workload.draw_graphs import Drawn, drawn_graphs
from tests.workload.services import FixedHands
from tests.workload.slow_tasks import SlowTasks


def collective_time(size: int) -> int:
    return 3 * (size - 1)


def message_time(size: int) -> int:
    return 4 * (size - 1)


def remote_time(size: int) -> int:
    return 2 * (size - 1)


class FixedTime(TaskExecutor):
    """Each of its tasks takes its own time, whatever others there are."""

    def __init__(self, graph: TaskGraph, system: Any, tell: Callable[[int], None]) -> None:
        self.tasks = np.flatnonzero((graph.kind == Kind.MEMORY) & (graph.size > 0))
        self.graph, self.system, self.tell = graph, system, tell

    def start(self, task: int) -> None:
        time = remote_time(int(self.graph.size[task]))
        if time:
            self.system.at(self.system.cycle + time, partial(self.tell, task))
        else:
            self.tell(task)


@pytest.fixture(autouse=True)
def _remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphJob, "factories", (FixedTime,))


def run(graph: TaskGraph, shape: tuple[int, ...], **others: Any) -> tuple[GraphJob, FixedHands]:
    hands = FixedHands(shape, collective_time, message_time, **others)
    job = GraphJob(graph)
    job.begin(hands)
    hands.run()
    return job, hands


@settings(max_examples=part_of(250))
@given(drawn=drawn_graphs(remote=True))
def test_as_the_slow_one(drawn: Drawn) -> None:
    """To the cycle, and in the same order towards the system layer; also where not all comes to an end."""
    graph = drawn.graph
    slow = SlowTasks(graph, drawn.shape, collective_time, message_time, drawn.skew, drawn.slow, remote_time)
    job, hands = run(graph, drawn.shape, start_skew=drawn.skew, slowdown=drawn.slow)
    times = job.times()
    assert times.ready.tolist() == slow.ready
    assert times.start.tolist() == slow.start
    assert times.end.tolist() == slow.end
    assert job.left == slow.end.count(-1)

    def label(task: int) -> str:
        return graph.calls[graph.call[task]].name if graph.call[task] >= 0 else graph.names[graph.name[task]]

    assert hands.log == [(cycle, label(task), int(graph.npu[task])) for cycle, task in slow.log]


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_a_resource_is_for_the_lowest_number() -> None:
    """Two at a time; the third has the lowest number of those that wait, though it came last."""
    b = GraphBuilder(1, [("unit", 2)])
    late = b.task(0, Kind.COMPUTE, ticks=5, resource="unit", before=[1])
    first = b.task(0, Kind.COMPUTE, ticks=10, resource="unit")
    second = b.task(0, Kind.COMPUTE, ticks=12, resource="unit")
    other = b.task(0, Kind.COMPUTE, ticks=1, resource="unit")
    last = b.task(0, Kind.MARK, ticks=100, before=[late])
    job, _ = run(b.graph(), (1,))
    times = job.times()
    assert times.start[[first, second, late, other, last]].tolist() == [0, 0, 10, 12, 15]
    assert times.ready[other] == 0
    assert times.cause[[first, second, late, other, last]].tolist() == [-1, -1, first, second, late]
    assert job.end == 115


def test_messages_alike_belong_together_in_the_order_of_their_starts() -> None:
    """The second send, by number, starts first: it is for the receive that starts first."""
    b = GraphBuilder(2)
    wait = b.task(0, Kind.MARK, ticks=50)
    slow = b.task(0, Kind.SEND, size=3, peer=1, before=[wait])
    fast = b.task(0, Kind.SEND, size=3, peer=1)
    early = b.task(1, Kind.RECEIVE, size=3, peer=0)
    pause = b.task(1, Kind.MARK, ticks=20)
    late = b.task(1, Kind.RECEIVE, size=3, peer=0, before=[pause])
    times = run(b.graph(), (2,))[0].times()
    assert times.end[[fast, early, slow, late]].tolist() == [8, 8, 58, 58]
    assert times.partner[[slow, fast, early, late]].tolist() == [late, early, fast, slow]


def test_a_message_that_is_there_is_received_at_once() -> None:
    b = GraphBuilder(2)
    b.task(0, Kind.SEND, size=2, peer=1)
    pause = b.task(1, Kind.COMPUTE, ticks=30)
    receive = b.task(1, Kind.RECEIVE, size=2, peer=0, before=[pause])
    job, _ = run(b.graph(), (2,))
    times = job.times()
    assert (times.start[receive], times.end[receive]) == (30, 30)
    assert usage(job.graph, times).busy.tolist() == [4, 30]


def test_nobody_waits_for_who_is_not_needed() -> None:
    """A collective of each row of a 2 x 2: the rows have nothing to do with each other."""
    b = GraphBuilder(4)
    call = b.call(Call("all-reduce", 2, dims=(0,), name="rows"))
    before = b.tasks(range(4), Kind.COMPUTE, ticks=[1, 2, 30, 40])
    tasks = b.tasks(range(4), Kind.COLLECTIVE, call=call, before=[before])
    job, _ = run(b.graph(), (2, 2))
    assert job.times().end[tasks].tolist() == [5, 5, 43, 43]
    assert [(each.name, each.group, len(each.per_group), each.start, each.end) for each in job.collectives] == [
        ("rows", "dims 0", 2, 1, 43)
    ]
    assert job.traffic == ["rows"]


def test_traffic_has_a_row_for_each_name() -> None:
    b = GraphBuilder(2)
    for name in ("a", "b", "a"):
        b.tasks([0, 1], Kind.COLLECTIVE, call=b.call(Call("barrier", 0, name=name)))
    for name in ("b", "c"):
        b.task(0, Kind.SEND, name, size=1, peer=1)
        b.task(1, Kind.RECEIVE, name, size=1, peer=0)
    job, _ = run(b.graph(), (2,))
    assert job.traffic == ["a", "b", "c"]
    assert [each.name for each in job.collectives] == ["a", "b", "a"]


def test_an_npu_alone_is_not_asked_for_every_task() -> None:
    """Python is entered when NPUs communicate, not when they compute."""
    b = GraphBuilder(2)
    last = b.tasks([0, 1], Kind.MARK)
    for step in range(100):
        last = b.tasks([0, 1], Kind.COMPUTE, ticks=[3 + step, 5 + step], before=[last])
    call = b.call(Call("all-reduce", 2))
    b.tasks([0, 1], Kind.COLLECTIVE, call=call, before=[last])
    job, hands = run(b.graph(), (2,))
    assert job.end == sum(5 + step for step in range(100)) + 3
    assert hands._count < 10


def test_what_never_comes_leaves_tasks() -> None:
    """Both receive before they send."""
    b = GraphBuilder(2)
    for npu in (0, 1):
        got = b.task(npu, Kind.RECEIVE, size=1, peer=1 - npu)
        b.task(npu, Kind.SEND, size=1, peer=1 - npu, before=[got])
    job, _ = run(b.graph(), (2,))
    assert job.left == 4
    assert job.times().start.tolist() == [0, -1, 0, -1]
    assert job.stuck_report() == [
        "NPU 0, 'receive' (task 0) waits for 1 bytes with tag 0 from NPU 1",
        "NPU 1, 'receive' (task 2) waits for 1 bytes with tag 0 from NPU 0",
    ]


def test_a_straggler_computes_slowly() -> None:
    b = GraphBuilder(2)
    b.tasks([0, 1], Kind.COMPUTE, ticks=5)
    b.tasks([0, 1], Kind.MEMORY, ticks=5)
    job, _ = run(b.graph(), (2,), slowdown=[Fraction(1), Fraction(3, 2)])
    assert job.times().end.tolist() == [5, 8, 5, 5]
    assert job.graph.ticks.tolist() == [5] * 4


def test_the_network_has_as_many_npus() -> None:
    b = GraphBuilder(2)
    b.tasks([0, 1], Kind.COMPUTE, ticks=5)
    with pytest.raises(InputError, match=r"workload\.file: the workload has 2 NPUs, but the network has 4"):
        GraphJob(b.graph(), key="workload.file").begin(FixedHands((2, 2)))


def test_dimensions_are_those_of_the_network() -> None:
    b = GraphBuilder(2)
    b.tasks([0, 1], Kind.COLLECTIVE, call=b.call(Call("all-reduce", 8, dims=(1,), name="columns")))
    job = GraphJob(b.graph())
    with pytest.raises(InputError, match=r"collective 'columns' \(0\): there is no dimension 1"):
        job.begin(FixedHands((2,)))


def test_more_cycles_than_can_be_counted() -> None:
    b = GraphBuilder(1)
    b.task(0, Kind.COMPUTE, ticks=2**60)
    with pytest.raises(InputError, match="a straggler takes too many cycles"):
        GraphJob(b.graph()).begin(FixedHands((1,), slowdown=[Fraction(100)]))


@given(durations=st.lists(st.lists(st.integers(0, 20), min_size=3, max_size=3), min_size=1, max_size=5))
def test_a_pipeline(durations: list[list[int]]) -> None:
    """Stages that hand micro-batches on: the end of each is the maximum of what it waits for, plus its time."""
    stages, batches = 3, len(durations)
    b = GraphBuilder(stages, [("compute", 1)])
    done: dict[tuple[int, int], int] = {}
    for batch in range(batches):
        for stage in range(stages):
            before = []
            if stage:
                before.append(b.task(stage, Kind.RECEIVE, size=3, peer=stage - 1, match=batch))
            ticks = durations[batch][stage]
            done[batch, stage] = b.task(stage, Kind.COMPUTE, ticks=ticks, resource="compute", before=before)
            if stage + 1 < stages:
                b.task(stage, Kind.SEND, size=3, peer=stage + 1, match=batch, before=[done[batch, stage]])
    times = run(b.graph(), (stages,))[0].times()
    end = np.zeros((batches + 1, stages + 1), int)
    for batch in range(batches):
        for stage in range(stages):
            come = end[batch, stage - 1] + 8 if stage else 0
            end[batch, stage] = max(come, end[batch - 1, stage] if batch else 0) + durations[batch][stage]
            assert times.end[done[batch, stage]] == end[batch, stage]
