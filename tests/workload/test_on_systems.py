"""Graphs on the real system layer: on a network of which everything is known, and on a backend, with a Result."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.collective.communicator import Communicator
from pyxsim.errors import StuckError
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment
from pyxsim.system import System, make_system
from pyxsim.workload.critical_path import critical_path
from pyxsim.workload.graph import Call, GraphBuilder, Kind, TaskGraph
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.usage import usage
from tests.examples import part_of
from tests.system.ideal import Ideal, options, system
from tests.workload.draw_graphs import Drawn, drawn_graphs

T = 100  # cycles of every message


def carried_out(graph: TaskGraph, on: System) -> GraphJob:
    job = GraphJob(graph)
    job.begin(on)
    on.run()
    assert job.left == 0
    return job


@given(ticks=st.lists(st.integers(0, 500), min_size=4, max_size=4))
def test_each_npu_waits_for_the_data_that_it_needs(ticks: list[int]) -> None:
    """A ring all-gather: an NPU's block takes T from each to the next, as soon as that has begun."""
    b = GraphBuilder(4)
    before = b.tasks(range(4), Kind.COMPUTE, ticks=ticks)
    call = b.call(Call("all-gather", 4000))
    tasks = b.tasks(range(4), Kind.COLLECTIVE, call=call, before=[before])
    job = carried_out(b.graph(), system([4], T))
    for npu in range(4):
        ends = []
        for far in range(4):
            come = ticks[npu - far]
            for hop in range(npu - far, npu):
                come = max(come, ticks[hop]) + T
            ends.append(max(come, ticks[npu]))
        assert job.times().end[tasks[npu]] == max(ends)


@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "barrier"])
@pytest.mark.parametrize("dims", [None, (0,), (1,)])
def test_who_begins_together_does_as_without_a_graph(kind: str, dims: tuple[int, ...] | None) -> None:
    """To the cycle, for every chunk and phase."""

    def fresh() -> System:
        return System(Ideal(6, lambda src, dst, size: 50 + size // 10), (3, 2), options(dims=2, chunks=4))

    b = GraphBuilder(6)
    before = b.tasks(range(6), Kind.COMPUTE, ticks=33)
    b.tasks(range(6), Kind.COLLECTIVE, call=b.call(Call(kind, 6000, dims=dims)), before=[before])
    graph, plain = fresh(), fresh()
    job = carried_out(b.graph(), graph)
    for group in [Communicator.whole((3, 2))] if dims is None else Communicator.along(dims, (3, 2)):
        plain.issue(kind, 6000, at=33, communicator=group)
    assert job.end == plain.run()
    for column, values in plain.chunk_table().items():
        assert np.array_equal(graph.chunk_table()[column], values), column


def test_a_message_pays_the_delay_of_its_endpoints() -> None:
    b = GraphBuilder(2)
    before = b.task(0, Kind.COMPUTE, ticks=20)
    send = b.task(0, Kind.SEND, size=8, peer=1, before=[before])
    receive = b.task(1, Kind.RECEIVE, size=8, peer=0)
    job = carried_out(b.graph(), system([2], T, endpoint_delay=7))
    assert job.times().end[[send, receive]].tolist() == [20 + 7 + T + 7] * 2


def test_who_waits_for_whom() -> None:
    """NPUs that come to two collectives in different orders, one at a time, never come to the second."""
    b = GraphBuilder(2)
    calls = [b.call(Call("all-reduce", 64, name=name)) for name in ("one", "two")]
    for npu in (0, 1):
        first = b.task(npu, Kind.COLLECTIVE, call=calls[npu])
        b.task(npu, Kind.COLLECTIVE, call=calls[1 - npu], before=[first])
    job, s = GraphJob(b.graph()), system([2], T)
    job.begin(s)
    with pytest.raises(StuckError, match="nothing moves after cycle"):
        s.run()
    assert job.left == 4


@settings(max_examples=part_of(50))
@given(drawn=drawn_graphs(shapes=((2,), (2, 2), (3, 2))))
def test_path_and_idle_times(drawn: Drawn) -> None:
    graph = drawn.graph
    others: dict[str, Any] = {"start_skew": drawn.skew, "slowdown": drawn.slow, "endpoint_delay": 1}
    s = system(drawn.shape, lambda src, dst, size: 5 + size, **others)
    job = GraphJob(graph)
    job.begin(s)
    try:
        s.run()
    except StuckError:
        assert job.left
        return
    assert not job.left
    times = job.times()
    assert job.end == times.last == max(times.end)
    found = usage(graph, times)
    assert (found.busy + found.idle == job.end).all()
    path = critical_path(graph, times)
    assert (path[0].begin, path[-1].end) == (0, job.end)
    assert all(one.end == other.begin for one, other in pairwise(path))


@pytest.mark.parametrize("backend", ["analytical", "analytical-congestion", "flow", "packet"])
def test_on_a_backend(backend: str) -> None:
    """A step of data-parallel training on a torus, as a job like any other, up to its Result."""
    experiment = load_experiment(
        {"network": {"topology": "torus", "shape": [2, 2]}, "collective": {"kind": "all-reduce", "size": "1 MiB"}}
    )
    made = prepare(experiment, backend=backend)
    assert isinstance(made, Prepared)
    b = GraphBuilder(4)
    npus = np.arange(4)
    last = b.tasks(npus, Kind.COMPUTE, "forward", ticks=2000, resource="compute")
    sums = []
    for layer in range(3):
        last = b.tasks(npus, Kind.COMPUTE, f"backward {layer}", ticks=[500, 600, 700, 800], before=[last])
        call = b.call(Call("all-reduce", 1 << 14, name=f"gradients {layer}"))
        sums.append(b.tasks(npus, Kind.COLLECTIVE, f"gradients {layer}", call=call, before=[last]))
    b.tasks(npus, Kind.SEND, "halo", size=4096, peer=npus ^ 1, before=[last])
    b.tasks(npus, Kind.RECEIVE, "halo", size=4096, peer=npus ^ 1, before=[last])
    job = GraphJob(b.graph())
    on = make_system(made.network, made.topology.shape, made.system.options)
    job.begin(on)
    result = simulate(Prepared(experiment, made.topology, made.network, on, job), backend=backend)
    assert result.complete
    assert result.time_cycles == job.end > 2000 + 3 * 800
    assert [row["name"] for row in result.collectives] == ["gradients 0", "gradients 1", "gradients 2"]
    assert [row["start"] for row in result.collectives] == [2500, 3000, 3500]
    times = job.times()
    assert [row["end"] for row in result.collectives] == [times.end[tasks].max() for tasks in sums]
    assert [row["bytes"] for row in result.point_to_point] == [4096] * 4
    found = usage(job.graph, times)
    assert found.compute.tolist() == [2000 + 3 * each for each in (500, 600, 700, 800)]
    assert (found.busy + found.idle == job.end).all()
    path = critical_path(job.graph, times)
    assert sum(step.end - step.begin for step in path) == job.end
