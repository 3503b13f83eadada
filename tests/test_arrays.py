"""Objects that many share, and tables with equal rows."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.arrays import ArrayMemo, Rows, unique_by_identity, unique_rows


def test_each_object_once_in_order() -> None:
    a, b = Fraction(1, 3), Fraction(2, 3)
    kinds, which = unique_by_identity([b, a, b, b, a])
    assert [kind is wanted for kind, wanted in zip(kinds, (b, a), strict=True)] == [True, True]
    assert which.tolist() == [0, 1, 0, 0, 1]
    kinds, which = unique_by_identity(each for each in [a, a])
    assert (kinds, which.tolist()) == ([a], [0, 0])


def test_of_nothing() -> None:
    kinds, which = unique_by_identity([])
    assert (kinds, which.tolist()) == ([], [])


@given(st.integers(1, 4), st.lists(st.lists(st.integers(-(2**40), 2**40) | st.integers(-2, 2), min_size=4, max_size=4)))
def test_rows_are_those_of_numpy(columns: int, rows: list[list[int]]) -> None:
    table = np.array(rows, np.int64).reshape(-1, 4)[:, :columns]
    distinct, number = unique_rows(table)
    expected = np.unique(table, axis=0, return_inverse=True)
    assert distinct.tolist() == expected[0].tolist()
    assert number.tolist() == expected[1].ravel().tolist()


def test_arrays_in_one() -> None:
    rows = Rows(np.arange(7), np.array([0, 2, 2, 5, 7]))
    assert [rows[i].tolist() for i in range(len(rows))] == [[0, 1], [], [2, 3, 4], [5, 6]]
    assert rows.alike(np.array([3, 0])).tolist() == [[5, 6], [0, 1]]


def test_a_memo_knows_contents_and_forgets_all_when_full() -> None:
    memo: ArrayMemo[str] = ArrayMemo(10)
    first, second = (ArrayMemo.key([np.array([1, number]), 7]) for number in (2, 3))
    memo.put(first, "first", 6)
    assert memo.get(ArrayMemo.key([np.array([1, 2]), 7])) == "first"
    assert memo.get(second) is None
    memo.put(second, "second", 4)
    assert memo.get(first) == "first"
    memo.put(ArrayMemo.key([0]), "third", 1)
    assert memo.get(first) is memo.get(second) is None
    memo.put(first, "too large", 11)
    assert memo.get(first) is None
    memo.put(first, "first", 10)
    copy = pickle.loads(pickle.dumps(memo))
    assert copy.get(first) is None
    assert copy.most == 10
