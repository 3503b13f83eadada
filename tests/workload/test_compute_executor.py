"""Graphs on NPUs whose memory is shared: computations end when the endpoint says so."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError, StuckError
from pyxsim.system import System
from pyxsim.system.options import Endpoint
from pyxsim.workload.critical_path import critical_path
from pyxsim.workload.graph import Call, GraphBuilder, Kind, TaskGraph
from pyxsim.workload.graph_job import GraphJob
from pyxsim.workload.usage import usage
from tests.examples import part_of
from tests.system.ideal import Ideal, options, system
from tests.workload.draw_graphs import Drawn, drawn_graphs

few = settings(max_examples=part_of(30), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def carried_out(graph: TaskGraph, on: System) -> GraphJob:
    """As far as it goes: nothing makes sure that what is drawn comes to an end."""
    job = GraphJob(graph)
    job.begin(on)
    with suppress(StuckError):
        on.run()
    return job


def with_bytes(graph: TaskGraph, per_cycle: int) -> TaskGraph:
    """Computations move so many bytes a cycle."""
    size = np.where(graph.kind == Kind.COMPUTE, graph.ticks * per_cycle, graph.size)
    return replace(graph, size=size)


@few
@given(drawn_graphs(), st.integers(0, 4), st.sampled_from([None, Fraction(3), Fraction(50)]), st.booleans())
def test_the_end_is_explained(drawn: Drawn, per_cycle: int, memory: Fraction | None, engine: bool) -> None:
    """Busy times and the critical path add up to it as they do without an endpoint."""
    share = Fraction(0) if engine else Fraction(1, 4)
    graph = with_bytes(drawn.graph, per_cycle)
    endpoint = Endpoint(memory=memory, engine=engine, compute_share=share)
    chosen = options(dims=len(drawn.shape), chunks=2, endpoint=endpoint)
    on = System(Ideal(graph.npus, 20), drawn.shape, chosen)
    job = carried_out(graph, on)
    assume(job.left == 0)
    times = job.times()
    took = times.end - times.start
    slowest = graph.ticks[graph.kind == Kind.COMPUTE]
    assert (took[graph.kind == Kind.COMPUTE] >= slowest).all()
    path = critical_path(graph, times)
    assert sum(step.end - step.begin for step in path) == times.last
    used = usage(graph, times)
    assert (used.busy + used.idle == times.last).all()
    assert on.endpoint is not None
    moved = np.bincount(graph.npu, np.where(graph.kind == Kind.COMPUTE, graph.size, 0), graph.npus)
    if (memory is not None and per_cycle) or share:
        assert on.endpoint.totals()["compute"].tolist() == moved.astype(int).tolist()


@few
@given(drawn_graphs())
def test_with_nothing_to_share_all_is_as_without(drawn: Drawn) -> None:
    ends = []
    for endpoint in (None, Endpoint(), Endpoint(memory=Fraction(10**6), engine=True)):
        graph = with_bytes(drawn.graph, 1)
        if endpoint is not None and endpoint.memory:  # no communication: memory is there for computing alone
            graph = with_bytes(only_computing(drawn.graph), 1)
            ends = [carried_out(graph, ideal(graph, drawn, None)).times().end.tolist()]
        ends.append(carried_out(graph, ideal(graph, drawn, endpoint)).times().end.tolist())
        assert ends[0] == ends[-1]


def only_computing(graph: TaskGraph) -> TaskGraph:
    """The same graph where nothing is communicated."""
    talks = np.isin(graph.kind, [Kind.SEND, Kind.RECEIVE, Kind.COLLECTIVE])
    kind = np.where(talks, Kind.MARK, graph.kind).astype(graph.kind.dtype)
    resource = np.where(talks, -1, graph.resource).astype(graph.resource.dtype)
    call = np.full_like(graph.call, -1)
    return replace(graph, kind=kind, resource=resource, call=call, calls=[], size=np.where(talks, 0, graph.size))


def ideal(graph: TaskGraph, drawn: Drawn, endpoint: Endpoint | None) -> System:
    return System(Ideal(graph.npus, 20), drawn.shape, options(dims=len(drawn.shape), endpoint=endpoint))


def beside(**endpoint: Any) -> tuple[int, int]:
    """Two NPUs compute, 100 bytes a cycle for 1000 cycles, and add up 80 000 bytes beside that: both ends."""
    b = GraphBuilder(2)
    b.tasks(range(2), Kind.COMPUTE, ticks=1000, size=100_000, resource="compute")
    call = b.call(Call("all-reduce", 80_000))
    b.tasks(range(2), Kind.COLLECTIVE, call=call, resource="communication")
    end = carried_out(b.graph(), system([2], 100, endpoint=Endpoint(**endpoint))).times().end
    return int(end[0]), int(end[2])


def test_an_engine_lets_both_go_on() -> None:
    """Blocks of 40 000 bytes: read, sent, written, added with two reads and a write, sent on as they are added, and
    written: 6 blocks without an engine, 4 with one."""
    none = beside(memory=Fraction(100))
    # Half of the memory for each: 800 to read, 100 away, 3200 to add. But the computation is through before that.
    assert none[0] == 2000 - 100  # which are the cycles in which it is alone
    assert none[1] == 100 + 100 + (40_000 * 6 + 100_000 - 100 * 100) // 100
    engine = beside(memory=Fraction(100), engine=True)
    assert engine[0] < none[0]
    assert engine[1] < none[1]
    assert beside(memory=Fraction(10**6))[0] == 1000
    assert beside(compute_share=Fraction(1, 5)) == (1000 + 200 // 5, 200)


def test_a_slow_npu_has_its_own_times() -> None:
    b = GraphBuilder(2)
    b.tasks(range(2), Kind.COMPUTE, ticks=100, size=1500)
    slow = [Fraction(1), Fraction(3, 2)]
    on = system([2], 5, endpoint=Endpoint(memory=Fraction(15, 2)), slowdown=slow)
    assert carried_out(b.graph(), on).times().end.tolist() == [200, 200]
    on = system([2], 5, endpoint=Endpoint(memory=Fraction(15)), slowdown=slow)
    assert carried_out(b.graph(), on).times().end.tolist() == [100, 150]


def test_what_cannot_be_counted_is_refused() -> None:
    b = GraphBuilder(2)
    b.task(1, Kind.COMPUTE, "huge", ticks=10, size=2**46)
    with pytest.raises(InputError, match="huge"):
        carried_out(b.graph(), system([2], 5, endpoint=Endpoint(memory=Fraction(5))))
