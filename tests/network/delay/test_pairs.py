"""Pairs get numbers in the order in which they are first seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.network.delay.pairs import Pairs
from tests.examples import part_of

PAIR = st.tuples(st.integers(0, 2**20 - 1), st.integers(0, 2**20 - 1), st.integers(-1, 5))
FEW = st.tuples(*[st.integers(0, 3)] * 3)
APART = st.one_of(PAIR, FEW).filter(lambda pair: pair[0] != pair[1])


@settings(max_examples=part_of(100))
@given(batches=st.lists(st.lists(APART, min_size=1), max_size=8))
def test_as_a_dict_would(batches: list[list[tuple[int, int, int]]]) -> None:
    pairs, known = Pairs(2**20), dict[tuple[int, int, int], int]()
    for batch in batches:
        fresh = []
        for place, pair in enumerate(batch):
            if pair not in known:
                known[pair] = len(known)
                fresh.append(place)
        numbers, new = pairs.number(*np.array(batch, np.int64).T.copy())
        assert numbers.tolist() == [known[pair] for pair in batch]
        assert new.tolist() == fresh
    assert pairs.count == len(known)
    assert pairs.ends().T.tolist() == [list(pair) for pair in known]


def test_more_than_fit_at_first() -> None:
    pairs = Pairs(101)
    src, dst = np.divmod(np.arange(10_000, dtype=np.int64), 100)
    dst[src == dst] = 100
    numbers, fresh = pairs.number(src, dst, np.zeros(10_000, np.int64))
    assert numbers.tolist() == fresh.tolist() == list(range(10_000))
    assert pairs.number(src, dst, np.zeros(10_000, np.int64))[0].tolist() == list(range(10_000))


@pytest.mark.parametrize(("src", "dst"), [(1, 1), (-1, 0), (0, 4), (4, 0)])
def test_what_is_no_pair(src: int, dst: int) -> None:
    pairs = Pairs(4)
    with pytest.raises(ValueError, match="a message"):
        pairs.number(*np.array([[2, src], [3, dst], [0, 0]], np.int64))
    assert pairs.count == 0
