"""The layers of a pipeline stage: consecutive ones, with the slowest stage as fast as possible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise


def balanced(costs: Sequence[int], stages: int) -> list[range]:
    """Divide a row of blocks into `stages` non-empty ranges.

    The largest cost of a range is minimal; among such divisions the sum of squares is minimal, to even out the others.
    """
    upto = [0, *accumulate(costs)]
    limit = _least_most(costs, stages)
    # best[i]: the least sum of squares of the first i blocks in so many stages, and the begin of the last stage
    count = len(costs)
    best: list[int | None] = [0, *[None] * count]
    begins: list[list[int]] = []
    for stage in range(1, stages + 1):
        following: list[int | None] = [None] * (count + 1)
        begin = [0] * (count + 1)
        for end in range(stage, count - (stages - stage) + 1):
            for start in range(end - 1, stage - 2, -1):
                cost = upto[end] - upto[start]
                if cost > limit:
                    break
                before = best[start]
                if before is not None:
                    squares = before + cost * cost
                    known = following[end]
                    if known is None or squares < known:
                        following[end], begin[end] = squares, start
        best = following
        begins.append(begin)
    ends = [count]
    for begin in reversed(begins):
        ends.append(begin[ends[-1]])
    return [range(start, end) for start, end in pairwise(reversed(ends))]


def _least_most(costs: Sequence[int], stages: int) -> int:
    """The least cost of the most expensive stage: filled greedily up to that limit, the stages suffice."""
    low, high = max(costs), sum(costs)
    while low < high:
        limit = (low + high) // 2
        if _needed(costs, limit) <= stages:
            high = limit
        else:
            low = limit + 1
    return low


def _needed(costs: Sequence[int], limit: int) -> int:
    """Number of stages if each takes as much as fits."""
    count, filled = 1, 0
    for cost in costs:
        if filled + cost > limit:
            count, filled = count + 1, 0
        filled += cost
    return count
