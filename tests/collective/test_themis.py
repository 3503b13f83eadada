"""Themis: the orders of ASTRA-sim's OfflineGreedy, worked out by hand from its rules."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.collective.themis import Themis

MIB = 2**20
EVEN = [Fraction(1)] * 3


def test_the_first_chunk_finds_no_loads() -> None:
    for kind in ("all-reduce", "reduce-scatter", "all-gather"):
        # The usual order is 0, 1, 2 whatever the kind.
        assert Themis((4, 4, 4), EVEN).order(kind, MIB) == (0, 1, 2)


def test_the_least_loaded_dimension_comes_first() -> None:
    themis = Themis((4, 4), EVEN[:2])
    assert themis.order("reduce-scatter", MIB) == (0, 1)
    # 0.75 against 0.1875: dimension 1, which then has 0.9375 against 0.9375: even.
    assert themis.order("reduce-scatter", MIB) == (1, 0)
    assert themis.order("reduce-scatter", MIB) == (0, 1)
    themis.reset()
    assert themis.order("reduce-scatter", MIB) == (0, 1)
    assert themis.order("reduce-scatter", MIB) == (1, 0)


def test_bandwidths_count() -> None:
    themis = Themis((4, 4), [Fraction(8), Fraction(1)])
    # 0.75 / 1 and 0.1875 / (1 / 8): dimension 0 stays the less loaded one.
    assert [themis.order("all-reduce", MIB) for _ in range(3)] == [(0, 1)] * 3


def test_little_is_a_sixteenth_of_a_chunk() -> None:
    # After a chunk of 2 NPUs and 32 the loads are 0.5 and 0.484: the chunk that evens that out has 1/32 of a MiB.
    themis = Themis((2, 32), EVEN[:2])
    assert themis.order("reduce-scatter", MIB) == (0, 1)
    assert themis.order("reduce-scatter", MIB) == (0, 1)


def test_dimensions_of_one_npu_and_those_that_take_no_part_have_no_load() -> None:
    themis = Themis((1, 4, 4, 4), [Fraction(1)] * 4, [True, True, False, True])
    assert themis.order("reduce-scatter", MIB) == (0, 1, 2, 3)
    order = [dim for dim in themis.order("reduce-scatter", MIB) if dim in (1, 3)]
    assert order == [3, 1]
    assert Themis((1, 1), EVEN[:2]).order("all-reduce", MIB) == (0, 1)


def test_flex_cuts_what_evens_out() -> None:
    themis = Themis((4, 4), EVEN[:2])
    chunks = list(themis.cut("reduce-scatter", 3 * MIB, 6, flex=True))
    # Half a MiB loads 0.375 and 0.09375; a chunk of 0.28125 * 4 / 3 MiB in dimension 1 would even that out, which is
    # less than a chunk: the usual order again. Then 0.75 and 0.1875: three quarters of a MiB.
    assert chunks[:3] == [((0, 1), MIB // 2), ((0, 1), MIB // 2), ((1, 0), 3 * MIB // 4)]
    assert sum(size for _, size in chunks) == 3 * MIB


@given(
    shape=st.lists(st.integers(1, 8), min_size=1, max_size=4),
    size=st.integers(1, 10**9),
    chunks=st.integers(1, 40),
    kind=st.sampled_from(["all-reduce", "reduce-scatter", "all-gather"]),
    flex=st.booleans(),
    data=st.data(),
)
def test_all_bytes_in_some_order(
    shape: list[int], size: int, chunks: int, kind: str, flex: bool, data: st.DataObject
) -> None:
    rates = data.draw(st.lists(st.fractions(Fraction(1, 100), 100), min_size=len(shape), max_size=len(shape)))
    cut = list(Themis(shape, rates).cut(kind, max(size, chunks), chunks, flex=flex))
    assert sum(taken for _, taken in cut) == max(size, chunks)
    assert all(sorted(order) == list(range(len(shape))) and taken > 0 for order, taken in cut)


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather"])
def test_loads_are_evened_out(kind: str) -> None:
    """Over many chunks no dimension is much busier than another."""
    themis = Themis((4, 4, 4), EVEN)
    orders = {themis.order(kind, MIB) for _ in range(64)}
    assert len(orders) > 1
