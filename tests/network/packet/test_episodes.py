"""Replayed episodes against an engine that simulates every message."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.core.engine import Engine
from pyxsim.network.packet import episode_book
from pyxsim.network.packet.episode_book import EpisodeBook
from pyxsim.network.packet.episodes import EpisodeEngine
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.network.packet.split_engine import Part
from pyxsim.network.windows import WindowRecorder
from tests.examples import part_of
from tests.network.machines import packet_network

FOREVER = 1 << 60
Sent = tuple[int, int, int, int]  # cycles since the last arrival or message, source, destination, bytes


def ring(**options: Any) -> PacketNetwork:
    return packet_network("ring", (3,), latency=7, s=Fraction(5, 3), **options)


def row(network: PacketNetwork, src: int, dst: int, size: int, at: int) -> list[np.ndarray[Any, Any]]:
    """The arguments of `Engine.send_many`."""
    plane = 0 if (dst - src) % 3 == 1 else 1
    (inject,), (eject,) = network.lanes_of(*(np.array([each]) for each in (src, dst, plane)))
    return [np.array([each]) for each in (inject, eject, dst, plane, *network.cut(size), at, 0, 0)]


class Driven:
    """A part with a plain engine, or with one that replays."""

    def __init__(self, network: PacketNetwork, window: int, book: EpisodeBook | None) -> None:
        links = network.topology.counted_links
        windows = WindowRecorder(window, links)
        engine: Any = network._make_engine()
        if book is not None:
            engine = EpisodeEngine(engine, book, windows)
        self.part = Part(engine, windows, np.arange(links), Fraction(1), 0, 0)
        self.network, self.arrived, self.count = network, [], 0

    def to(self, cycle: int, slack: int = FOREVER) -> None:
        messages, cycles = self.part.run(cycle, slack)
        self.arrived += zip(cycles.tolist(), messages.tolist(), strict=True)

    def send(self, at: int, src: int, dst: int, size: int) -> None:
        self.part.send(np.array([self.count]), row(self.network, src, dst, size, at))
        self.count += 1

    def outcome(self) -> dict[str, Any]:
        self.to(FOREVER)
        engine, windows = self.part.engine, self.part.windows
        windows.close(engine.now)
        table = windows.table()
        return {
            "arrived": self.arrived,
            "now": engine.now,
            "counters": {name: values.tolist() for name, values in engine.counters().items()},
            "windows": (table.length, {name: values.tolist() for name, values in table.counts.items()}),
            "totals": engine.totals(),
            "peaks": engine.buffer_max().tolist(),
        }


def drive(network: PacketNetwork, sent: list[Sent], window: int, book: EpisodeBook | None, *, again: int = 0) -> Driven:
    """Send each message so many cycles after the one before; every `again`-th time with a copy, or a pickle."""
    driven, at = Driven(network, window, book), 0
    for number, (late, src, way, size) in enumerate(sent):
        at += late
        driven.to(at)
        driven.send(at, src, (src + way) % 3, size)
        if again and number % again == 0:
            driven.part = copy.deepcopy(driven.part) if number % 2 else pickle.loads(pickle.dumps(driven.part))
    return driven


messages = st.tuples(
    st.sampled_from([0, 1, 9, 30, 300, 300, 1000]), st.integers(0, 2), st.integers(1, 2), st.sampled_from([40, 900])
)


@settings(max_examples=part_of(300, usual=30), deadline=None)
@given(st.lists(messages, min_size=1, max_size=4), st.integers(1, 6), st.sampled_from([50, 10_000, 10**9]))
def test_replays_change_nothing(sent: list[Sent], times: int, window: int) -> None:
    """The same few messages again and again, at intervals in which some end and some meet."""
    network = ring()
    book = EpisodeBook()
    expected = drive(network, sent * times, window, None).outcome()
    assert drive(network, sent * times, window, book).outcome() == expected
    assert drive(network, sent * times, window, book).outcome() == expected  # with the episodes of the first
    assert drive(network, sent * times, window, EpisodeBook(), again=2).outcome() == expected


def test_an_episode_is_simulated_once() -> None:
    network, book = ring(), EpisodeBook()
    sent = [(3000, 0, 1, 900)] * 50
    driven = drive(network, sent, 10**9, book)
    plain = drive(network, sent, 10**9, None)
    assert driven.outcome() == plain.outcome()
    assert len(book.episodes) <= 8  # until the pointers of the arbiters are again where they were
    assert driven.part.engine.replayed_visits > 0.8 * plain.part.engine.router_visits  # type: ignore[attr-defined]


def test_a_congruent_engine_uses_the_episodes_of_another() -> None:
    network, book = ring(), EpisodeBook()
    drive(network, [(100, 0, 1, 900)], 10**9, book).outcome()
    known = len(book.episodes)
    other = drive(network, [(777, 0, 1, 900)], 10**9, book)
    expected = drive(network, [(777, 0, 1, 900)], 10**9, None).outcome()
    assert (other.outcome(), len(book.episodes)) == (expected, known)


def test_messages_at_once_and_later() -> None:
    """A message may follow in the cycle of the last arrival, while credits are under way, or much later."""
    network, book = packet_network("mesh", (3,), latency=7), EpisodeBook()
    outcomes = []
    for known in (None, book, book):
        driven, at = Driven(network, 10**9, known), 0
        for number in range(60):
            driven.send(at, 0, 1, 40)
            driven.to(FOREVER, slack=0)
            at = driven.arrived[-1][0] + (0, 5, 500)[number % 3]
            assert len(driven.arrived) == number + 1
        outcomes.append(driven.outcome())
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert {gap for _, gap, _ in book.episodes} >= {0, 5}


def test_with_few_known_states_the_rest_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episode_book, "MOST_STATES", 1)
    network, book = ring(), EpisodeBook()
    sent = [(3000, 0, 1, 900), (3000, 1, 1, 40)] * 10
    expected = drive(network, sent, 10**9, None).outcome()
    assert drive(network, sent, 10**9, book).outcome() == expected
    assert len(book.states) == 1


def at_rest(network: PacketNetwork, at: int) -> Engine:
    engine = network._make_engine()
    engine.send_many(*row(network, 0, 1, 900, at))
    while engine.run(FOREVER, repeats_until=FOREVER).reason != "idle":
        pass
    return engine


@pytest.mark.parametrize("by", [-900, -1, 0, 1, 12345])
def test_a_state_moves_in_time(by: int) -> None:
    network = ring()
    engine, other = at_rest(network, 1000), at_rest(network, 1000)
    before, state = engine.counters(), engine.deciding_state()
    engine.shift_time(by)
    assert engine.now == other.now + by
    assert engine.deciding_state() == state == at_rest(network, 5000).deciding_state()
    assert {name: values.tolist() for name, values in engine.counters().items()} == {
        name: values.tolist() for name, values in before.items()
    }
    arrivals = []
    for each in (engine, other):
        each.send_many(*row(network, 0, 2, 900, each.now + 5))
        start = each.now
        arrivals.append(each.run(FOREVER).cycles - start)
    assert arrivals[0] == arrivals[1]


def test_messages_under_way_have_no_state_at_rest() -> None:
    network = ring()
    engine = network._make_engine()
    engine.send_many(*row(network, 0, 1, 900, 0))
    assert engine.deciding_state() is None
    with pytest.raises(ValueError, match="messages are under way"):
        engine.shift_time(1)
