"""Cutting a row of blocks into stages, against all cuts there are."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from pyxsim.workload.parallel.stages import balanced


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.data())
def test_no_cut_is_better(costs: list[int], data: st.DataObject) -> None:
    """The slowest stage is as fast as can be, and then the squares are the least."""
    stages = data.draw(st.integers(1, len(costs)))
    found = balanced(costs, stages)
    assert [place for own in found for place in own] == list(range(len(costs)))
    assert all(len(own) for own in found)
    assert len(found) == stages

    def rank(ends: list[int]) -> tuple[int, int]:
        sums = [sum(costs[begin:end]) for begin, end in pairwise(ends)]
        return max(sums), sum(each * each for each in sums)

    cuts = combinations(range(1, len(costs)), stages - 1)
    assert rank([0, *(own.stop for own in found)]) == min(rank([0, *cut, len(costs)]) for cut in cuts)


def test_equal_blocks_come_out_even() -> None:
    assert [len(own) for own in balanced([5] * 96, 16)] == [6] * 16
