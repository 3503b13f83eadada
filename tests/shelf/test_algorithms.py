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


def test_halving_doubling_from_and_to_a_root() -> None:
    # Rank 0 keeps what agrees with it in one more bit each time, and the doubling follows.
    spread = [(1, [1, 3], False), (2, [2], False)]
    double = [(2, [0], False), (1, [0, 2], False)]
    assert of_rank(get_schedule("broadcast", "halving-doubling", 4), 0) == spread + double
    collect = [(1, [3], False)]
    assert of_rank(get_schedule("reduce", "halving-doubling", 4), 3)[-1:] == collect


def test_rings_from_and_to_a_root() -> None:
    assert of_rank(get_schedule("broadcast", "ring", 3), 1) == [(2, [0], False), (2, [1], False), (2, [2], False)]
    assert of_rank(get_schedule("reduce", "ring", 3), 2) == [(0, [0], True), (0, [1], True), (0, [2], True)]
    assert not of_rank(get_schedule("reduce", "ring", 3), 0)
    # What goes farthest leaves first, and one's own block before those from behind.
    assert of_rank(get_schedule("scatter", "ring", 4), 0) == [(1, [3], False), (1, [2], False), (1, [1], False)]
    assert of_rank(get_schedule("gather", "ring", 4), 3) == [(0, [3], False), (0, [2], False), (0, [1], False)]
    # The token: twice round, but for the last hop.
    c = get_schedule("barrier", "ring", 3)
    assert list(zip(c.src.tolist(), c.dst.tolist(), strict=True)) == [(0, 1), (1, 2), (2, 0), (0, 1)]


def both_ways(c: CompiledSchedule, rank: int) -> list[tuple[int, list[int], int]]:
    """(way, blocks, to) of what a rank sends, in order."""
    mine = np.flatnonzero(c.src == rank).tolist()
    return [(int(c.way[m]), c.blocks_of(m).tolist(), int(c.dst[m])) for m in mine]


def test_bidirectional_ring() -> None:
    # 5 ranks: two steps, both halves of a block together. Rank 0 passes on what came from the other side.
    c = get_schedule("all-gather", "bidirectional-ring", 5)
    assert both_ways(c, 0) == [(1, [0, 1], 1), (-1, [0, 1], 4), (1, [8, 9], 1), (-1, [2, 3], 4)]
    # 4 ranks: half of the block of the rank opposite comes on each side.
    c = get_schedule("all-gather", "bidirectional-ring", 4)
    assert both_ways(c, 0) == [(1, [0, 1], 1), (-1, [0, 1], 3), (1, [6], 1), (-1, [3], 3)]
    # Backwards: what has two hops to go leaves first.
    c = get_schedule("reduce-scatter", "bidirectional-ring", 4)
    assert both_ways(c, 0) == [(1, [4], 1), (-1, [5], 3), (1, [2, 3], 1), (-1, [6, 7], 3)]
    # The mirror image turns ways about, too.
    assert [way for way, _, _ in both_ways(get_schedule("all-gather", "bidirectional-ring", 5, mirror=True), 0)] == [
        -1,
        1,
        -1,
        1,
    ]


