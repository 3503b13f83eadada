from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pyxsim.network.windows import PeakRecorder, WindowRecorder, Windows


def totals(*flits: int, stall: int = 0) -> dict[str, NDArray[np.int64]]:
    return {"flits": np.array(flits, dtype=np.int64), "stall_vc": np.full(len(flits), stall, dtype=np.int64)}


def test_differences_per_window() -> None:
    recorder = WindowRecorder(10, links=2)
    recorder.record(10, totals(3, 1))
    recorder.record(20, totals(7, 1, stall=2))
    recorder.record(25, totals(8, 4, stall=2))
    table = recorder.table()
    assert table.length == 10
    assert table.start.tolist() == [0, 10, 20]
    assert table.start.dtype == np.int64
    assert table.counts["flits"].dtype == np.uint64
    assert table.counts["flits"].tolist() == [[3, 1], [4, 0], [1, 3]]
    assert table.counts["stall_vc"].tolist() == [[0, 0], [2, 2], [0, 0]]


def test_windows_without_a_call_are_zero() -> None:
    recorder = WindowRecorder(10, links=1)
    recorder.record(10, totals(1))
    recorder.record(50, totals(6))  # cycles 40..49
    recorder.record(71, totals(6))  # nothing more, but the time has passed
    assert recorder.table().counts["flits"][:, 0].tolist() == [1, 0, 0, 0, 5, 0, 0, 0]


def test_a_count_of_the_last_cycle_of_a_window_stays_in_it() -> None:
    recorder = WindowRecorder(10, links=1)
    recorder.record(10, totals(1))
    recorder.record(11, totals(2))
    assert recorder.table().counts["flits"][:, 0].tolist() == [1, 1]


def test_doubling_merges_pairs() -> None:
    recorder = WindowRecorder(10, links=1, max_rows=4)
    for i in range(1, 5):
        recorder.record(10 * i, totals(i * (i + 1) // 2))  # windows of 1, 2, 3, 4
    assert recorder.window == 10
    recorder.record(50, totals(15))  # the fifth: 1+2, 3+4, 5
    assert recorder.window == 20
    assert recorder.table().counts["flits"][:, 0].tolist() == [3, 7, 5]
    recorder.record(60, totals(21))  # completes the third
    assert recorder.table().counts["flits"][:, 0].tolist() == [3, 7, 11]
    assert recorder.table().start.tolist() == [0, 20, 40]


def test_a_long_pause_doubles_more_than_once() -> None:
    recorder = WindowRecorder(1, links=1, max_rows=3)
    recorder.record(1, totals(5))
    recorder.record(100, totals(7))  # 100 cycles in 3 windows: 1, 2, 4, ..., 64
    assert recorder.window == 64
    assert recorder.table().counts["flits"][:, 0].tolist() == [5, 2]


def test_idle_time_alone_doubles_too() -> None:
    recorder = WindowRecorder(1, links=1, max_rows=3)
    recorder.record(7, totals(0))
    assert recorder.window == 4
    assert recorder.table().counts["flits"].tolist() == [[0], [0]]


def test_cells_bound_the_table() -> None:
    # 2 counters x 5 links = 10 cells a window: 3 windows fit into 39 cells.
    recorder = WindowRecorder(1, links=5, max_cells=39)
    for cycle in range(1, 4):
        recorder.record(cycle, totals(*[cycle] * 5))
    assert recorder.window == 1
    recorder.record(4, totals(*[4] * 5))
    assert recorder.window == 2
    assert len(recorder.table()) == 2


def test_one_window_is_kept_however_many_links() -> None:
    recorder = WindowRecorder(1, links=100, max_cells=10)
    recorder.record(5, totals(*range(100)))
    assert recorder.window == 8
    assert recorder.table().counts["flits"].tolist() == [list(range(100))]


def test_nothing_recorded() -> None:
    assert len(WindowRecorder(10, links=3).table()) == 0
    recorder = WindowRecorder(10, links=0)
    recorder.record(35, {"flits": np.zeros(0, dtype=np.int64)})
    assert recorder.table().counts["flits"].shape == (4, 0)


def test_counts_beyond_32_bits() -> None:
    recorder = WindowRecorder(10, links=1, max_rows=2)
    big = 2**32 - 1
    recorder.record(10, totals(big))
    recorder.record(20, totals(2 * big))
    recorder.record(30, totals(2 * big + 2**40))
    assert recorder.table().counts["flits"][:, 0].tolist() == [2 * big, 2**40]


@pytest.mark.parametrize(
    ("cycle", "flits", "message"),
    [(9, 5, "time went back"), (20, 3, "became smaller")],
)
def test_impossible_totals_are_refused(cycle: int, flits: int, message: str) -> None:
    recorder = WindowRecorder(10, links=1)
    recorder.record(10, totals(4))
    with pytest.raises(ValueError, match=message):
        recorder.record(cycle, totals(flits))


def test_a_second_call_in_the_same_cycle_adds_to_the_window() -> None:
    recorder = WindowRecorder(10, links=1)
    with pytest.raises(ValueError, match="before the first cycle"):
        recorder.record(0, totals(1))
    recorder = WindowRecorder(10, links=1)
    recorder.record(0, totals(0))
    recorder.record(10, totals(4))
    recorder.record(10, totals(5))
    assert recorder.table().counts["flits"].tolist() == [[5]]


def test_other_counters_or_links_are_refused() -> None:
    recorder = WindowRecorder(10, links=2)
    recorder.record(10, totals(4, 4))
    with pytest.raises(ValueError, match="before they were flits, stall_vc"):
        recorder.record(20, {"flits": np.array([4, 4])})
    with pytest.raises(ValueError, match=r"shape \(3,\) for 2 links"):
        recorder.record(20, totals(5, 5, 5))
    with pytest.raises(ValueError, match="at least 1"):
        WindowRecorder(0, links=2)


def test_whole_run_as_one_window() -> None:
    windows = Windows.whole(123, totals(4, 5))
    assert windows.start.tolist() == [0]
    assert windows.length == 123
    assert windows.counts["flits"].tolist() == [[4, 5]]
    assert len(Windows.whole(0, totals(4))) == 0


events = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 2), st.integers(1, 9)), max_size=60)


