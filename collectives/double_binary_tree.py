"""Double binary tree: two trees, each for half of the data, so that all ranks send while they receive.

A rank with children in one tree is a leaf of the other, so none sends or receives more than the buffer (Sanders, Speck
and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 2009; NCCL). The
root, rank 0, is above both trees. All-reduce is a reduce, followed by a broadcast.
"double-binary-tree:K" cuts the half of each tree in K consecutive segments.

In the paper's rounds every rank sends and receives one segment. There are no rounds here, but the order is the same if
no rank runs ahead. In a broadcast all ranks get the trees in turns, as the root sends them. In a reduce a leaf would
send everything at once, and what its rank forwards in the other tree would queue behind that. So a leaf waits for what
reaches its rank in the other tree: `lead` segments, before it sends that one. With many segments the broadcast of an
all-reduce begins when the root has everything, because a link that carries both does not keep them in turns. With few
segments, waiting for all of them would cost more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from pyxsim.collective.arrays import I64
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.explicit_messages import Message, compile_messages
from pyxsim.registry import collectives

SEGMENTS = 8
MANY = 32  # segments from which the broadcast of an all-reduce waits for the reduce
# Segments per level by which a leaf may be ahead, plus a constant: enough to cover messages in flight.
PER_LEVEL, MORE = 2, 1

# A step of a tree: children and their parents.
Level = tuple[I64, I64]


def parent(label: int, n: int) -> int:
    """The parent of a label from 1 to n-1 in their in-order tree: leaves are odd, 0 is above its root.

    A label with k trailing zeros has children 2^(k-1) before and after it, and a parent 2^k away; where that does not
    exist, the next one above it.
    """
    last = label & -label
    up = (label ^ last) | last << 1
    return up if up < n else label ^ last


def tree(n: int, second: bool) -> list[Level]:
    """The levels of a tree of all ranks, from the root down."""
    ups = np.array([0] + [parent(label, n) for label in range(1, n)])
    labels = np.arange(n)
    if n % 2:
        # An even number of labels, reversed: odd ones become even.
        rank = -labels % n
    else:
        # An odd number, shifted by one: the last odd one becomes the first.
        rank = np.where(labels, labels % (n - 1) + 1, 0)
    names = rank if second else labels
    levels, above = [], np.array([0])
    while len(below := np.flatnonzero(np.isin(ups, above) & (labels > 0))):
        levels.append((names[below], names[ups[below]]))
        above = below
    return levels


class Edge(NamedTuple):
    """A rank and its parent. `depth`: edges up to the root."""

    child: int
    above: int
    tree: int
    depth: int


class Pipeline:
    """The messages of both trees, segment by segment."""

    def __init__(self, n: int, segments: int) -> None:
        self.segments = segments
        self.messages: list[Message] = []
        self.edges: list[Edge] = []
        for number in (0, 1):
            for depth, (below, above) in enumerate(tree(n, number == 1), 1):
                ends = zip(below.tolist(), above.tolist(), strict=True)
                self.edges += [Edge(child, parent, number, depth) for child, parent in ends]
        self.children: dict[tuple[int, int], list[int]] = {}
        self.heights: dict[tuple[int, int], int] = {}
        for edge in sorted(self.edges, key=lambda edge: -edge.depth):
            upper, lower = (edge.above, edge.tree), (edge.child, edge.tree)
            self.children.setdefault(upper, []).append(edge.child)
            self.heights[upper] = max(self.heights.get(upper, 0), self.heights.get(lower, 0) + 1)
        # Index in `messages` of those of a reduce and of a broadcast, by lower rank, tree and segment.
        self.up: dict[tuple[int, int, int], int] = {}
        self.down: dict[tuple[int, int, int], int] = {}

    def reduce(self) -> None:
        for segment, edge in self.in_turns(lambda edge: PER_LEVEL * self.heights.get((edge.child, edge.tree), 0)):
            child, above, number, _ = edge
            waits = self.arrived(child, number, segment) or self.arrived(child, 1 - number, segment - self.lead(edge))
            self.up[child, number, segment] = len(self.messages)
            self.messages.append(Message(child, above, (2 * segment + number,), reduce=True, waits=waits))

    def broadcast(self) -> None:
        last = self.segments - 1
        all_there = self.arrived(0, 0, last) + self.arrived(0, 1, last) if self.segments >= MANY else []
        for segment, edge in self.in_turns(lambda edge: PER_LEVEL * edge.depth):
            child, above, number, _ = edge
            if above:
                waits = [self.down[above, number, segment]]
            else:
                waits = self.arrived(0, number, segment) + all_there
            self.down[child, number, segment] = len(self.messages)
            self.messages.append(Message(above, child, (2 * segment + number,), waits=waits))

    def in_turns(self, late: Callable[[Edge], int]) -> Iterator[tuple[int, Edge]]:
        """Yield every segment over every edge, those with the fewest segments and levels before them first."""
        order = [(k + late(edge), edge.tree, i) for i, edge in enumerate(self.edges) for k in range(self.segments)]
        for time, _, i in sorted(order):
            yield time - late(self.edges[i]), self.edges[i]

    def arrived(self, rank: int, number: int, segment: int) -> list[int]:
        """The messages that bring a rank a segment from its children; none before the first segment."""
        below = self.children.get((rank, number), []) if self.up and segment >= 0 else []
        return [self.up[child, number, segment] for child in below]

    def lead(self, edge: Edge) -> int:
        """How many segments a leaf may send before the first one reaches it in the other tree."""
        return PER_LEVEL * self.heights.get((edge.child, 1 - edge.tree), 0) + MORE


@collectives.register("double-binary-tree", aliases=("doubleBinaryTree",), kinds=("all-reduce", "broadcast", "reduce"))
def double_binary_tree(kind: str, n: int, segments: int = SEGMENTS) -> CompiledSchedule:
    pipeline = Pipeline(n, segments)
    if kind != "broadcast":
        pipeline.reduce()
    if kind != "reduce":
        pipeline.broadcast()
    return compile_messages(kind, n, pipeline.messages, algorithm=f"double-binary-tree:{segments}", blocks=2 * segments)
