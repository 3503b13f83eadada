"""The critical path: from cycle 0 to the end without gaps, over links that are there."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings

from pyxsim.system.memory import Access
from pyxsim.workload.critical_path import Link, Step, critical_path
from pyxsim.workload.graph import Call, GraphBuilder, Kind
from tests.examples import part_of
from tests.workload.draw_graphs import Drawn, drawn_graphs
from tests.workload.test_graph_job import collective_time, message_time, run
from tests.workload.test_remote_memory import IN_SWITCH, carried_out


@settings(max_examples=part_of(100))
@given(drawn=drawn_graphs())
def test_links_are_real_and_have_no_gaps(drawn: Drawn) -> None:
    graph = drawn.graph
    job, _ = run(graph, drawn.shape, start_skew=drawn.skew, slowdown=drawn.slow)
    times = job.times()
    path = critical_path(graph, times)
    if not (times.end >= 0).any():
        assert path == []
        return
    # Where not all comes to an end, it is the way to the last end that there is.
    assert path[0].begin == 0
    assert path[-1].end == times.last == job.end
    assert sum(step.end - step.begin for step in path) == job.end
    assert len({step.task for step in path}) == len(path), "no task is there twice"
    assert times.end[path[-1].task] == job.end
    assert path[0].link == Link.BEGIN
    for before, step in pairwise(path):
        task, other = step.task, before.task
        assert before.end == step.begin
        if step.link == Link.BEGIN:
            assert (other, step.begin, times.ready[task]) == (-1, drawn.skew[graph.npu[task]], step.begin)
            continue
        assert graph.npu[task] == graph.npu[other] or step.link in (Link.MESSAGE, Link.MEMBERS)
        if step.link == Link.DEPENDENCY:
            assert other in graph.before[graph.before_start[task] : graph.before_start[task + 1]]
            assert times.end[other] == times.ready[task] == times.start[task] == step.begin
        elif step.link == Link.RESOURCE:
            assert graph.resource[task] == graph.resource[other] >= 0
            assert times.ready[task] < times.start[task] == times.end[other] == step.begin
        elif step.link == Link.MESSAGE:
            assert (graph.kind[other], graph.kind[task]) == (Kind.SEND, Kind.RECEIVE)
            assert times.partner[task] == other
            assert times.start[task] < step.begin == times.end[task] == times.end[other]
            assert before.end - before.begin == message_time(int(graph.size[other]))
        else:
            assert step.link == Link.MEMBERS
            assert graph.call[task] == graph.call[other]
            assert times.group[task] == times.group[other]
            assert times.start[task] < step.begin == times.start[other]
            assert step.end - step.begin == collective_time(graph.calls[graph.call[task]].size)
    for step in path:
        if step.task >= 0 and step.link != Link.MEMBERS:
            assert step.begin in (times.start[step.task], times.end[step.task])


def test_all_links() -> None:
    """Late NPU, compute, resource, message, collective: each is what holds up the next."""
    b = GraphBuilder(2, [("unit", 1)])
    first = b.task(1, Kind.COMPUTE, ticks=10, resource="unit")
    second = b.task(1, Kind.COMPUTE, ticks=20, resource="unit")
    send = b.task(1, Kind.SEND, size=3, peer=0, before=[second])
    receive = b.task(0, Kind.RECEIVE, size=3, peer=1)
    mark = b.task(0, Kind.MARK, ticks=2, before=[receive])
    call = b.call(Call("all-reduce", 4))
    late = b.task(0, Kind.COLLECTIVE, call=call, before=[mark])
    early = b.task(1, Kind.COLLECTIVE, call=call)
    last = b.task(1, Kind.MARK, ticks=1, before=[early])
    job, _ = run(b.graph(), (2,), start_skew=[0, 7])
    assert critical_path(job.graph, job.times()) == [
        Step(-1, 0, 7, Link.BEGIN),
        Step(first, 7, 17, Link.BEGIN),
        Step(second, 17, 37, Link.RESOURCE),
        Step(send, 37, 45, Link.DEPENDENCY),
        Step(receive, 45, 45, Link.MESSAGE),
        Step(mark, 45, 47, Link.DEPENDENCY),
        Step(late, 47, 47, Link.DEPENDENCY),
        Step(early, 47, 56, Link.MEMBERS),
        Step(last, 56, 57, Link.DEPENDENCY),
    ]


def test_groups_of_a_call_do_not_wait_for_each_other() -> None:
    """The row of NPUs 0 and 1 ends last; what NPU 3 does at the same time is nothing to it."""
    b = GraphBuilder(4)
    pause = b.tasks(range(4), Kind.COMPUTE, ticks=[10, 20, 0, 22])
    tasks = b.tasks(range(4), Kind.COLLECTIVE, call=b.call(Call("all-reduce", 4, dims=(0,))), before=[pause])
    b.task(0, Kind.MARK, ticks=30, before=[int(tasks[0])])
    job, _ = run(b.graph(), (2, 2))
    path = critical_path(job.graph, job.times())
    assert [step.task for step in path] == [pause[1], tasks[1], tasks[0], 8]


def test_a_gather_of_remote_memory_waits_for_the_last() -> None:
    """NPU 1 comes to it in cycle 9; then it takes a time of its own."""
    b = GraphBuilder(2)
    late = b.task(1, Kind.COMPUTE, ticks=9)
    first = b.task(0, Kind.MEMORY, size=8, match=Access.GATHER)
    second = b.task(1, Kind.MEMORY, size=8, match=Access.GATHER, before=[late])
    job = carried_out(b.graph(), IN_SWITCH)
    path = critical_path(job.graph, job.times())
    assert job.end > 9
    assert path == [
        Step(late, 0, 9, Link.BEGIN),
        Step(second, 9, 9, Link.DEPENDENCY),
        Step(first, 9, job.end, Link.MEMBERS),
    ]
