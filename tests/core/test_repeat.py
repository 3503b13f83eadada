"""Fast-forward of the engine: with whole periods skipped, everything is as in the run that simulates every cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine, build_info
from pyxsim.core.records import COUNTERS
from tests.oracle.cases import (
    Case,
    adaptive_nets,
    cases,
    classed_nets,
    ranked_options,
    risky_nets,
    speculative_options,
    whole_options,
)
from tests.oracle.networks import BOOKSIM, options, ring, style

DEBUG = build_info["kind"] == "debug"  # proves every cycle, which takes its time
FAR = 1000 if DEBUG else 60_000
every_case = st.one_of(
    cases(limit=4),
    cases(of=classed_nets(), limit=4, how=ranked_options),
    cases(of=adaptive_nets(), limit=3),
    cases(of=risky_nets(), limit=6),
    cases(limit=4, how=speculative_options),
    cases(limit=4, how=whole_options),
)
EVERYWHERE = [HealthCheck.too_slow, HealthCheck.data_too_large]
few = settings(max_examples=10 if DEBUG else 60, suppress_health_check=EVERYWHERE)
many = settings(max_examples=10 if DEBUG else 400, suppress_health_check=EVERYWHERE)


def engine_of(case: Case, longer: int, attribution: int = 0) -> Engine:
    """Messages of many packets: short ones are over before anything repeats. Three traffics."""
    engine = Engine(case.net.routers, case.net.links(), case.net.routes(), case.options, attribution=attribution)
    for i, (inject, eject, dst, plane, packets, flits, last, at, klass) in enumerate(case.messages):
        engine.send(inject, eject, dst, plane, packets * longer, flits, last, at, klass, i % 3)
    return engine


def run(
    engine: Engine, until: int, window: int, *, skip: bool, links: int = 0, portion: int = 1 << 40
) -> tuple[str, list[Any], dict[int, Any]]:
    """Why it stopped, what was delivered when, and what was counted on network links up to the end of each window.

    `links`: how many there are; `portion`: the most periods that are skipped at once.
    """
    delivered: list[Any] = []
    windows = {}
    while True:
        stop = engine.run(until, window=window, repeats_until=until if skip else 0)
        delivered += stop.delivered
        if stop.reason == "window":
            windows[engine.now] = [values[:links] for values in engine.counters().values()]
        elif stop.reason == "repeats":
            windows.update(skipped(engine, window, links, portion))
        elif stop.reason != "delivered" or engine.now >= until:
            return stop.reason, delivered, windows


def skipped(engine: Engine, window: int, links: int, portion: int) -> dict[int, Any]:
    """Skip; what the totals were at the ends of windows meanwhile."""
    period, times = engine.periods()
    times = min(times, portion + 1)
    begin = engine.now
    cuts = np.arange(begin // window + 1, (begin + times * period) // window + 1) * window
    rests = np.unique(np.append(0, (cuts - begin) % period))
    samples = engine.sample(begin + rests, links)
    at = dict(zip(rests.tolist(), samples, strict=False))
    engine.skip(times - (engine.now - begin) // period)
    engine.check()
    return {
        cut: list(at[(cut - begin) % period] + (cut - begin) // period * (samples[-1] - samples[0]))
        for cut in cuts.tolist()
    }


def everything(engine: Engine, messages: int, attribution: int) -> dict[str, Any]:
    books = {"splits": engine.splits().tolist(), "waits": _lists(engine.waits())} if attribution else {}
    return {
        **books,
        "now": engine.now,
        "counters": {name: values.tolist() for name, values in engine.counters().items()},
        "buffer_max": engine.buffer_max().tolist(),
        "messages": [engine.message_times(m) for m in range(messages)],
        "totals": engine.totals(),
        "inside": engine.flits_in_flight,
        "waiting": engine.waiting(),
    }


def _lists(columns: dict[str, Any]) -> dict[str, list[int]]:
    return {name: values.tolist() for name, values in columns.items()}


def compare(case: Case, longer: int, window: int, portion: int, halfway: int, attribution: int) -> int:
    """Both ways to a cycle of which somebody wants to know, and on to the end. Returns the cycles skipped."""
    fast, slow = engine_of(case, longer, attribution), engine_of(case, longer, attribution)
    links = len(case.net.wires)
    for until in (halfway, FAR):
        reason, delivered, windows = run(fast, until, window, skip=True, links=links, portion=portion)
        wanted, expected, ends = run(slow, until, window, skip=False, links=links)
        assert (reason, delivered) == (wanted, expected)
        assert everything(fast, len(case.messages), attribution) == everything(slow, len(case.messages), attribution)
        # Where nothing was counted before the end of a window, nobody stops there.
        for end in ends:
            assert np.array_equal(windows[end], ends[end])
    assert slow.skipped == 0
    return fast.skipped


def as_without(example: settings, tries: Any, attribution: int) -> int:
    """Random cases, compared; returns the cycles skipped in all of them."""
    total = 0

    @example
    @given(
        case=tries,
        longer=st.sampled_from([200, 1000]),
        window=st.one_of(st.integers(1, 40), st.integers(41, 5000)),
        portion=st.sampled_from([1, 2, 1 << 40]),
        halfway=st.integers(0, FAR),
    )
    def each(case: Case, longer: int, window: int, portion: int, halfway: int) -> None:
        nonlocal total
        total += compare(case, longer, window, portion, halfway, attribution)

    each()
    return total


@pytest.mark.parametrize("attribution", [0, 1])
def test_a_run_with_skips_is_the_run_without(attribution: int) -> None:
    assert as_without(few, every_case, attribution) > 0 or DEBUG


@pytest.mark.slow
@pytest.mark.parametrize("attribution", [0, 1])
def test_many_runs_with_skips_are_those_without(attribution: int) -> None:
    assert as_without(many, every_case, attribution) > FAR or DEBUG


def engine_of_ring(**how: Any) -> Engine:
    net = ring(4)
    lanes = [(n, style(BOOKSIM, 1)) for n in range(4)]
    net.dress(lambda _: style(BOOKSIM, 3), lanes, lanes)
    return Engine(net.routers, net.links(), net.routes(), options(BOOKSIM), **how)


def ring_of(packets: int) -> Engine:
    """Four NPUs, each of which sends a long message to the next one."""
    engine = engine_of_ring()
    for n in range(4):
        engine.send(n, (n + 1) % 4, (n + 1) % 4, 0, packets, 5, 3, 0)
    return engine


def test_a_long_message_takes_hardly_longer_than_a_short_one() -> None:
    """A million packets of 5 flits, a flit per cycle: 5 million cycles, of which some hundred are simulated."""
    engine = ring_of(10**6)
    reason, delivered, _ = run(engine, 1 << 40, 1 << 40, skip=True)
    assert reason == "idle"
    assert len(delivered) == 4
    assert engine.totals()["flits"] == 4 * (5 * 10**6 - 2)
    assert engine.now - engine.skipped < 2000


def test_a_period_may_be_simulated_instead() -> None:
    engine, other = ring_of(10_000), ring_of(10_000)
    assert engine.run(1 << 40, repeats_until=1 << 40).reason == "repeats"
    begin, (period, times) = engine.now, engine.periods()
    samples = engine.sample([begin, begin + 1], 4)
    assert engine.now == begin + period
    assert engine.skipped == 0
    assert engine.periods() == (period, times - 1)
    for cycle, rows in zip((begin, begin + 1, begin + period), samples, strict=True):
        other.run(cycle, window=cycle)
        assert np.array_equal(rows, [other.counters()[name][:4] for name in COUNTERS])


def test_no_more_than_is_proved_can_be_skipped() -> None:
    engine = ring_of(1000)
    assert engine.periods() == (0, 0)
    engine.run(1 << 40, repeats_until=1 << 40)
    _, times = engine.periods()
    with pytest.raises(ValueError, match="cannot be skipped"):
        engine.skip(times + 1)
    engine.run(engine.now + 1)
    with pytest.raises(ValueError, match="cannot be skipped"):
        engine.skip(1)


def test_nothing_is_skipped_beyond_the_cycle_that_somebody_asks_for() -> None:
    engine = ring_of(10_000)
    assert engine.run(20_000, repeats_until=5_000).reason == "repeats"
    period, times = engine.periods()
    assert 5_000 - period < engine.now + times * period <= 5_000
    engine.skip(times)
    assert engine.run(20_000, repeats_until=5_000).reason == "until"


def test_a_message_to_come_is_not_skipped() -> None:
    engine = ring_of(10_000)
    engine.send(0, 1, 1, 0, 1, 1, 1, 9_000)
    engine.run(1 << 40, repeats_until=1 << 40)
    period, times = engine.periods()
    assert 9_000 - period < engine.now + times * period <= 9_000


@pytest.mark.parametrize("how", [{"trace": True}, {"attribution": 2}])
def test_who_wants_every_step_is_told_every_step(how: dict[str, Any]) -> None:
    engine = engine_of_ring(**how)
    engine.send(0, 1, 1, 0, 1000, 5, 5, 0)
    assert run(engine, 1 << 40, 1 << 40, skip=True)[0] == "idle"
    assert engine.skipped == 0
