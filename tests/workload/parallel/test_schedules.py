"""The orders of micro-batches: against those that are printed in the papers, and by what any order must keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.workload.parallel.schedules import SCHEDULES, Turn, held_at_most, held_at_peak, interleaved


def told(stage: int, stages: int, micro_batches: int, schedule: str, chunks: int = 1) -> str:
    turns = SCHEDULES[schedule](stage, stages, micro_batches, chunks)
    return " ".join(f"{'F' if turn.forward else 'B'}{turn.micro_batch}" for turn in turns)


def test_1f1b_as_printed() -> None:
    """Narayanan et al. 2021, figure 4, above: four stages, the first eight micro-batches (counted from 0 here)."""
    assert told(0, 4, 8, "1f1b") == "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7"
    assert told(2, 4, 8, "1f1b") == "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7"
    assert told(3, 4, 8, "1f1b") == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"


def test_gpipe_as_printed() -> None:
    """Huang et al. 2019, figure 2c: forward in order, backward in reverse."""
    assert told(1, 4, 4, "gpipe") == "F0 F1 F2 F3 B3 B2 B1 B0"


def test_interleaved_as_printed() -> None:
    """Narayanan et al. 2021, figure 4, below: two chunks on each of four; the first goes ahead by 10, then one more."""
    turns = list(interleaved(0, 4, 8, 2))
    ahead = [(turn.micro_batch, turn.chunk) for turn in turns[:11]]
    assert ahead == [*((i, 0) for i in range(4)), *((i, 1) for i in range(4)), (4, 0), (5, 0), (6, 0)]
    assert turns[11] == Turn(False, 0, 1)
    last = list(interleaved(3, 4, 8, 2))
    assert [turn.forward for turn in last[:8]] == [True] * 5 + [False, True, False]


@pytest.mark.parametrize("schedule", list(SCHEDULES))
@given(stages=st.integers(1, 9), rounds=st.integers(1, 5), extra=st.integers(0, 8), chunks=st.integers(1, 4))
def test_each_micro_batch_once_each_way(schedule: str, stages: int, rounds: int, extra: int, chunks: int) -> None:
    """And backward after forward, on every stage; 1F1B holds no more than there are stages behind."""
    chunks = chunks if schedule == "interleaved" else 1
    micro_batches = rounds * stages if schedule == "interleaved" else rounds + extra
    for stage in range(stages):
        turns = list(SCHEDULES[schedule](stage, stages, micro_batches, chunks))
        assert len(turns) == len(set(turns)) == 2 * micro_batches * chunks
        for number, turn in enumerate(turns):
            if not turn.forward:
                assert Turn(True, turn.micro_batch, turn.chunk) in turns[:number]
        held = held_at_most(turns)
        if schedule == "gpipe":
            assert held == micro_batches
        elif schedule == "1f1b":
            assert held == min(stages - stage, micro_batches)
        else:
            ahead = 2 * (stages - 1 - stage) + (chunks - 1) * stages + 1
            assert held == min(ahead, micro_batches * chunks)


def test_what_is_held_has_a_size() -> None:
    turns = list(interleaved(1, 2, 2, 2))
    assert held_at_peak(turns, [10, 1]) == [2, 1]
    assert held_at_peak(turns, [0, 0]) == [0, 0]
