"""Ticks: exact where 62 bits are enough, and what happens where they are not."""

from __future__ import annotations

from fractions import Fraction
from math import floor, lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.network.delay.cut_through import CutThrough
from pyxsim.network.delay.ticks import Ticks
from tests.examples import part_of

# Bandwidths with large primes in them: in a cycle of all of them together there would be 2^80 ticks.
PRIMES = [1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049]
GIB = Fraction(50 * 2**30, 10**9)


def test_as_many_as_all_have_in_common() -> None:
    ticks = Ticks([Fraction(3, 2), 5], [Fraction(1, 4), Fraction(7, 6)])
    assert (ticks.per_cycle, ticks.exact, ticks.links) == (lcm(3, 5, 4, 6), True, 2)
    assert Ticks([GIB], [500]).per_cycle == GIB.numerator


def test_too_many_odd_bandwidths() -> None:
    assert Ticks(PRIMES[:6], [0] * 6).exact
    ticks = Ticks(PRIMES, [0] * 8)
    assert (ticks.per_cycle, ticks.exact) == (2**62, False)


@settings(max_examples=part_of(100))
@given(
    size=st.integers(1, 2**50),
    order=st.permutations(range(8)),
    late=st.lists(st.fractions(0, 1000, max_denominator=10**6), min_size=8, max_size=8),
)
def test_even_so_a_message_alone_is_on_time(size: int, order: list[int], late: list[Fraction]) -> None:
    engine = CutThrough(Ticks(PRIMES, late), 1)
    engine.extend(np.array([8]), np.array(order))
    engine.send(np.array([0]), np.array([size]), 0)
    assert engine.advance(2**62, 0)[1].tolist() == [floor(sum(late) + Fraction(size, PRIMES[0]))]


def test_very_slow_links_are_too_fine_as_well() -> None:
    engine = CutThrough(Ticks([Fraction(1, 10**12), Fraction(2**40 + 1)], [0, Fraction(1, 7)]), 1)
    assert not engine.ticks.exact
    engine.extend(np.array([2]), np.array([0, 1]))
    engine.send(np.array([0]), np.array([3]), 0)
    assert engine.advance(2**62, 0)[1].tolist() == [3 * 10**12]


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="too fine a fraction"):
        Ticks([Fraction(2**62 + 1, 3)], [0])
    with pytest.raises(InputError, match="takes more cycles than can be counted"):
        Ticks([1], [2**60 + 1])
