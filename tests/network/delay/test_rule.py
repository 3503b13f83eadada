"""How long a message takes: three ways to round, against the same formulas in Python."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.network.delay.rule import Doubles, Exact, Summands

FRACTIONS = st.fractions(min_value=Fraction(1, 1000), max_value=10**6, max_denominator=10**6)
SIZES = st.integers(1, 2**50)


@given(rate=FRACTIONS, latency=st.integers(0, 10**9), per_cycle=st.integers(1, 10**4), size=SIZES)
def test_exact_is_exact(rate: Fraction, latency: int, per_cycle: int, size: int) -> None:
    rule = Exact([rate], per_cycle)
    rule.extend(np.array([latency]), np.array([0]))
    cycles = math.floor(Fraction(latency, per_cycle) + size / rate)
    assert rule.times([0], [size]).tolist() == [cycles if cycles <= 2**60 else -1]


@given(rate=st.floats(0.01, 1e6), latency=st.floats(0, 1e6), size=SIZES)
def test_doubles_are_those_of_the_processor(rate: float, latency: float, size: int) -> None:
    rule = Doubles([rate])
    rule.extend(np.array([latency]), np.array([0]))
    assert rule.times([0], [size]).tolist() == [int(latency + size / rate)]


def test_where_doubles_and_fractions_differ() -> None:
    # 3 bytes at 0.3 bytes per cycle are exactly 10 cycles; 0.3 is not exactly a double, nor is the sum with 0.7.
    exact, doubles = Exact([Fraction(3, 10)], 10), Doubles([0.3])
    exact.extend(np.array([7]), np.array([0]))
    doubles.extend(np.array([0.7]), np.array([0]))
    sizes = np.arange(1, 200)
    theirs = [int(0.7 + size / 0.3) for size in sizes.tolist()]
    assert doubles.times(np.zeros(199, int), sizes).tolist() == theirs
    assert exact.times(np.zeros(199, int), sizes).tolist() == [(7 * 3 + 100 * size) // 30 for size in sizes.tolist()]


@given(
    rate=st.floats(0.01, 1e4),
    latency=st.floats(0, 1e4),
    more=st.tuples(
        st.floats(0, 100), st.floats(0, 100), st.floats(0, 1000), st.floats(1, 1e4), st.sampled_from([0.0, 0.5, 1.0])
    ),
    size=st.integers(1, 2**40),
)
def test_summands_are_cut_off_one_by_one(
    rate: float, latency: float, more: tuple[float, float, float, float, float], size: int
) -> None:
    rule = Summands([rate], [more])
    rule.extend(np.array([latency]), np.array([0]))
    nic, router, late, width, scale = more
    cycles = int(latency)
    for summand in (size / rate, nic, router):
        cycles = int(cycles + summand)
    memory = int((late + size / width) * scale)
    assert rule.times([0], [size]).tolist() == [max(cycles, memory)]


def test_kinds_and_many_ways() -> None:
    rule = Exact([Fraction(2), Fraction(1, 3)])
    for start in range(0, 100, 20):
        rule.extend(np.arange(start, start + 20), np.arange(20) % 2)
    assert rule.paths == 100
    ways = np.arange(100)
    expected = [way + (10 // 2 if way % 2 == 0 else 30) for way in range(100)]
    assert rule.times(ways, np.full(100, 10)).tolist() == expected


def test_what_cannot_be_counted() -> None:
    with pytest.raises(InputError, match="too fine a fraction"):
        Exact([Fraction(2**61 + 1, 2**61)], 7)
    rule = Exact([Fraction(1, 2**20)])
    rule.extend(np.array([0]), np.array([0]))
    assert rule.times([0, 0], [2**40, 2**40 + 1]).tolist() == [2**60, -1]
    with pytest.raises(IndexError):
        rule.times([1], [1])
