"""Messages that never meet: arrivals in order, each when its formula says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.network.delay.free_flight import FreeFlight
from pyxsim.network.delay.rule import Exact
from tests.examples import part_of

FOREVER = 2**62


def engine(latencies: list[int], rate: Fraction = Fraction(1)) -> FreeFlight:
    made = FreeFlight(Exact([rate]), 10)
    made.extend(np.array(latencies, np.int64), np.zeros(len(latencies), np.int64))
    return made


@settings(max_examples=part_of(100))
@given(
    sends=st.lists(
        st.tuples(st.integers(0, 50), st.lists(st.tuples(st.integers(0, 3), st.integers(1, 30)), min_size=1)),
        max_size=10,
    ),
    slack=st.integers(0, 20),
)
def test_arrivals_are_in_order(sends: list[tuple[int, list[tuple[int, int]]]], slack: int) -> None:
    net = engine([0, 3, 10, 100])
    expected = []
    for at, batch in sends:
        ways, sizes = np.array(batch, np.int64).T.copy()
        first = net.send(ways, sizes, at)
        assert first == len(expected)
        expected += [(at + [0, 3, 10, 100][way] + size, first + i) for i, (way, size) in enumerate(batch)]
    expected.sort()
    found = []
    while True:
        messages, cycles = net.advance(FOREVER, slack)
        if not len(messages):
            break
        assert cycles[-1] - cycles[0] <= slack
        assert net.now == cycles[-1]
        found += zip(cycles.tolist(), messages.tolist(), strict=True)
    assert found == expected
    assert net.delivered == net.sent == len(expected)
    assert net.bytes_delivered == sum(size for _, batch in sends for _, size in batch)
    assert net.flits.sum() == sum(-(-size // 10) for _, batch in sends for _, size in batch)


def test_time_stops_at_the_first_arrivals_and_not_after_until() -> None:
    net = engine([5, 5, 7])
    net.send(np.array([2, 0, 1]), np.array([1, 1, 1]), 0)
    assert [part.tolist() for part in net.advance(5, 0)] == [[], []]
    net.wait(5)
    assert net.now == 5
    assert [part.tolist() for part in net.advance(FOREVER, 0)] == [[1, 2], [6, 6]]
    assert [part.tolist() for part in net.advance(8, 0)] == [[0], [8]]
    assert [part.tolist() for part in net.advance(FOREVER, 0)] == [[], []]


def test_what_is_refused() -> None:
    net = engine([5], Fraction(1, 2**40))
    net.wait(10)
    one = np.array([0]), np.array([1])
    with pytest.raises(ValueError, match="a message of cycle 9 in cycle 10"):
        net.send(*one, 9)
    with pytest.raises(ValueError, match="a message of 0 bytes"):
        net.send(one[0], np.array([0]), 10)
    with pytest.raises(IndexError, match="unknown path 1"):
        net.send(np.array([1]), one[1], 10)
    with pytest.raises(OverflowError, match="more cycles than can be counted"):
        net.send(one[0], np.array([2**30]), 10)
