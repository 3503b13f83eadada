"""The maximum flow between two nodes of a graph, in whole numbers of any size.

Few links are searched in Python, because SciPy takes longer to import than they do; many are given to SciPy, if their
capacities fit into its 32 bits and it is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyxsim.arrays import BoolArray, IntArray

FEW = 1000  # links of a graph up to which Python is as fast as SciPy, with its import
_MOST = 2**31 - 1


class FlowGraph:
    """A directed graph on which many flows are computed, each with other capacities.

    Parameters
    ----------
    nodes
        Their number.
    src, dst
        int64[links]: ends of the links; no two links have the same.
    """

    def __init__(self, nodes: int, src: IntArray, dst: IntArray) -> None:
        self.nodes, self.src, self.dst = nodes, src, dst
        self._pairs: tuple[list[int], list[list[int]]] | None = None

    def flow(self, capacities: Sequence[int], source: int, sink: int) -> tuple[int, BoolArray]:
        """Return the maximum flow, and which nodes are behind its last bottleneck.

        `capacities`: of the links, whole numbers. The links from the other nodes to these, bool[nodes], are a least
        cut, of all least cuts the one with the fewest nodes behind it.
        """
        if len(self.src) > FEW and sum(capacities) <= _MOST:
            try:
                return self._by_scipy(capacities, source, sink)
            except ImportError:
                pass
        return self._by_search(capacities, source, sink)

    def _by_scipy(self, capacities: Sequence[int], source: int, sink: int) -> tuple[int, BoolArray]:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        data = np.array(capacities, np.int32)
        graph: Any = csr_array((data, (self.src, self.dst)), shape=(self.nodes, self.nodes))
        found = maximum_flow(graph, source, sink)
        left = graph - found.flow
        left.data[left.data < 0] = 0
        left.eliminate_zeros()
        behind = np.zeros(self.nodes, np.bool_)
        behind[breadth_first_order(left.T.tocsr(), sink, return_predecessors=False)] = True
        return int(found.flow_value), behind

    def _by_search(self, capacities: Sequence[int], source: int, sink: int) -> tuple[int, BoolArray]:
        """Dinic's algorithm (1970): shortest augmenting paths, level by level, each found from the sink's side."""
        ends, at = self._arcs()
        left = [amount for capacity in capacities for amount in (int(capacity), 0)]
        total = 0
        while True:
            level = self._levels(ends, at, left, sink)
            if level[source] < 0:
                return total, np.array(level) >= 0
            total += _blocking_flow(ends, at, left, level, source, sink)

    def _arcs(self) -> tuple[list[int], list[list[int]]]:
        """The end of each arc, and the arcs at each node; arc 2 i is link i, arc 2 i + 1 the way back."""
        if self._pairs is None:
            src, dst = self.src.tolist(), self.dst.tolist()
            at: list[list[int]] = [[] for _ in range(self.nodes)]
            for link, (a, b) in enumerate(zip(src, dst, strict=True)):
                at[a].append(2 * link)
                at[b].append(2 * link + 1)
            self._pairs = [end for pair in zip(dst, src, strict=True) for end in pair], at
        return self._pairs

    def _levels(self, ends: list[int], at: list[list[int]], left: list[int], sink: int) -> list[int]:
        """The fewest arcs with capacity left from each node to the sink; -1 without a path."""
        level = [-1] * self.nodes
        level[sink] = 0
        front = [sink]
        while front:
            following = []
            for node in front:
                for arc in at[node]:
                    near = ends[arc]
                    if level[near] < 0 and left[arc ^ 1]:
                        level[near] = level[node] + 1
                        following.append(near)
            front = following
        return level


def _blocking_flow(
    ends: list[int], at: list[list[int]], left: list[int], level: list[int], source: int, sink: int
) -> int:
    """Fill paths on which the level falls by one with each arc, until each has a full arc; return their flow."""
    tried = [0] * len(at)
    total = 0
    path: list[int] = []
    node = source
    while True:
        if node == sink:
            amount = min(left[arc] for arc in path)
            total += amount
            for arc in path:
                left[arc] -= amount
                left[arc ^ 1] += amount
            full = next(position for position, arc in enumerate(path) if not left[arc])
            node = ends[path[full] ^ 1]
            del path[full:]
            continue
        arcs = at[node]
        while tried[node] < len(arcs):
            arc = arcs[tried[node]]
            if left[arc] and level[ends[arc]] == level[node] - 1:
                path.append(arc)
                node = ends[arc]
                break
            tried[node] += 1
        else:
            if node == source:
                return total
            arc = path.pop()
            node = ends[arc ^ 1]
            tried[node] += 1
