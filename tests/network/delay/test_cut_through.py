"""Messages that queue for links and are cut through, against a slow model that follows every byte, in fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.network.delay.cut_through import CutThrough
from pyxsim.network.delay.ticks import Ticks
from tests.examples import part_of

FOREVER = 2**62
FLIT = 10
Send = tuple[int, int, int]  # cycle, route, bytes


@dataclass(frozen=True)
class Net:
    """Links as (bytes per cycle, latency), and routes over them."""

    links: list[tuple[Fraction, Fraction]]
    routes: list[list[int]]

    def engine(self, **options: Any) -> CutThrough:
        made = CutThrough(Ticks(*zip(*self.links, strict=True)), FLIT, **options)
        made.extend(np.array([len(route) for route in self.routes]), np.concatenate(self.routes))
        return made


def drain(net: CutThrough, slack: int = 0) -> list[tuple[int, int]]:
    found = []
    while len((arrived := net.advance(FOREVER, slack))[0]):
        found += zip(arrived[1].tolist(), arrived[0].tolist(), strict=True)
    return found


# -- the slow model ----------------------------------------------------------------------------------------------------


@dataclass
class Moving:
    """A message: where it is, and when each of its bytes has come there. Byte 0 is its head."""

    number: int
    route: list[int]
    here: list[Fraction]
    left: list[int] = field(default_factory=list)  # the links it has taken


@dataclass
class Slow:
    """Every cycle, every message in turn: who has its head at a link takes it behind those who took it before."""

    net: Net
    whole: bool
    taken: dict[int, Fraction] = field(default_factory=dict)
    begun: list[tuple[Fraction, int, int]] = field(default_factory=list)  # when, which link, how many flits
    waits: set[tuple[int, int]] = field(default_factory=set)  # cycles in which somebody waited for a link

    def run(self, sends: Sequence[Send]) -> list[tuple[int, int]]:
        """(cycle, message) of all arrivals, in order."""
        moving = [
            Moving(number, list(self.net.routes[route]), [Fraction(at)] * (size + 1))
            for number, (at, route, size) in enumerate(sends)
        ]
        found, cycle = [], 0
        while moving:
            for message in moving:
                while message.route and floor(message.here[-1 if self.whole else 0]) == cycle:
                    self._cross(message)
            arrived = [each for each in moving if not each.route and floor(each.here[-1]) == cycle]
            found += [(cycle, message.number) for message in arrived]
            moving = [message for message in moving if message not in arrived]
            cycle += 1
        return found

    def _cross(self, message: Moving) -> None:
        link = message.route.pop(0)
        rate, latency = self.net.links[link]
        came = [message.here[-1]] * len(message.here) if self.whole else message.here
        gone = [max(came[0], self.taken.get(link, Fraction(0)))]
        for byte in came[1:]:
            gone.append(max(byte, gone[-1] + 1 / rate))
        self.waits |= {(cycle, link) for cycle in range(floor(came[0]), floor(gone[0]))}
        self.begun.append((gone[0], link, -(-(len(gone) - 1) // FLIT)))
        self.taken[link] = gone[-1]
        message.here = [byte + latency for byte in gone]


# -- against it --------------------------------------------------------------------------------------------------------

RATES = st.builds(Fraction, st.integers(1, 9), st.integers(1, 5))
LATENCIES = st.one_of(st.just(Fraction(0)), st.builds(Fraction, st.integers(0, 30), st.integers(1, 7)))


@st.composite
def nets(draw: st.DrawFn) -> Net:
    links = draw(st.lists(st.tuples(RATES, LATENCIES), min_size=1, max_size=5))
    route = st.permutations(range(len(links))).flatmap(
        lambda order: st.integers(1, len(order)).map(lambda length: list(order[:length]))
    )
    return Net(links, draw(st.lists(route, min_size=1, max_size=5)))


@st.composite
def loads(draw: st.DrawFn) -> tuple[Net, list[Send]]:
    net = draw(nets())
    send = st.tuples(st.integers(0, 12), st.integers(0, len(net.routes) - 1), st.integers(1, 25))
    return net, sorted(draw(st.lists(send, max_size=25)), key=lambda send: send[0])


@given(load=loads(), whole=st.booleans(), slack=st.integers(0, 20))
@settings(max_examples=part_of(200), deadline=None)
def test_as_the_slow_model(load: tuple[Net, list[Send]], whole: bool, slack: int) -> None:
    check(*load, whole=whole, slack=slack)


@pytest.mark.slow
@given(load=loads(), whole=st.booleans(), slack=st.integers(0, 20))
@settings(max_examples=5000, deadline=None)
def test_many_more(load: tuple[Net, list[Send]], whole: bool, slack: int) -> None:
    check(*load, whole=whole, slack=slack)


def check(net: Net, sends: list[Send], *, whole: bool, slack: int) -> None:
    """All sent beforehand, and windows of cycles."""
    slow = Slow(net, whole)
    expected = slow.run(sends)
    engine = net.engine(whole=whole, window=3, rows=6)
    for at, route, size in sends:
        engine.send(np.array([route]), np.array([size]), at)
    assert drain(engine, slack) == expected
    assert engine.delivered == engine.sent == len(sends)
    assert engine.bytes_delivered == sum(size for _, _, size in sends)
    assert engine.flits_sent == sum(-(-size // FLIT) for _, _, size in sends)
    flits, waits = np.zeros_like(engine.windows)
    for when, link, count in slow.begun:
        flits[floor(when) // engine.window, link] += count
    for cycle, link in slow.waits:
        waits[cycle // engine.window, link] += 1
    assert [table.tolist() for table in engine.windows] == [flits.tolist(), waits.tolist()]
    assert engine.flits.tolist() == flits.sum(axis=0).tolist()


@given(load=loads(), whole=st.booleans())
@settings(max_examples=part_of(100), deadline=None)
def test_sent_as_time_passes(load: tuple[Net, list[Send]], whole: bool) -> None:
    """Who sends in its cycle what was foreseen before is in the same order."""
    net, sends = load
    engine, found = net.engine(whole=whole), []
    for at, route, size in sends:
        while len((arrived := engine.advance(at, 0))[0]):
            found += zip(arrived[1].tolist(), arrived[0].tolist(), strict=True)
        engine.wait(at)
        engine.send(np.array([route]), np.array([size]), at)
    assert found + drain(engine) == Slow(net, whole).run(sends)


@given(net=nets(), size=st.integers(1, 2**50), at=st.integers(0, 2**40))
def test_alone_a_message_takes_all_latencies_and_the_narrowest_link(net: Net, size: int, at: int) -> None:
    for number, route in enumerate(net.routes):
        engine = net.engine()
        engine.wait(at)
        engine.send(np.array([number]), np.array([size]), at)
        late, narrow = sum(net.links[link][1] for link in route), min(net.links[link][0] for link in route)
        assert drain(engine) == [(at + floor(late + size / narrow), 0)]


# -- by hand -----------------------------------------------------------------------------------------------------------

THREE = Net([(Fraction(1), Fraction(5)), (Fraction(4), Fraction(5)), (Fraction(2), Fraction(5))], [[0, 1], [1], [2, 1]])


def test_a_faster_link_is_taken_until_the_tail_has_come() -> None:
    engine = THREE.engine()
    engine.send(np.array([0]), np.array([100]), 0)
    engine.send(np.array([1]), np.array([100]), 6)
    # The head is at link 1 in cycle 5, the tail in 105; who comes in 6 waits until then.
    assert drain(engine) == [(110, 0), (105 + 25 + 5, 1)]


def test_first_come_first_served_and_in_one_cycle_by_age() -> None:
    engine = THREE.engine()
    engine.send(np.array([2, 0]), np.array([8, 8]), 0)
    # Both heads are at link 1 in cycle 5; the first that was sent takes it until 9, the other one until its tail.
    assert drain(engine) == [(14, 0), (18, 1)]


def test_stored_and_forwarded() -> None:
    engine = THREE.engine(whole=True)
    engine.send(np.array([0]), np.array([100]), 0)
    assert drain(engine) == [(100 + 5 + 25 + 5, 0)]


def test_windows_double() -> None:
    engine = THREE.engine(window=10, rows=2)
    engine.send(np.array([1, 1, 1]), np.array([100, 100, 100]), 0)
    # Begun in 0, 25 and 50; the others wait until then.
    assert (engine.window, *(table[:, 1].tolist() for table in engine.windows)) == (40, [20, 10], [40, 10])
    engine.widen(161)
    assert (engine.window, *(table[:, 1].tolist() for table in engine.windows)) == (160, [30, 0], [50, 0])


def test_records_are_used_again() -> None:
    engine = THREE.engine()
    for _ in range(1000):
        engine.send(np.ones(50, int), np.full(50, 4), engine.now)
        assert len(drain(engine)) == 50
    assert engine.now == 55_000


def test_what_is_refused() -> None:
    engine = THREE.engine()
    engine.wait(10)
    with pytest.raises(ValueError, match="a message of cycle 9 in cycle 10"):
        engine.send(np.array([0]), np.array([1]), 9)
    with pytest.raises(ValueError, match="a message of 0 bytes"):
        engine.send(np.array([0]), np.array([0]), 10)
    with pytest.raises(IndexError, match="unknown path 3"):
        engine.send(np.array([3]), np.array([1]), 10)
    with pytest.raises(OverflowError, match="more cycles than can be counted"):
        engine.send(np.array([0]), np.array([2**60 + 1]), 10)
    with pytest.raises(OverflowError, match="more cycles than can be counted"):
        engine.send(np.zeros(3, int), np.full(3, 2**59), 10)
