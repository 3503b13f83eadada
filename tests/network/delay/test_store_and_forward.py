"""Messages that queue for links, against a slow model that keeps a list of events."""

from __future__ import annotations

import heapq
from collections import deque
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.network.delay.rule import Exact
from pyxsim.network.delay.store_and_forward import StoreAndForward

FOREVER = 2**62
LATENCY, RATE = [0, 3, 10, 1], [Fraction(1), Fraction(1, 2), Fraction(3), Fraction(1)]
ROUTES = [[0], [0, 1], [2, 1], [3, 0, 1], [1, 2, 3], []]


def engine() -> StoreAndForward:
    rule = Exact(RATE)
    rule.extend(np.array(LATENCY), np.arange(4))
    made = StoreAndForward(rule, 10)
    made.extend(np.array([len(route) for route in ROUTES]), np.array([link for route in ROUTES for link in route]))
    return made


def drain(net: Any, slack: int = 0) -> list[tuple[int, int]]:
    found = []
    while len((arrived := net.advance(FOREVER, slack))[0]):
        found += zip(arrived[1].tolist(), arrived[0].tolist(), strict=True)
    return found


def slowly(sends: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """(cycle, message) of (cycle, route, bytes), sent in this order."""
    events: list[tuple[int, int, str, Any]] = []
    count = 0

    def foresee(cycle: int, what: str, about: Any) -> None:
        nonlocal count
        heapq.heappush(events, (cycle, count, what, about))
        count += 1

    for number, (at, route, size) in enumerate(sends):
        foresee(at, "here", (number, ROUTES[route], size))
    waiting: list[deque[Any]] = [deque() for _ in LATENCY]
    busy = [False] * len(LATENCY)
    found = []
    while events:
        now, _, what, about = heapq.heappop(events)
        if what == "free":
            link = about
            busy[link] = False
        else:
            number, route, size = about
            if not route:
                found.append((now, number))
                continue
            link = route[0]
            waiting[link].append(about)
        if not busy[link] and waiting[link]:
            number, route, size = waiting[link].popleft()
            busy[link] = True
            foresee(now + int(LATENCY[link] + size / RATE[link]), "here", (number, route[1:], size))
            foresee(now + int(size / RATE[link]), "free", link)
    return sorted(found)


SENDS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, len(ROUTES) - 1), st.integers(1, 20)), max_size=30)


@given(sends=SENDS, slack=st.integers(0, 30))
def test_as_the_slow_model(sends: list[tuple[int, int, int]], slack: int) -> None:
    net = engine()
    net.advance(0, 0)
    for at, route, size in sends:
        net.send(np.array([route]), np.array([size]), at + 1)
    expected = slowly([(at + 1, route, size) for at, route, size in sends])
    assert drain(net, slack) == expected
    assert net.delivered == net.sent == len(sends)
    assert net.bytes_delivered == sum(size for _, _, size in sends)
    carried = [sum(-(-size // 10) for _, route, size in sends if link in ROUTES[route]) for link in range(4)]
    assert net.flits.tolist() == carried


def test_a_link_sends_one_message_at_a_time() -> None:
    net = engine()
    net.send(np.array([0, 0, 0]), np.array([5, 5, 5]), 0)
    assert drain(net) == [(5, 0), (10, 1), (15, 2)]


def test_a_message_is_stored_before_it_is_forwarded() -> None:
    net = engine()
    net.send(np.array([3]), np.array([12]), 0)
    # 12 + 1, then 12, then 24 + 3.
    assert drain(net) == [(13 + 12 + 27, 0)]


def test_records_are_used_again() -> None:
    net = engine()
    for _ in range(1000):
        net.send(np.zeros(50, int), np.ones(50, int), net.now)
        assert len(drain(net)) == 50
    assert net.now == 50_000


def test_what_is_refused() -> None:
    net = engine()
    net.wait(10)
    with pytest.raises(ValueError, match="a message of cycle 9 in cycle 10"):
        net.send(np.array([0]), np.array([1]), 9)
    with pytest.raises(ValueError, match="a message of 0 bytes"):
        net.send(np.array([0]), np.array([0]), 10)
    with pytest.raises(IndexError, match="unknown path 6"):
        net.send(np.array([6]), np.array([1]), 10)
    net.send(np.array([1]), np.array([2**60]), 10)
    with pytest.raises(OverflowError, match="more cycles than can be counted"):
        drain(net)
