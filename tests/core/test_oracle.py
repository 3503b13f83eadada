"""The engine against the reference: two implementations of docs/router.md, which must agree flit for flit."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine, build_info
from tests.examples import part_of
from tests.reference.allocator_names import AGE, INPUT_FIRST, ISLIP, WAVEFRONT
from tests.reference.cases import (
    Case,
    adaptive_nets,
    cases,
    classed_nets,
    nets,
    ranked_options,
    risky_nets,
    slot_options,
    speculative_options,
    switch_options,
    whole_options,
)
from tests.reference.networks import BOOKSIM, Stages, garnet, hub, options, ring, star, style
from tests.reference.recording import RecordingEngine

FAR = max(1_200, part_of(8_000))  # packets of random relations may go round in circles; compare up to here
AFTER = 40  # cycles after a deadlock in which the reference must not move either

EVERYWHERE = [HealthCheck.too_slow, HealthCheck.data_too_large]
few = settings(max_examples=part_of(100), suppress_health_check=EVERYWHERE)
many = settings(max_examples=4000, suppress_health_check=EVERYWHERE)


def engine_of(case: Case) -> Engine:
    return Engine(case.net.routers, case.net.links(), case.net.routes(), case.options, trace=True)


def oracle_of(case: Case) -> RecordingEngine:
    return RecordingEngine(case.net.routers, case.net.links(), case.net.routes(), case.options, every=20)


def run_to(engine: Engine, until: int) -> tuple[str, list[tuple[int, int]]]:
    """Run on after deliveries; return the last reason and all deliveries."""
    delivered: list[tuple[int, int]] = []
    while True:
        stop = engine.run(until)
        delivered += stop.delivered
        if stop.reason != "delivered" or engine.now >= until:
            return stop.reason, delivered


def counts(machine: Engine | RecordingEngine, messages: int) -> dict[str, Any]:
    """All counts and times, as plain lists."""
    counters: Mapping[str, Any] = machine.counters()
    return {
        "messages": [tuple(machine.message_times(m)) for m in range(messages)],
        "counters": {name: [int(v) for v in values] for name, values in sorted(counters.items())},
        "buffer_max": [int(v) for v in machine.buffer_max()],
        "totals": {name: value for name, value in machine.totals().items() if name != "router_visits"},
    }


def agree(engine: Engine, oracle: RecordingEngine, messages: int, reason: str) -> None:
    """Bring the reference to the engine's cycle and compare all counts.

    The engine stops after the arrivals of its current cycle, so that a message may start in the cycle in which another
    is delivered; except at the end of a window, to which these arrivals do not belong.
    """
    oracle.step_to(engine.now)
    if reason != "window":
        oracle.arrive()
    assert counts(engine, messages) == counts(oracle, messages)
    engine.check()


def same_launches(engine: Engine, oracle: RecordingEngine) -> None:
    trace = [tuple(row) for row in engine.trace().tolist()]
    # The first differing launch says more than its consequences.
    for mine, other in zip(trace, sorted(oracle.launches), strict=False):
        assert mine == other, "(cycle, link, vc, message, packet, flit)"
    assert len(trace) == len(oracle.launches)


def same_verdict(engine: Engine, reason: str, delivered: list[tuple[int, int]], oracle: RecordingEngine) -> None:
    times = {m.number: m.last_arrival for m in oracle.messages if m.last_arrival >= 0}
    assert sorted(delivered) == sorted(times.items())
    if reason == "until":
        return
    if reason == "idle":
        assert oracle.finished
        return
    assert reason == "deadlock"
    # Messages that start later cannot resolve it.
    for message in oracle.messages:
        if message.at >= oracle.now:
            message.at = -1
    oracle._starts.clear()
    before = len(oracle.launches)
    oracle.step_to(oracle.now + AFTER)
    assert len(oracle.launches) == before
    assert oracle.deadlocked
    stuck = sorted(oracle.waiting(), key=lambda row: (row["link"], row["vc"]))
    assert [{name: row[name] for name in stuck[0]} for row in engine.waiting()] == stuck
    assert sum(row["left"] for row in engine.waiting()) > 0


def whole_run(case: Case) -> None:
    engine, oracle = engine_of(case), oracle_of(case)
    for send in case.messages:
        assert engine.send(*send) == oracle.send(*send)
    reason, delivered = run_to(engine, FAR)
    oracle.step_to(engine.now)
    oracle.arrive()  # output queues launch in the step of the arrivals, after which the engine stops
    same_launches(engine, oracle)
    agree(engine, oracle, len(case.messages), reason)
    same_verdict(engine, reason, delivered, oracle)


def sliced_run(case: Case, slices: list[int], windows: tuple[int, ...], slack: int) -> None:
    """Messages are sent as late as their start allows, and the counts are compared at every stop.

    `windows`: those of one slice after another.
    """
    engine, oracle = engine_of(case), oracle_of(case)
    waiting = list(case.messages)
    delivered: list[tuple[int, int]] = []
    ends, window_of = iter(slices), cycle(windows)
    until = before = ended = window = 0
    while True:
        if engine.now >= until:
            until, window = min(FAR, engine.now + next(ends, FAR)), next(window_of)
            while waiting and waiting[0][7] < until:
                send = waiting.pop(0)
                assert engine.send(*send) == oracle.send(*send)
        stop = engine.run(until, slack=slack, window=window)
        assert before <= stop.cycle == engine.now <= until
        delivered += stop.delivered
        if stop.reason == "delivered":
            assert engine.now == min(until, min(cycle for _, cycle in stop.delivered) + slack)
        elif stop.reason == "window":
            assert engine.now % window == 0
            assert engine.now > ended
            ended = engine.now
        before = engine.now
        agree(engine, oracle, len(oracle.messages), stop.reason)
        if stop.reason == "deadlock" or (stop.reason == "idle" and not waiting) or engine.now >= FAR:
            break
        if stop.reason == "idle":
            until = engine.now
    same_launches(engine, oracle)
    same_verdict(engine, "until" if engine.now >= FAR else stop.reason, delivered, oracle)


def watched_run(case: Case, which: int) -> None:
    """One packet, watched."""
    engine, oracle = engine_of(case), oracle_of(case)
    for send in case.messages:
        engine.send(*send)
        oracle.send(*send)
    message = which % len(case.messages)
    packet = which % case.messages[message][4]
    engine.watch(message, packet)
    run_to(engine, FAR)
    oracle.step_to(engine.now)
    oracle.arrive()
    rows = engine.watched()
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert sorted(rows) == sorted(oracle.watched(message, packet))


@few
@given(case=cases())
def test_engine_agrees_with_the_oracle(case: Case) -> None:
    whole_run(case)


@settings(few, max_examples=part_of(60))
@given(case=cases(), which=st.integers(0, 50))
def test_watched_packets(case: Case, which: int) -> None:
    watched_run(case, which)


@few
@given(
    case=cases(),
    slices=st.lists(st.integers(1, 60), max_size=12),
    windows=st.sampled_from([(0,), (1,), (7,), (100,), (0, 7), (0, 0, 1), (100, 7)]),
    slack=st.integers(0, 9),
)
def test_engine_agrees_at_every_stop(case: Case, slices: list[int], windows: tuple[int, ...], slack: int) -> None:
    sliced_run(case, slices, windows, slack)


@settings(few, max_examples=part_of(40))
@given(case=cases(of=risky_nets(), vcs=st.integers(1, 2), limit=20))
def test_deadlocks(case: Case) -> None:
    whole_run(case)


@settings(few, max_examples=part_of(25))
@given(case=cases(of=classed_nets(), vcs=st.integers(2, 7), limit=25))
def test_vc_classes(case: Case) -> None:
    whole_run(case)


@settings(few, max_examples=part_of(30))
@given(case=cases(of=adaptive_nets(), vcs=st.integers(1, 3), limit=16, how=ranked_options))
def test_ranks(case: Case) -> None:
    whole_run(case)


@settings(few, max_examples=part_of(50))
@given(case=cases(of=adaptive_nets(), vcs=st.integers(1, 3), limit=20, how=whole_options, longest=5))
def test_room(case: Case) -> None:
    """Heads with several candidates, where packets are buffered as a whole."""
    whole_run(case)


@settings(few, max_examples=part_of(60))
@given(case=cases(of=nets(), vcs=st.integers(1, 3), limit=16, how=speculative_options, longest=3))
def test_speculation(case: Case) -> None:
    whole_run(case)


@settings(few, max_examples=part_of(100))
@given(case=cases(limit=16, how=switch_options))
def test_switch_options(case: Case) -> None:
    whole_run(case)


@settings(few, max_examples=part_of(100))
@given(case=cases(limit=20, how=slot_options))
def test_slots_of_a_vc(case: Case) -> None:
    """Limits of the slots that a VC may use; without VA, VCs in turn."""
    whole_run(case)


@settings(few, max_examples=part_of(40))
@given(case=cases(of=classed_nets(), vcs=st.integers(3, 7), limit=25, how=switch_options))
def test_shared_vc_classes(case: Case) -> None:
    whole_run(case)


@settings(few, max_examples=part_of(15))
@given(case=cases(vcs=st.sampled_from([1, 31, 63, 64, 65, 70]), limit=5))
def test_many_vcs(case: Case) -> None:
    """More VCs than a mask word has bits."""
    whole_run(case)


@pytest.mark.parametrize("nodes", [64, 70])
@pytest.mark.parametrize(
    ("stages", "how"),
    [
        (garnet(1), {}),
        (garnet(1), {"step_arbiter": True}),
        (BOOKSIM, {"va_allocator": INPUT_FIRST, "input_speedup": 2}),
        (BOOKSIM, {"va_allocator": ISLIP, "va_iterations": 2, "sa_allocator": ISLIP, "speedup": 2}),
        (BOOKSIM, {"va_allocator": WAVEFRONT, "sa_allocator": WAVEFRONT, "speculative": True}),
        (BOOKSIM, {"va_allocator": AGE, "sa_allocator": AGE}),
    ],
    ids=str,
)
def test_many_ports(nodes: int, stages: Stages, how: dict[str, Any]) -> None:
    """More ports than a mask word has bits: all send to three of them."""
    for net, last in ((hub(nodes), 0), (star(nodes), 3)):
        net.plain(style(stages, 2, vcs=2, depth=3))
        case = Case(
            net,
            options(stages, **how),
            [(n, n % 3, n % 3, 0, 1, 2, 2, n % 5, 0) for n in reversed(range(nodes)) if n > last],
        )
        whole_run(case)


@pytest.mark.skipif(build_info["kind"] == "debug", reason="the debug build looks at every cycle, also at idle ones")
@settings(few, max_examples=part_of(30))
@given(case=cases(), start=st.sampled_from([2**31 - 20, 2**33]))
def test_late_in_time(case: Case, start: int) -> None:
    """Long idle times: the engine skips them."""
    engine, oracle = engine_of(case), oracle_of(case)
    oracle.now = start
    for *what, at, klass in case.messages:
        assert engine.send(*what, start + at, klass) == oracle.send(*what, start + at, klass)
    reason, delivered = run_to(engine, start + FAR)
    agree(engine, oracle, len(case.messages), reason)
    same_launches(engine, oracle)
    same_verdict(engine, reason, delivered, oracle)


def test_deadlock_is_seen_by_both() -> None:
    net = ring(5, bidirectional=False, datelines=False).plain(style(garnet(1), 1, depth=1))
    case = Case(net, options(garnet(1)), [(n, (n + 3) % 5, (n + 3) % 5, 0, 1, 9, 9, 0) for n in range(5)])
    engine, oracle = engine_of(case), oracle_of(case)
    for send in case.messages:
        engine.send(*send)
        oracle.send(*send)
    reason, delivered = run_to(engine, FAR)
    assert (reason, delivered) == ("deadlock", [])
    agree(engine, oracle, 5, reason)
    same_launches(engine, oracle)
    same_verdict(engine, reason, delivered, oracle)


def test_windows_in_idle_time_are_passed_over() -> None:
    """Nothing is counted before cycle 8, so the end of the first window, 7, is not reported. Arrival: 8 + 2 + 2."""
    net = hub(1).plain(style(garnet(1), 1))
    engine = engine_of(Case(net, options(garnet(1)), []))
    engine.send(0, 0, 0, 0, 1, 1, 1, 8)
    stop = engine.run(FAR, window=7)
    assert (stop.reason, stop.cycle) == ("delivered", 12)


@pytest.mark.slow
@settings(many)
@given(case=cases(limit=14))
def test_engine_agrees_with_the_oracle_many(case: Case) -> None:
    whole_run(case)


@pytest.mark.slow
@settings(many)
@given(
    case=cases(limit=14),
    slices=st.lists(st.integers(1, 200), max_size=12),
    windows=st.sampled_from([(0,), (1,), (7,), (100,), (0, 7), (0, 0, 1), (100, 7)]),
    slack=st.integers(0, 30),
)
def test_engine_agrees_at_every_stop_many(case: Case, slices: list[int], windows: tuple[int, ...], slack: int) -> None:
    sliced_run(case, slices, windows, slack)


@pytest.mark.slow
@settings(many, max_examples=500)
@given(case=cases(vcs=st.integers(60, 130), limit=8))
def test_many_vcs_many(case: Case) -> None:
    whole_run(case)


@pytest.mark.slow
@settings(many, max_examples=1000)
@given(case=cases(of=classed_nets(), vcs=st.integers(2, 7), limit=30))
def test_vc_classes_many(case: Case) -> None:
    whole_run(case)


@pytest.mark.slow
@settings(many, max_examples=1000)
@given(case=cases(of=risky_nets(), vcs=st.integers(1, 2), limit=20))
def test_deadlocks_many(case: Case) -> None:
    whole_run(case)


@pytest.mark.slow
@settings(many, max_examples=2000)
@given(case=cases(of=adaptive_nets(), vcs=st.integers(1, 3), limit=20, how=ranked_options))
def test_ranks_many(case: Case) -> None:
    whole_run(case)


@pytest.mark.slow
@settings(many, max_examples=2000)
@given(case=cases(of=adaptive_nets(), vcs=st.integers(1, 3), limit=24, how=whole_options, longest=5))
def test_room_many(case: Case) -> None:
    whole_run(case)


@pytest.mark.slow
@settings(many, max_examples=2000)
@given(case=cases(of=nets(), vcs=st.integers(1, 3), limit=20, how=speculative_options, longest=3))
def test_speculation_many(case: Case) -> None:
    whole_run(case)


@pytest.mark.slow
@settings(many, max_examples=1000)
@given(case=cases(limit=14, how=speculative_options), which=st.integers(0, 50))
def test_watched_packets_many(case: Case, which: int) -> None:
    watched_run(case, which)
