"""The endpoint: docs/endpoint.md has two implementations, which must agree; and what can be said without either."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.schedule import Schedule
from pyxsim.errors import InputError
from pyxsim.system import Options, System
from pyxsim.system.options import Endpoint
from pyxsim.system.program import traffic_of
from pyxsim.system.table import COLUMNS
from tests.examples import part_of
from tests.system.ideal import Ideal, system
from tests.system.slow_endpoint import SlowEndpoint
from tests.system.test_oracle import Case, Times, cases, crowds, strange

__all__ = ["strange"]  # a fixture of this module, too

few = settings(max_examples=part_of(20), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
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


def compute_on(on: Any, works: list[Work], compute: Any) -> list[int]:
    """Let computations begin, and hear when they end."""
    ends = [-1] * len(works)

    def begin(number: int) -> None:
        npu, _, ticks, size = works[number]

        def end() -> None:
            ends[number] = on.now if isinstance(on, SlowEndpoint) else on.cycle

        compute(npu, ticks, size, end)

    for number, (_, cycle, _, _) in enumerate(works):
        on.at(cycle, lambda number=number: begin(number))
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


# -- what is known without either --------------------------------------------------------------------------------------


@few
@given(st.one_of(cases(), crowds()), st.booleans())
def test_without_a_limit_all_is_as_without_an_endpoint(case: Case, engine: bool) -> None:
    plain = replace(case.options, shared_bus=None, boost=False)
    tables = []
    for options in (plain, replace(plain, endpoint=Endpoint(engine=engine))):
        network = Ideal(math.prod(case.shape), Times(case.seed, case.most))
        on = System(network, case.shape, options)
        for call in case.issues:
            on.issue(**call)
        for call in case.sends:
            on.send(**call)
        tables.append((on.run(), network.sent, {name: row.tolist() for name, row in on.chunk_table().items()}))
    assert tables[0] == tables[1]


def test_bytes_of_each_kind_of_step() -> None:
    """The table of docs/endpoint.md: messages that are stored, or added and sent on; a copy, and an own addition."""
    s = Schedule("all-reduce", 3, blocks=1, cells=2)
    s.send(0, 1, 0)
    s.send(1, 2, 0, reduce=True)
    s.send(2, 0, 0)
    s.local(0, 0, 1)
    s.local(0, 1, 0, reduce=True)
    s.send(0, 2, 0)
    size = np.full(6, 10)
    found = traffic_of(compiled(s), size, offloaded=False)
    assert found.read_out.tolist() == [10, 10, 0, 0, 0, 0]
    assert found.read_in.tolist() == [0, 20, 0, 10, 20, 0]
    assert found.written.tolist() == [10, 20, 10, 10, 10, 10]
    engine = traffic_of(compiled(s), size, offloaded=True)
    assert (engine.read_out == size).all()
    assert (engine.read_in + engine.written == size).all()


RING = {  # blocks that one of n NPUs in a ring reads, writes, and sends
    "reduce-scatter": lambda n: (1 + 2 * (n - 1), 2 * (n - 1), n - 1),
    "all-gather": lambda n: (n - 1, n - 1, n - 1),
    "all-reduce": lambda n: (3 * (n - 1), 3 * (n - 1), 2 * (n - 1)),
}


def totals(on: System) -> dict[str, list[int]]:
    assert on.endpoint is not None
    return {name: row.tolist() for name, row in on.endpoint.totals().items()}


@few
@given(n=st.integers(2, 9), block=st.integers(1, 999), chunks=st.integers(1, 3), kind=st.sampled_from([*RING]))
def test_bytes_of_a_ring(n: int, block: int, chunks: int, kind: str) -> None:
    """Without an engine each block is read and written again and again; with one the buffer is, once."""
    size = n * block * chunks
    ends = {"reduce-scatter": (size, size // n), "all-gather": (size // n, size), "all-reduce": (size, size)}
    for engine in (False, True):
        on = system([n], 20, chunks=chunks, endpoint=Endpoint(memory=Fraction(50), engine=engine))
        on.issue(kind, ends[kind][0])
        on.run()
        read, written, sent = (blocks * block * chunks for blocks in RING[kind](n))
        assert on.bytes_planned == n * sent
        found, memory = totals(on), ends[kind] if engine else (read, written)
        assert found["engine"] == [2 * sent * engine] * n
        assert list(zip(found["read"], found["written"], strict=True)) == [memory] * n


@few
@given(n=st.integers(2, 9), block=st.integers(1, 999), rate=st.integers(1, 300), delay=st.integers(0, 9))
def test_time_of_a_ring(n: int, block: int, rate: int, delay: int) -> None:
    """A chain: read once; then on each hop the way, one to arrive and three to add, and at once on."""
    on = system([n], 100, endpoint_delay=delay, endpoint=Endpoint(memory=Fraction(rate)))
    on.issue("reduce-scatter", n * block)
    assert on.run() == delay + math.ceil(block / rate) + (n - 1) * (100 + math.ceil(4 * block / rate) + delay)


@few
@given(n=st.integers(2, 6), size=st.integers(1, 3000), rates_=st.lists(st.integers(1, 99), min_size=2, max_size=4))
def test_a_chain_is_not_faster_with_less(n: int, size: int, rates_: list[int]) -> None:
    for engine in (False, True):
        ends = []
        for rate in sorted(rates_):
            on = system([n], 20, endpoint=Endpoint(memory=Fraction(rate, 3), engine=engine))
            on.issue("all-reduce", size)
            ends.append(on.run())
        assert ends == sorted(ends, reverse=True)


def computed(on: System, *works: tuple[int, int]) -> list[int]:
    """When computations (cycles, bytes) end that NPU 0 begins together."""
    assert on.endpoint is not None
    ends = compute_on(on, [(0, 0, *work) for work in works], on.endpoint.compute)
    on.run()
    return ends


@pytest.mark.parametrize(
    ("works", "ends"),
    [
        ([(100, 0)], [100]),
        ([(100, 1000)], [100]),  # as much as there is
        ([(100, 4000)], [400]),
        ([(100, 1000), (100, 1000)], [200, 200]),  # half each
        ([(100, 200), (100, 1600)], [100, 180]),  # 2 bytes a cycle for one, 8 for the other, which has 10 from 100 on
        ([(50, 0), (100, 2000)], [50, 200]),
    ],
)
def test_computations_share_the_memory(works: list[tuple[int, int]], ends: list[int]) -> None:
    assert computed(system([2], 1, endpoint=Endpoint(memory=Fraction(10))), *works) == ends


def test_computing_and_communicating_share_the_memory() -> None:
    """A message is read for 40 cycles at 5 bytes, as is a computation that wants 10 and has 10 afterwards."""
    on = system([2], 7, endpoint=Endpoint(memory=Fraction(10)))
    message = on.send(0, 1, 200)
    assert computed(on, (100, 1000)) == [40 + 80]
    assert message.end == 40 + 7 + 20
    moved = {"read": [200, 0], "written": [0, 200], "compute": [1000, 0], "engine": [0, 0]}
    assert totals(on) == {**moved, "busy": [120, 20]}


def test_communication_may_be_held_back() -> None:
    """It takes 2 bytes a cycle, and leaves 8 to a computation that wants 16."""
    on = system([2], 7, endpoint=Endpoint(memory=Fraction(10), communication=Fraction(2)))
    message = on.send(0, 1, 200)
    assert computed(on, (100, 1600)) == [100 + 80]
    assert message.end == 100 + 7 + 100


def test_collectives_take_cores() -> None:
    """An all-gather of two NPUs takes 100 cycles: half of the cores compute meanwhile."""
    on = system([2], 100, endpoint=Endpoint(compute_share=Fraction(1, 2)))
    on.issue("all-gather", 20)
    assert computed(on, (80, 0), (20, 0)) == [100 + 30, 40]


def test_chunks_wait_for_room_in_an_engine() -> None:
    """Four chunks of 100 bytes, 10 cycles each way through the memory; 50 on the network. Room for one, or all."""
    ends = []
    for room in (100, 400, None):
        endpoint = Endpoint(Fraction(10), engine=True, engine_memory=room)
        on = system([2], 50, "direct", chunks=4, slots=[4], endpoint=endpoint)
        on.issue("all-to-all", 400)
        ends.append(on.run())
    assert ends == [4 * (10 + 50 + 10), 10 + 50 + 10 + 3 * 10, 10 + 50 + 10 + 3 * 10]


def test_a_chunk_that_fits_into_no_engine() -> None:
    on = system([2], 50, endpoint=Endpoint(engine=True, engine_memory=99))
    with pytest.raises(InputError, match=r"a chunk of 100 bytes of the all-reduce does not fit into an engine"):
        on.issue("all-reduce", 100)
