"""What ways carry, cut into windows of time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.arrays import IntArray
from pyxsim.network.delay.windowed_counts import WindowedCounts


def same(flits: IntArray) -> IntArray:
    return flits


@given(
    sent=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 4), st.integers(1, 9)), max_size=30),
    window=st.integers(1, 50),
    rows=st.integers(1, 8),
    more=st.integers(1, 50),
)
def test_every_flit_is_in_its_window(sent: list[tuple[int, int, int]], window: int, rows: int, more: int) -> None:
    ledger = WindowedCounts(window, rows, 5, same)
    flits = np.zeros(5, np.int64)
    sent.sort()
    for at, way, count in sent:
        if at >= ledger.due:
            ledger.close(at, flits.copy())
        flits[way] += count
    end = (sent[-1][0] if sent else 0) + more
    ledger.finish(end, flits)
    table = ledger.table()
    expected = np.zeros((-(-end // table.length), 5), np.int64)
    for at, way, count in sent:
        expected[at // table.length, way] += count
    assert len(table) == len(expected) <= rows
    # Windows have doubled no more than needed.
    assert table.length == window or -(-end // (table.length // 2)) > rows
    assert table.counts["flits"].tolist() == expected.tolist()
    assert table.start.tolist() == [row * table.length for row in range(len(table))]


def test_ways_may_become_more() -> None:
    ledger = WindowedCounts(10, 4, 3, lambda flits: np.append(flits, np.zeros(3, np.int64))[:3])
    ledger.close(10, np.array([5]))
    ledger.close(20, np.array([5, 2]))
    ledger.finish(25, np.array([6, 2, 1]))
    assert ledger.table().counts["flits"].tolist() == [[5, 0, 0], [0, 2, 0], [1, 0, 1]]


@pytest.mark.parametrize("end", [0, 1, 10, 11])
def test_nothing_is_carried(end: int) -> None:
    ledger = WindowedCounts(10, 4, 2, lambda flits: np.zeros(2, np.int64))
    ledger.finish(end, np.zeros(0, np.int64))
    assert ledger.table().counts["flits"].tolist() == [[0, 0]] * -(-end // 10)


def test_windows_double_while_a_slow_link_carries_nothing() -> None:
    """A flit may take 10^10 cycles: its windows are not closed one by one."""
    counts = WindowedCounts(1000, 16, 1, lambda flits: flits)
    nothing = np.zeros(1, np.int64)
    for _ in range(17 + 9 * 20 + 3):
        counts.close(counts.due, nothing)
    # After 17 calls the window has doubled and the 9th is open; 9 calls later it doubles again.
    assert counts.due == (9 + 3) * 1000 * 2**21
    counts.finish(counts.due - 1, np.ones(1, np.int64))
    assert counts.table().counts["flits"].sum() == 1
