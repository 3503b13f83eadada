"""Lanes in batches equal the reference flit for flit, and lanes visited one by one.

As in test_batches.py runs must not be observed, so all counts are compared, at stops that cut packets; and the deciding
state of a lane with an engine without batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from pyxsim.core.engine_options import RouterOptions
from tests.core.test_invariants import engine_of, run
from tests.core.test_oracle import counts
from tests.examples import part_of
from tests.reference.cases import Case, Send
from tests.reference.networks import BOOKSIM, Net, Style, crowd, grid, hub, line, options, ring, star
from tests.reference.recording import RecordingEngine

FAR = 20_000
OF_LANES = ("open_pointer", "class_pointer", "open_count", "opened", "unheld", "link.launch_pointer", "link.free")
OF_VCS = ("out.credit", "out.send_left")


@dataclass
class Cut:
    """Run for `cycles` cycles; then with a watched packet, or without."""

    cycles: int
    watch: bool


nets = st.one_of(
    st.builds(hub, st.integers(1, 4)),
    st.builds(line, st.integers(2, 4)),
    st.builds(ring, st.integers(3, 5), datelines=st.booleans()),
    st.builds(star, st.integers(2, 4)),
    st.builds(lambda: crowd(line(2), 2)),
)
rates = st.sampled_from([Fraction(1), Fraction(1), Fraction(2), Fraction(5, 4), Fraction(64, 25), Fraction(9)])
wires = st.builds(Style, vcs=st.integers(1, 3), depth=st.integers(1, 6), delay=st.integers(1, 3), s=rates)
# Buffers and credit delays that let credits run out.
lanes = st.builds(
    Style,
    vcs=st.integers(1, 5),
    depth=st.integers(1, 5),
    delay=st.integers(1, 9),
    credit_delay=st.integers(2, 20),
    s=rates,
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    net = draw(nets)
    net.vnets = draw(st.sampled_from([1, 1, 2, 3]))
    nodes = range(len(net.homes))
    entries = [(n, style) for n in nodes for style in draw(st.lists(lanes, min_size=1, max_size=3))]
    wire, exit_ = draw(wires), draw(wires)
    net.dress(lambda _: wire, entries, [(n, exit_) for n in nodes])
    how = RouterOptions(
        rc=draw(st.integers(0, 1)),
        va=1,
        vnets=net.vnets,
        class_vnet=(draw(st.integers(0, net.vnets - 1)),),
        interleaved=draw(st.booleans()),
    )
    return Case(net, how, draw(messages(net)))


@st.composite
def messages(draw: st.DrawFn, net: Net) -> list[Send]:
    """Often several messages at once at one lane; packets of one flit, or with a shorter last one."""
    longest = draw(st.sampled_from([1, 2, 5, 9]))
    used = st.sampled_from(draw(st.lists(st.integers(0, len(net.injection) - 1), min_size=1, max_size=4)))
    starts = draw(st.sampled_from([st.just(0), st.integers(0, 40)]))
    sends: list[Send] = []
    for _ in range(draw(st.integers(1, 14))):
        exit_ = draw(st.integers(0, len(net.ejection) - 1))
        flits = draw(st.integers(1, longest))
        packets, last = draw(st.integers(1, 5)), draw(st.integers(1, flits))
        sends.append((draw(used), exit_, net.ejection[exit_][0], 0, packets, flits, last, draw(starts), 0))
    return sorted(sends, key=lambda send: send[7])


def of_lanes(engine: Engine) -> dict[str, Any]:
    state = engine.state(True)
    return {name: state[name].tolist() for name in (*OF_LANES, *OF_VCS)}


@settings(max_examples=part_of(120), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(case=cases(), cuts=st.lists(st.builds(Cut, st.integers(1, 30), st.booleans()), max_size=8))
def test_stages_are_the_oracle_and_the_lanes_one_by_one(case: Case, cuts: list[Cut]) -> None:
    engine, other = engine_of(case, trace=False), engine_of(case, trace=False, bitmask=False)
    oracle = RecordingEngine(case.net.routers, case.net.links(), case.net.routes(), case.options)
    for send in case.messages:
        oracle.send(*send)
    for cut in [*cuts, Cut(FAR, False)]:
        until = engine.now + cut.cycles
        assert run(engine, until) == run(other, until)
        oracle.step_to(engine.now)
        oracle.arrive()
        engine.check()
        assert counts(engine, len(case.messages)) == counts(oracle, len(case.messages))
        assert of_lanes(engine) == of_lanes(other)
        engine.watch(0 if cut.watch else -1, 0)  # with a watched packet, lanes are visited one by one
        if engine.now < until:  # deadlock, or nothing left
            break


def crowded(flits: int, s: Fraction, *, interleaved: bool) -> tuple[Case, int]:
    """More active lanes than a batch has."""
    net = grid([9, 9], wrap=[False, False])
    wide, narrow = Style(4, 8, s=s), Style(2, 3, credit_delay=6, s=s)
    nodes = len(net.homes)
    net.dress(lambda _: wide, [(n, narrow) for n in range(nodes) for _ in range(9)], [(n, wide) for n in range(nodes)])
    rng = np.random.default_rng(flits)
    count = 3000
    lane, goal = rng.permutation(np.arange(count) % len(net.injection)), rng.integers(0, nodes, count)
    at = np.sort(rng.integers(0, 30, count))
    rows = zip(lane.tolist(), goal.tolist(), at.tolist(), strict=True)
    sends: list[Send] = [(a, b, net.ejection[b][0], 0, 1 + a % 2, flits, flits, t, 0) for a, b, t in rows]
    return Case(net, options(BOOKSIM, interleaved=interleaved), sends), count


@pytest.mark.parametrize("s", [Fraction(1), Fraction(64, 25)])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("flits", [1, 5])
def test_more_lanes_than_a_batch_has(flits: int, interleaved: bool, s: Fraction) -> None:
    case, count = crowded(flits, s, interleaved=interleaved)
    engine, other = engine_of(case, trace=False), engine_of(case, trace=False, bitmask=False)
    for until in (1, 2, 50, 51, 52, 333, FAR):
        assert run(engine, until) == run(other, until)
        assert counts(engine, count) == counts(other, count)
        assert of_lanes(engine) == of_lanes(other)
    engine.check()
    assert engine.totals()["messages_delivered"] == count


@pytest.mark.parametrize("s", [Fraction(1), Fraction(64, 25)])
@pytest.mark.parametrize("flits", [1, 5])
def test_in_parts(flits: int, s: Fraction) -> None:
    case, count = crowded(flits, s, interleaved=False)
    engine, other = engine_of(case, trace=False), engine_of(case, trace=False, bitmask=False)
    engine.divide(np.arange(81) // 41)
    for until in (50, 333, FAR):
        assert run(engine, until, apart=True) == run(other, until)
        assert counts(engine, count) == counts(other, count)
        assert of_lanes(engine) == of_lanes(other)


def test_a_lane_with_nothing_to_do_is_not_looked_at() -> None:
    """A launched tail and returning credits do not wake a lane; the first credit after none does."""
    net = line(2).plain(Style(2, 8), Style(1, 2, delay=3, credit_delay=9))
    case = Case(net, options(), [(0, 1, 1, 0, 1, 5, 5, 0, 0)])
    engine = engine_of(case, trace=False)
    awake = []
    while engine.totals()["messages_delivered"] == 0:
        run(engine, engine.now + 1)
        awake.append(bool(engine.state()["lane_active"][0] & 1))
    # Two flits, a cycle without a credit, and so on; asleep as soon as the tail is in flight.
    oracle = RecordingEngine(case.net.routers, case.net.links(), case.net.routes(), case.options)
    oracle.send(*case.messages[0])
    oracle.step_to(engine.now)
    launched = [cycle for cycle, link, *_ in oracle.launches if link == 2]
    assert len(launched) == 5
    assert not any(awake[max(launched) + 1 :])
    assert sum(awake) <= len(launched) + 3