def test_bidirectional_all_to_all_takes_the_shorter_way() -> None:
    for n in (4, 5, 8, 9):
        c = get_schedule("all-to-all", "bidirectional-ring", n)
        for m in range(len(c)):
            for half in c.blocks_of(m).tolist():
                source, target = divmod(half // 2, n)
                assert int(c.way[m]) * (target - source) % n <= n // 2
                assert int(c.way[m]) * (int(c.dst[m]) - source) % n <= int(c.way[m]) * (target - source) % n


def test_several_rings() -> None:
    # Strides 1, 4, 2, 3 of 5 ranks: slice k of a block goes round with stride k, so rank 0 sends to everybody.
    c = get_schedule("all-gather", "multi-ring", 5)
    assert c.blocks == 5 * 4
    assert of_rank(c, 0)[:4] == [(1, [0], False), (4, [1], False), (2, [2], False), (3, [3], False)]
    # The second step passes on what came from the rank before on each ring: 4, 1, 3 and 2.
    assert of_rank(c, 0)[4:8] == [(1, [16], False), (4, [5], False), (2, [14], False), (3, [11], False)]
    # 6 ranks have two rings, and the third is the first again.
    c = get_schedule("all-gather", "multi-ring:3", 6)
    assert [to for to, _, _ in of_rank(c, 0)[:3]] == [1, 5, 1]
    # A prime number: every link of a fully connected network carries the same.
    c = get_schedule("all-reduce", "multi-ring:6", 7)
    links = np.bincount(c.src * 7 + c.dst, minlength=49).reshape(7, 7)
    assert (links == 12 * (1 - np.eye(7, dtype=int))).all()


def test_pairwise() -> None:
    assert [to for to, _, _ in of_rank(get_schedule("all-to-all", "pairwise", 8), 5)] == [4, 7, 6, 1, 0, 3, 2]
    assert [to for to, _, _ in of_rank(get_schedule("reduce-scatter", "pairwise", 5), 3)] == [4, 0, 1, 2]
    assert get_schedule("all-to-all", "pairwise", 8).need[:8].tolist() == [0] * 8


def test_recursive_doubling() -> None:
    # The whole buffer with the ranks 1, 2 and 4 away, each sum from a cell of its own.
    c = get_schedule("all-reduce", "recursive-doubling", 8)
    sent = [m for m in range(len(c)) if c.src[m] == 3 != c.dst[m]]
    assert [(int(c.dst[m]), c.blocks_of(m).tolist()) for m in sent] == [(2, [1]), (1, [2]), (7, [3])]
    gathers = [(2, [3], False), (1, [2, 3], False), (7, [0, 1, 2, 3], False)]
    assert of_rank(get_schedule("all-gather", "recursive-doubling", 8), 3) == gathers
    # 5 ranks: rank 4 hands its data to rank 0, which stands for both.
    assert of_rank(get_schedule("all-gather", "recursive-doubling", 5), 0) == [
        (1, [0, 4], False),
        (2, [0, 1, 4], False),
        (4, [0, 1, 2, 3], False),
    ]


def test_bruck() -> None:
    # Rank 0 of 6 gathers 1, then 2 and 3, then the two that are left.
    gathers = [(5, [0], False), (4, [0, 1], False), (2, [0, 1], False)]
    assert of_rank(get_schedule("all-gather", "bruck", 6), 0) == gathers
    # Backwards: to the rank that it came from there, to be added.
    adds = [(4, [4, 5], True), (2, [2, 3], True), (1, [1], True)]
    assert of_rank(get_schedule("reduce-scatter", "bruck", 6), 0) == adds
    # All-to-all on 4: blocks with bit 0 of their way; then those with bit 1, one of which came from rank 3.
    exchange = [(1, [0 * 4 + 1, 0 * 4 + 3], False), (2, [0 * 4 + 2, 3 * 4 + 2], False)]
    assert of_rank(get_schedule("all-to-all", "bruck", 4), 0) == exchange
    assert [to for to, _, _ in of_rank(get_schedule("barrier", "bruck", 6), 1)] == [2, 3, 5]


def test_binomial_tree() -> None:
    assert [to for to, _, _ in of_rank(get_schedule("broadcast", "binomial-tree", 8), 0)] == [4, 2, 1]
    assert [to for to, _, _ in of_rank(get_schedule("broadcast", "binomial-tree", 8), 4)] == [6, 5]
    scatters = [(4, [4, 5], False), (2, [2, 3], False), (1, [1], False)]
    assert of_rank(get_schedule("scatter", "binomial-tree", 6), 0) == scatters
    assert of_rank(get_schedule("gather", "binomial-tree", 6), 4) == [(0, [4, 5], False)]
    assert of_rank(get_schedule("reduce", "binomial-tree", 6), 5) == [(4, [0], True)]


def test_double_binary_tree() -> None:
    # 7 ranks: labels 1 to 6 in the first tree, 4 above 2 and 6; read backwards in the second, 3 above 5 and 1.
    c = get_schedule("broadcast", "double-binary-tree:1", 7)
    ups = [{int(c.dst[m]): int(c.src[m]) for m in range(len(c)) if c.blocks_of(m)[0] == tree} for tree in (0, 1)]
    assert ups[0] == {4: 0, 2: 4, 6: 4, 1: 2, 3: 2, 5: 6}
    assert ups[1] == {3: 0, 5: 3, 1: 3, 6: 5, 4: 5, 2: 1}
    assert len(get_schedule("broadcast", "double-binary-tree", 7)) == 2 * 8 * 6


def test_leaves_of_a_double_binary_tree_do_not_run_ahead() -> None:
    """Each waits for what its rank gets in the other tree, where it has children: not for the first few segments."""
    c = get_schedule("reduce", "double-binary-tree:10", 8)
    # Rank 3 is a leaf of the first tree. In the second one it is above 2 and 4, at height 1: it leads by 3 segments.
    waits = [c.waits_for(m) for m in of(c, 3, 0)]
    assert [len(awaited) for awaited in waits] == [0] * 3 + [2] * 7
    for segment, awaited in enumerate(waits[3:]):
        assert [message(c, m) for m in awaited.tolist()] == [(k, 3, [2 * segment + 1], True) for k in (2, 4)]


def test_the_root_of_a_double_binary_tree_answers_when_it_has_everything() -> None:
    """If there are many segments; with few, a segment goes down when it is there."""
    for segments in (4, 32):
        c = get_schedule("all-reduce", f"double-binary-tree:{segments}", 8)
        for m in np.flatnonzero(c.src == 0).tolist():
            own, last = {int(c.blocks_of(m)[0])}, {2 * segments - 2, 2 * segments - 1}
            assert {int(c.blocks_of(w)[0]) for w in c.waits_for(m)} == (own | last if segments == 32 else own)


def of(c: CompiledSchedule, rank: int, tree: int) -> list[int]:
    """The messages that a rank sends in one of two trees."""
    return [m for m in np.flatnonzero(c.src == rank).tolist() if c.blocks_of(m)[0] % 2 == tree]


def test_nobody_has_children_in_both_trees() -> None:
    for n in range(2, 70):
        c = get_schedule("broadcast", "double-binary-tree:1", n)
        first, second = (set(c.src[c.block_ids == tree].tolist()) - {0} for tree in (0, 1))
        assert not first & second
        children = np.bincount(c.src * 2 + c.block_ids, minlength=2 * n)
        assert children.max() <= 2
        assert children[:2].tolist() == [1, 1]


def test_hierarchical() -> None:
    # 6 ranks in groups of 3: blocks by numbers in the group, then one block across, and back.
    adds = [(1, [2, 5], True), (1, [1, 4], True), (3, [3], True)]
    gathers = [(3, [0], False), (1, [0, 3], False), (1, [2, 5], False)]
    c = get_schedule("all-reduce", "hierarchical:3", 6)
    assert of_rank(c, 0) == adds + gathers
    # All-to-all: to each of the group what is for those with its number; then all that came, across.
    exchange = [(1, [1, 4], False), (2, [2, 5], False), (3, [0 * 6 + 3, 1 * 6 + 3, 2 * 6 + 3], False)]
    assert of_rank(get_schedule("all-to-all", "hierarchical:3", 6), 0) == exchange
    # Without a number: the largest factor up to the root.
    assert of_rank(get_schedule("all-reduce", "hierarchical", 12), 0) == of_rank(
        get_schedule("all-reduce", "hierarchical:3", 12), 0
    )
    assert {to for to, _, _ in of_rank(get_schedule("all-reduce", "hierarchical-3d", 12), 0)} == {1, 2, 4}
    assert {to for to, _, _ in of_rank(get_schedule("all-reduce", "hierarchical-3d:3", 12), 0)} == {1, 3, 6}


def test_in_switch() -> None:
    c = get_schedule("all-reduce", "in-switch", 4)
    assert list(zip(c.src.tolist(), c.dst.tolist(), strict=True)) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert c.join.tolist() == [0] * 4
    assert len(get_schedule("all-reduce", "in-switch", 1)) == 0