@given(events, st.integers(1, 9), st.integers(1, 7), st.integers(0, 30))
def test_any_history_matches_a_histogram(
    counted: list[tuple[int, int, int]], window: int, max_rows: int, rest: int
) -> None:
    """Events (cycle, link, amount) drive the recorder as a simulation does: a call at the first multiple of the window
    after something was counted. Every window must hold just its own events, so sums are exact as well."""
    counted = sorted(counted)
    recorder = WindowRecorder(window, links=3, max_rows=max_rows)
    flits = np.zeros(3, dtype=np.int64)
    pending = False
    for cycle, link, amount in counted:
        if pending and cycle >= (boundary := (recorder.end // recorder.window + 1) * recorder.window):
            recorder.record(boundary, {"flits": flits})
            pending = False
        if not pending:
            # Time in which nothing is counted: a simulation may or may not report it.
            idle = cycle // recorder.window * recorder.window
            recorder.record(max(recorder.end, idle), {"flits": flits})
        flits[link] += amount
        pending = True
    end = max([cycle for cycle, _, _ in counted], default=-1) + 1 + rest
    if pending and end > (boundary := (recorder.end // recorder.window + 1) * recorder.window):
        recorder.record(boundary, {"flits": flits})
    recorder.record(max(end, recorder.end), {"flits": flits})

    table = recorder.table()
    assert len(table) <= max_rows
    assert table.length == recorder.window
    assert recorder.window % window == 0
    expected = np.zeros((len(table), 3), dtype=np.uint64)
    for cycle, link, amount in counted:
        expected[cycle // table.length, link] += np.uint64(amount)
    assert table.counts["flits"].tolist() == expected.tolist()
    assert table.counts["flits"].sum(axis=0).tolist() == flits.tolist()


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.lists(st.integers(0, 2**40), min_size=2, max_size=2)), max_size=40),
    st.integers(1, 1000),
    st.integers(1, 50),
)
def test_sums_are_exact_at_any_calls(steps: list[tuple[int, list[int]]], window: int, max_rows: int) -> None:
    recorder = WindowRecorder(window, links=2, max_rows=max_rows)
    total = np.zeros(2, dtype=np.int64)
    cycle = 0
    for step, new in steps:
        cycle += step
        total = total + np.array(new)
        recorder.record(cycle, {"flits": total})
    table = recorder.table()
    assert len(table) == -(-cycle // recorder.window) <= max_rows
    if steps:
        assert [int(n) for n in table.counts["flits"].sum(axis=0)] == total.tolist()


@pytest.mark.parametrize("rows", [3, 100])
def test_many_totals_at_once_are_the_same_as_in_turn(rows: int) -> None:
    """`rows`: windows at most, so that they double or do not."""
    rng = np.random.default_rng(1)
    totals = np.cumsum(rng.integers(0, 3, (40, 2, 5)), axis=0)
    cycles = np.arange(1, 41) * 7
    slow, fast = (WindowRecorder(7, 5, max_rows=rows) for _ in range(2))
    for cycle, row in zip(cycles.tolist(), totals, strict=True):
        slow.record(cycle, dict(zip("ab", row, strict=True)))
    for part in (slice(0, 3), slice(3, 40)):
        assert (fast.cuts(fast.end, int(cycles[part][-1])) % fast.window == 0).all()
        fast.record_many(cycles[part], "ab", totals[part])
    mine, other = fast.table(), slow.table()
    assert (mine.length, mine.start.tolist()) == (other.length, other.start.tolist())
    assert all(np.array_equal(mine.counts[name], other.counts[name]) for name in "ab")
    with pytest.raises(ValueError, match="went back"):
        fast.record_many(np.array([287]), "ab", totals[:1])


def test_peaks_keep_the_largest_value_when_windows_widen() -> None:
    recorder = PeakRecorder()
    recorder.record(10, np.array([3, 0]), 10)
    recorder.record(15, np.array([5, 1]), 10)
    recorder.record(20, np.array([4, 0]), 10)
    recorder.record(60, np.array([0, 7]), 20)
    assert recorder.table(np.array([0, 20, 40]), 20, 2).tolist() == [[5, 1], [0, 0], [0, 7]]
    assert recorder.table(np.array([0, 40]), 40, 2).tolist() == [[5, 1], [0, 7]]


def test_later_windows_count_in_the_last_one_of_a_run() -> None:
    recorder = WindowRecorder(10, links=1)
    for cycle, flits in ((10, 3), (20, 4), (40, 6)):
        recorder.record(cycle, totals(flits))
    table = recorder.table()
    assert [table.until(cycle).counts["flits"][:, 0].tolist() for cycle in (40, 30, 20, 11, 10, 0)] == [
        [3, 1, 0, 2],
        [3, 1, 2],
        [3, 3],
        [3, 3],
        [6],
        [6],
    ]
