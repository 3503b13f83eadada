"""Every message of the algorithms on the shelf where the literature has it, on few ranks."""

from __future__ import annotations

import numpy as np

from pyxsim import library
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.lookup import get_schedule

library.load_all()


def message(c: CompiledSchedule, m: int) -> tuple[int, int, list[int], bool]:
    return int(c.src[m]), int(c.dst[m]), c.blocks_of(m).tolist(), bool(c.reduce[m])


def of_rank(c: CompiledSchedule, rank: int) -> list[tuple[int, list[int], bool]]:
    """What a rank sends, in order: (to, blocks, whether it is added)."""
    return [message(c, m)[1:] for m in np.flatnonzero(c.src == rank).tolist()]


def test_ring() -> None:
    # Rank 0 of 4: in the reduce-scatter it sends block 3 first and ends with block 0, which it then sends.
    adds = [(1, [3], True), (1, [2], True), (1, [1], True)]
    gathers = [(1, [0], False), (1, [3], False), (1, [2], False)]
    assert of_rank(get_schedule("reduce-scatter", "ring", 4), 0) == adds
    assert of_rank(get_schedule("all-gather", "ring", 4), 0) == gathers
    assert of_rank(get_schedule("all-reduce", "ring", 4), 0) == adds + gathers
    # One message waits for one: the one before it, except for the first of each rank.
    c = get_schedule("all-reduce", "ring", 4)
    assert [c.waits_for(m).tolist() for m in range(4)] == [[]] * 4
    for m in range(4, len(c)):
        (dep,) = c.waits_for(m).tolist()
        assert c.order[dep] == c.order[m] - 1
        assert c.dst[dep] == c.src[m]


def test_ring_all_to_all() -> None:
    # Rank 0 of 4 forwards from source -(hop-1) to source + distance, for all hops of all distances.
    # distance 1: 0->1; 2: 0->2, then 3->1; 3: 0->3, 3->2, 2->1.
    blocks = [0 * 4 + 1, 0 * 4 + 2, 3 * 4 + 1, 0 * 4 + 3, 3 * 4 + 2, 2 * 4 + 1]
    c = get_schedule("all-to-all", "ring", 4)
    assert of_rank(c, 0) == [(1, [block], False) for block in blocks]
    # One token per rank: the k-th send waits for k receptions.
    assert c.need[c.src == 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_direct() -> None:
    assert of_rank(get_schedule("reduce-scatter", "direct", 4), 1) == [(2, [2], True), (3, [3], True), (0, [0], True)]
    assert of_rank(get_schedule("all-gather", "direct", 4), 1) == [(2, [1], False), (3, [1], False), (0, [1], False)]
    exchange = [(2, [1 * 4 + 2], False), (3, [1 * 4 + 3], False), (0, [1 * 4 + 0], False)]
    assert of_rank(get_schedule("all-to-all", "direct", 4), 1) == exchange
    assert not get_schedule("all-to-all", "direct", 4).need.any()


def test_a_window() -> None:
    # Window 2 on 5 ranks: two sends at once, then one for every reception. The second half of an all-reduce starts when
    # all four have come, with two at once.
    c = get_schedule("all-reduce", "direct:2", 5)
    mine = np.flatnonzero(c.src == 0)
    assert c.need[mine].tolist() == [0, 0, 1, 2, 3, 4, 5, 6]
    assert [len(c.waits_for(int(m))) for m in mine] == [0] * 4 + [4] * 4


def test_halving_doubling() -> None:
    # Rank 0 of 8: partners 1, 2, 4 get the half of what is left that agrees with them in the bits dealt with so far.
    halves = [(1, [1, 3, 5, 7], True), (2, [2, 6], True), (4, [4], True)]
    doubles = [(4, [0], False), (2, [0, 4], False), (1, [0, 2, 4, 6], False)]
    assert of_rank(get_schedule("reduce-scatter", "halving-doubling", 8), 0) == halves
    assert of_rank(get_schedule("all-gather", "halving-doubling", 8), 0) == doubles
    assert of_rank(get_schedule("all-reduce", "halving-doubling", 8), 0) == halves + doubles


def test_halving_doubling_on_any_number_of_ranks() -> None:
    # 5 ranks: rank 4 gives rank 0 all it has, and gets the result; the others do halving-doubling on 4 blocks.
    c = get_schedule("all-reduce", "halving-doubling", 5)
    assert c.blocks == 4
    assert of_rank(c, 4) == [(0, [0, 1, 2, 3], True)]
    assert of_rank(c, 0)[-1] == (4, [0, 1, 2, 3], False)
    # Reduce-scatter: rank 0 stands for blocks 0 and 4, and gives rank 4 its own.
    c = get_schedule("reduce-scatter", "halving-doubling", 5)
    assert of_rank(c, 1)[0] == (0, [0, 2, 4], True)
    assert of_rank(c, 0)[-1] == (4, [4], False)
