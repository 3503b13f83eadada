"""Double binary tree: two trees, each for half of the data, so that all ranks send while they receive.

Who has children in one tree is a leaf of the other, so nobody sends or receives more than the buffer (Sanders, Speck
and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 2009; NCCL). The
root, rank 0, is above both trees. All-reduce is reduce and broadcast, for every segment on its own.
"double-binary-tree:K" cuts the half of each tree in K segments, which follow each other.
"""

from __future__ import annotations

import numpy as np

from pyxsim.collective.arrays import I64
from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives

SEGMENTS = 8

# A step of a tree: children and their parents.
Level = tuple[I64, I64]


def parent(label: int, n: int) -> int:
    """The parent of a label from 1 to n-1 in the in-order tree of these: leaves are odd, 0 is above its root.

    A label with k zeros behind its last one has children 2^(k-1) before and behind it, and a parent 2^k away. Where
    that one does not exist, the next one above it does.
    """
    last = label & -label
    up = (label ^ last) | last << 1
    return up if up < n else label ^ last


def tree(n: int, second: bool) -> list[Level]:
    """The levels of a tree of all ranks, from the root down."""
    ups = np.array([0] + [parent(label, n) for label in range(1, n)])
    labels = np.arange(n)
    if n % 2:
        # An even number of labels, read backwards: odd ones become even.
        rank = -labels % n
    else:
        # An odd number, moved on by one: the last odd one becomes the first.
        rank = np.where(labels, labels % (n - 1) + 1, 0)
    names = rank if second else labels
    levels, above = [], np.array([0])
    while len(below := np.flatnonzero(np.isin(ups, above) & (labels > 0))):
        levels.append((names[below], names[ups[below]]))
        above = below
    return levels


@collectives.register("double-binary-tree", aliases=("doubleBinaryTree",), kinds=("all-reduce", "broadcast", "reduce"))
def double_binary_tree(kind: str, n: int, segments: int = SEGMENTS) -> Schedule:
    s = Schedule(kind, n, blocks=2 * segments)
    trees = [tree(n, second) for second in (False, True)]
    for segment in range(segments):
        for number, levels in enumerate(trees):
            block = 2 * segment + number
            if kind != "broadcast":
                for child, above in reversed(levels):
                    s.step(child, above, block, reduce=True)
            if kind != "reduce":
                for child, above in levels:
                    s.step(above, child, block)
    return s
