"""Fast-forward of the engine: skipping whole periods gives the results of simulating every cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine, build_info
from pyxsim.core.state.record_dtypes import COUNTERS
from tests.examples import part_of
from tests.reference.cases import (
    Case,
    adaptive_nets,
    cases,
    classed_nets,
    ranked_options,
    risky_nets,
    speculative_options,
    whole_options,
)
from tests.reference.networks import BOOKSIM, options, ring, style

DEBUG = build_info["kind"] == "debug"  # checks every cycle, which takes time
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
few = settings(max_examples=10 if DEBUG else part_of(80), suppress_health_check=EVERYWHERE, derandomize=True)
many = settings(max_examples=10 if DEBUG else 400, suppress_health_check=EVERYWHERE)


def engine_of(case: Case, longer: int, attribution: int = 0, steps: int = 1) -> Engine:
    """Messages of many packets, as short ones end before anything repeats. Three traffics, each followed by similar
    ones with a few packets more."""
    engine = Engine(case.net.routers, case.net.links(), case.net.routes(), case.options, attribution=attribution)
    for step in range(steps):
        for i, (inject, eject, dst, plane, packets, flits, last, at, klass) in enumerate(case.messages):
            more = packets * longer + 7 * step
            engine.send(inject, eject, dst, plane, more, flits, last, at + step * FAR // 4, klass, i % 3)
    return engine


def run(
    engine: Engine, until: int, window: int, *, skip: bool, links: int = 0, portion: int = 1 << 40
) -> tuple[str, list[Any], dict[int, Any]]:
    """Why it stopped, the deliveries, and the counts of network links at the end of each window.

    `links`: their number; `portion`: the most cycles per call of `totals_ahead`.
    """
    delivered: list[Any] = []
    windows = {}
    while True:
        far = min(until, engine.now + portion) if skip else 0
        stop = engine.run(min(until, engine.now + portion), window=window, repeats_until=far)
        delivered += stop.delivered
        if stop.reason == "window":
            windows[engine.now] = [values[:links] for values in engine.counters().values()]
        elif stop.reason == "repeats":
            windows.update(skipped(engine, window, links))
        elif stop.reason not in ("delivered", "until") or engine.now >= until:
            return stop.reason, delivered, windows


def skipped(engine: Engine, window: int, links: int) -> dict[int, Any]:
    """Skip; return the totals at the ends of windows in the jump."""
    begin, end = engine.now, engine.ahead
    assert end > begin
    cuts = np.arange(begin // window + 1, end // window + 1) * window
    totals = engine.totals_ahead(cuts, links)
    engine.skip()
    engine.check()
    assert engine.now == end
    return {cut: list(rows) for cut, rows in zip(cuts.tolist(), totals, strict=True)}


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


def compare(case: Case, longer: int, window: int, portion: int, halfway: int, attribution: int, steps: int) -> int:
    """Run both ways to a given cycle, and on to the end. Return the skipped cycles."""
    fast, slow = (engine_of(case, longer, attribution, steps) for _ in range(2))
    links, messages = len(case.net.wires), steps * len(case.messages)
    for until in (halfway, FAR):
        reason, delivered, windows = run(fast, until, window, skip=True, links=links, portion=portion)
        wanted, expected, ends = run(slow, until, window, skip=False, links=links)
        assert (reason, delivered) == (wanted, expected)
        assert everything(fast, messages, attribution) == everything(slow, messages, attribution)
        # A window without counts does not stop the run.
        for end in ends:
            assert np.array_equal(windows[end], ends[end])
    assert slow.skipped == 0
    return fast.skipped


def as_without(example: settings, tries: Any, attribution: int) -> int:
    """Compare random cases; return the cycles skipped in all of them."""
    total = 0

    @example
    @given(
        case=tries,
        longer=st.sampled_from([200, 1000]),
        window=st.one_of(st.integers(1, 40), st.integers(41, 5000)),
        portion=st.sampled_from([333, 2000, 1 << 40, 1 << 40]),
        halfway=st.integers(0, FAR),
        steps=st.sampled_from([1, 1, 2, 3]),
    )
    def each(case: Case, longer: int, window: int, portion: int, halfway: int, steps: int) -> None:
        nonlocal total
        total += compare(case, longer, window, portion, halfway, attribution, steps)

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
    """A million packets of 5 flits, one flit per cycle: 5 million cycles, of which some hundred are simulated."""
    engine = ring_of(10**6)
    reason, delivered, _ = run(engine, 1 << 40, 1 << 40, skip=True)
    assert reason == "idle"
    assert len(delivered) == 4
    assert engine.totals()["flits"] == 4 * (5 * 10**6 - 2)
    assert engine.now - engine.skipped < 2000


def test_what_is_counted_on_the_way_is_known_before() -> None:
    engine, other = ring_of(10_000), ring_of(10_000)
    assert engine.run(1 << 40, window=1000, repeats_until=1 << 40).reason != "idle"
    while engine.ahead == engine.now:
        engine.run(1 << 40, window=1000, repeats_until=1 << 40)
    cycles = [engine.now, engine.now + 1, engine.now + 4321, engine.ahead]
    for cycle, rows in zip(cycles, engine.totals_ahead(cycles, 4), strict=True):
        while other.now < cycle:
            other.run(cycle)
        assert np.array_equal(rows, [other.counters()[name][:4] for name in COUNTERS])
    with pytest.raises(ValueError, match="no jump covers"):
        engine.totals_ahead([engine.ahead + 1], 4)


def test_only_what_is_proved_can_be_skipped() -> None:
    engine = ring_of(1000)
    with pytest.raises(ValueError, match="no cycles can be skipped"):
        engine.skip()
    engine.run(1 << 40, repeats_until=1 << 40)
    assert engine.ahead > engine.now
    engine.run(engine.now + 1)
    assert engine.ahead == engine.now
    with pytest.raises(ValueError, match="no cycles can be skipped"):
        engine.skip()


def test_nothing_is_skipped_beyond_the_cycle_that_somebody_asks_for() -> None:
    engine = ring_of(10_000)
    assert engine.run(20_000, repeats_until=5_000).reason == "repeats"
    assert 4_000 < engine.ahead <= 5_000
    engine.skip()
    while engine.run(20_000, repeats_until=5_000).reason == "repeats":
        assert engine.ahead <= 5_000
        engine.skip()
    assert engine.now == 20_000


def test_a_message_to_come_is_not_skipped() -> None:
    engine = ring_of(10_000)
    engine.send(0, 1, 1, 0, 1, 1, 1, 9_000)
    engine.run(1 << 40, repeats_until=1 << 40)
    assert 8_000 < engine.ahead <= 9_000


def step_of(engine: Engine, packets: int, at: int) -> None:
    for n in range(4):
        engine.send(n, (n + 1) % 4, (n + 1) % 4, 0, packets, 5, 3, at)


def test_a_step_like_an_earlier_one_is_known_at_once() -> None:
    """Three steps of a ring with messages of their own: the later ones reach the known period of the first."""
    simulated, delivered = [], []
    engine, other = engine_of_ring(), engine_of_ring()
    for _ in range(3):
        before = engine.now - engine.skipped
        for each, skip in ((engine, True), (other, False)):
            step_of(each, 5000, each.now + 10)
            delivered.append(run(each, 1 << 40, 1 << 40, skip=skip, links=4)[1])
        assert delivered[-2] == delivered[-1]
        assert everything(engine, 4, 0) == everything(other, 4, 0)
        simulated.append(engine.now - engine.skipped - before)
    assert simulated[1] < 600
    assert simulated[2] < 600


@pytest.mark.parametrize("how", [{"trace": True}, {"attribution": 2}])
def test_who_wants_every_step_is_told_every_step(how: dict[str, Any]) -> None:
    engine = engine_of_ring(**how)
    engine.send(0, 1, 1, 0, 1000, 5, 5, 0)
    assert run(engine, 1 << 40, 1 << 40, skip=True)[0] == "idle"
    assert engine.skipped == 0
