"""The endpoint: docs/endpoint.md has two implementations, which must agree; and what can be said without either."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.system import Options, System
from pyxsim.system.options import Endpoint
from pyxsim.system.table import COLUMNS
from tests.system.ideal import Ideal
from tests.system.slow_endpoint import SlowEndpoint
from tests.system.test_oracle import Case, Times, cases, crowds, strange

__all__ = ["strange"]  # a fixture of this module, too

few = settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
many = settings(few, max_examples=1000)
rates = st.sampled_from([None, Fraction(70, 3), Fraction(100), Fraction(333, 10), Fraction(1000)])


@st.composite
def endpoints(draw: st.DrawFn) -> Endpoint:
    engine, memory = draw(st.booleans()), draw(rates)
    share = st.sampled_from([Fraction(0), Fraction(1, 16), Fraction(1, 3), Fraction(9, 10)])
    part = draw(st.sampled_from([None, Fraction(1, 7), Fraction(1, 2), Fraction(1)]))
    return Endpoint(
        memory=memory,
        communication=None if memory is None or part is None else memory * part,
        compute_share=Fraction(0) if engine else draw(share),
        engine=engine,
        engine_memory=draw(st.sampled_from([None, 1, 2])) if engine else None,  # times the largest chunk
        engine_rate=draw(rates) if engine else None,
    )


Work = tuple[int, int, int, int]  # NPU, cycle, ticks, bytes


@st.composite
def shared(draw: st.DrawFn) -> tuple[Case, Endpoint, list[Work]]:
    case = draw(st.one_of(cases(), crowds()))
    plain = {"shared_bus": None, "boost": False, "reduction_bytes_per_cycle": None}
    case.options = replace(case.options, **plain)
    work = st.tuples(
        st.integers(0, math.prod(case.shape) - 1),
        st.integers(0, 60),
        st.integers(1, 300),
        st.sampled_from([0, 1, 100, 3000]),
    )
    return case, draw(endpoints()), draw(st.lists(work, max_size=6))


def with_room(case: Case, endpoint: Endpoint) -> Options:
    """Room for so many of the largest chunks as `engine_memory` says."""
    options = replace(case.options, endpoint=endpoint)
    if endpoint.engine_memory is None:
        return options
    trial = System(Ideal(math.prod(case.shape), 1), case.shape, replace(case.options, endpoint=None))
    plans = [chunk.plan for call in case.issues for chunk in trial.issue(**call).chunks]
    most = [max(int(phase.bytes_in.max()), int(phase.bytes_out.max())) for plan in plans for phase in plan.phases]
    room = endpoint.engine_memory * max(most, default=1)
    return replace(options, endpoint=replace(endpoint, engine_memory=max(room, 1)))


def compute_on(system: Any, works: list[Work], compute: Any) -> list[int]:
    """Let computations begin, and hear when they end."""
    ends = [-1] * len(works)

    def begin(number: int) -> None:
        npu, _, ticks, size = works[number]

        def end() -> None:
            ends[number] = system.now if isinstance(system, SlowEndpoint) else system.cycle

        compute(npu, ticks, size, end)

    for number, (_, cycle, _, _) in enumerate(works):
        system.at(cycle, lambda number=number: begin(number))
    return ends


def agree(case: Case, endpoint: Endpoint, works: list[Work]) -> None:
    """Run both, and compare all that can be seen of them."""
    options = with_room(case, endpoint)
    network = Ideal(math.prod(case.shape), Times(case.seed, case.most))
    fast = System(network, case.shape, options)
    slow = SlowEndpoint(Times(case.seed, case.most), case.shape, options)
    for each in (fast, slow):
        for call in case.issues:
            each.issue(**call)
        for call in case.sends:
            each.send(**call)
    assert fast.endpoint is not None
    ends = [compute_on(fast, works, fast.endpoint.compute), compute_on(slow, works, slow.compute)]
    fast.run()
    slow.run()
    assert ends[0] == ends[1]
    assert network.sent == slow.sent
    table = fast.chunk_table()
    assert sorted(zip(*(table[name].tolist() for name in COLUMNS), strict=True)) == slow.chunk_table()
    assert [one.end for one in fast.collectives] == [one.end for one in slow.collectives]
    assert [one.end for one in fast.messages] == [one.end for one in slow.messages]
    assert {name: row.tolist() for name, row in fast.endpoint.totals().items()} == slow.totals()


@few
@given(shared())
def test_both_agree(drawn: tuple[Case, Endpoint, list[Work]]) -> None:
    agree(*drawn)


@pytest.mark.slow
@many
@given(shared())
def test_both_agree_on_many_more(drawn: tuple[Case, Endpoint, list[Work]]) -> None:
    agree(*drawn)
