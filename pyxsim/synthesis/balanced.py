"""Spanning trees that load the links evenly, grown one after the other.

A tree takes, of the edges to a further NPU, the one whose busiest link will be through first with all it carries so
far; of equal ones, that closest to the root. If edges are links, this is the greedy tree packing, whose rate approaches
the largest possible one as trees become more (S. Plotkin, D. Shmoys and E. Tardos, "Fast approximation algorithms for
fractional packing and covering problems", 1995; M. Thorup, "Minimum k-way cuts via deterministic greedy tree packing",
2008). Over switches, an edge loads all links of its route at once. Then trees are grown again, one at a time, while
that relieves the busiest link; the last time, links count only where they would become busier than the busiest one, so
that trees get no deeper than they must.

The trees of an all-gather begin at every NPU. Those of an all-reduce add up and return a part of the buffer and may
begin anywhere: each loads the links of its edges in both directions. They begin at NPUs in the middle of the network
and stay near shortest paths, as long as this loads the links evenly: deep trees fill and drain slowly.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.collective.custom.forest import Forest
from pyxsim.synthesis.link_graph import LinkGraph

MOST_ROUNDS = 6  # in which all trees are grown again
SLACK = 2  # levels by which trees of an all-reduce may be deeper, at each NPU, than its distance from the root
CENTRAL = 1.3  # of the smallest distance to all others: that of the roots of such trees
_CLOSE = 1.01  # times the bound: where such trees take longer, any trees are tried
_ENOUGH = 1.005  # times the bound: further rounds are not worth their time


def gather_trees(graph: LinkGraph, units: int, bound: Fraction, *, seconds: float = 60.0) -> Forest | None:
    """Return an all-gather of `units` trees from every NPU.

    Parameters
    ----------
    bound
        Its least time, for data of 1 at every NPU at link rates in units of the graph.
    seconds
        CPU time after which the search ends: with the trees of the last round, or None in the first one.
    """
    order = np.random.default_rng(0)
    roots = [root for _ in range(units) for root in order.permutation(graph.npus).tolist()]
    growth = _growth(graph, roots, both_ways=False)
    if not growth.run(float(bound) * units, time.process_time() + seconds):
        return None
    unit = np.repeat(np.arange(units, dtype=np.int32), graph.npus)
    return _forest(growth, roots, unit, units).by_depth()


def reduce_trees(graph: LinkGraph, units: int, bound: Fraction, *, seconds: float = 60.0) -> Forest | None:
    """Return an all-reduce of `units` trees, each for a part of the buffer and with its root in the middle.

    `bound`: the least time of the all-reduce, for a buffer of as many bytes as NPUs; `seconds` as above. Only edges
    between NPUs that are adjacent in both directions count. Raises UnreachedError if these do not connect all NPUs.
    """
    deadline = time.process_time() + seconds
    least = float(bound) * units / graph.npus
    random = np.random.default_rng(0)
    growth = _growth(graph, [], both_ways=True)
    distance = growth.distances()
    central = np.flatnonzero(distance.max(axis=1) <= CENTRAL * distance.max(axis=1).min())
    growth.roots = roots = random.choice(central, size=units).tolist()
    growth.deepest = (distance + SLACK).tolist()
    if not growth.run(least, deadline):
        return None
    if growth.time > least * _CLOSE:
        any_roots = random.integers(graph.npus, size=units).tolist()
        deep = _growth(graph, any_roots, both_ways=True)
        if deep.run(least, deadline) and deep.time * _CLOSE < growth.time:
            growth, roots = deep, any_roots
    for tree, parent in enumerate(growth.parents):
        roots[tree] = _centered(parent, roots[tree])
    unit = np.arange(units, dtype=np.int32)
    forest = _forest(growth, roots, unit, units)
    # Reduce all, then return all; timing.py puts them in a better order.
    depth = forest.depth
    last = int(depth.max(initial=0))
    inner = forest.parent >= 0
    up = np.where(inner, last - depth, -1).astype(np.int32)
    step = np.where(inner, last + depth - 1, -1).astype(np.int32)
    return Forest(graph.npus, units, forest.root, forest.first, forest.count, forest.parent, step, up)


class UnreachedError(ValueError):
    """Some NPUs are not connected with the others."""


class Growth:
    """Trees under way, and what each link carries.

    Attributes
    ----------
    parents
        For every tree, the NPU before each NPU; -1 at the root.
    load
        Trees of each link.
    deepest
        For every root, how deep each NPU may be in its trees; None: as deep as it is.
    """

    def __init__(
        self, n: int, roots: Sequence[int], edges: Sequence[tuple[int, int]], ways: list[list[int]], each: list[float]
    ) -> None:
        """`edges`: from, to; `ways`: the links that each loads; `each`: the time of a tree on each link."""
        self.n, self.roots, self.ways, self.each = n, list(roots), ways, each
        self.edge = {pair: at for at, pair in enumerate(edges)}
        self.out: list[list[tuple[int, int]]] = [[] for _ in range(n)]
        for at, (a, b) in enumerate(edges):
            self.out[a].append((at, b))
        uses = [0] * len(each)
        for way in ways:
            for link in way:
                uses[link] += 1
        self.shared = max(uses, default=0) > 2  # a tree may load a link with more than one edge
        self.load = [0] * len(each)
        self.parents: list[list[int]] = []
        self.deepest: list[list[int]] | None = None

    def distances(self) -> IntArray:
        """int64[npus, npus]: edges from each NPU to each. Raises UnreachedError."""
        distance = np.full((self.n, self.n), -1)
        for root, row in enumerate(distance):
            row[root], order = 0, [root]
            for npu in order:
                new = [to for _, to in self.out[npu] if row[to] < 0]
                row[new] = row[npu] + 1
                order += new
            if (row < 0).any():
                raise UnreachedError(f"NPU {int(np.argmin(row))} is not connected with NPU {root}")
        return distance

    def run(self, bound: float, deadline: float) -> bool:
        """Grow all trees, and again while that helps; `bound`: the time below which no link gets. False if too late."""
        for root in self.roots:
            if time.process_time() > deadline:
                return False
            self.parents.append(self._grown(root, 0.0))
        order = np.random.default_rng(1)
        best, kept = self.time, [list(parent) for parent in self.parents]
        for _ in range(MOST_ROUNDS):
            if best <= bound * _ENOUGH or not self._again(order, 0.0, deadline):
                break
            if self.time < best:
                best, kept = self.time, [list(parent) for parent in self.parents]
        self._reset(kept)
        # As shallow as the busiest link allows.
        if self._again(order, best * (1 + 1e-9), deadline) and self.time <= best * (1 + 1e-9):
            return True
        self._reset(kept)
        return True

    @property
    def time(self) -> float:
        """Of the busiest link."""
        return max(load * each for load, each in zip(self.load, self.each, strict=True))

    def _again(self, order: np.random.Generator, free: float, deadline: float) -> bool:
        """Grow every tree again while all others stay. False if there was not enough time."""
        for tree in order.permutation(len(self.roots)).tolist():
            if time.process_time() > deadline:
                return False
            self._count(self.parents[tree], -1)
            self.parents[tree] = self._grown(self.roots[tree], free)
        return True

    def _reset(self, parents: list[list[int]]) -> None:
        self.parents = parents
        self.load = [0] * len(self.load)
        for parent in parents:
            self._count(parent, 1)

    def _count(self, parent: list[int], by: int) -> None:
        for npu, before in enumerate(parent):
            if before >= 0:
                for link in self.ways[self.edge[before, npu]]:
                    self.load[link] += by

    def _grown(self, root: int, free: float) -> list[int]:
        """Return the tree of a root, and count it; links cost nothing until they would take longer than `free`."""
        load, each, ways, out, shared = self.load, self.each, self.ways, self.out, self.shared
        parent, depth = [-1] * self.n, [-1] * self.n
        deepest = [self.n] * self.n if self.deepest is None else self.deepest[root]
        depth[root] = 0
        heap: list[tuple[float, int, int, int, int]] = []
        npu, left = root, self.n - 1
        while True:
            level = depth[npu] + 1
            for edge, to in out[npu]:
                if depth[to] < 0 and level <= deepest[to]:
                    cost = max([(load[link] + 1) * each[link] for link in ways[edge]])
                    heapq.heappush(heap, (cost if cost > free else 0.0, level, edge, npu, to))
            if not left:
                return parent
            while True:
                if not heap:
                    raise UnreachedError(f"NPU {depth.index(-1)} is not connected with NPU {root}")
                cost, level, edge, before, npu = heapq.heappop(heap)
                if depth[npu] >= 0:
                    continue
                if shared:  # the edges since then may have loaded its links
                    now = max([(load[link] + 1) * each[link] for link in ways[edge]])
                    if now > max(cost, free):
                        heapq.heappush(heap, (now, level, edge, before, npu))
                        continue
                break
            depth[npu], parent[npu] = level, before
            left -= 1
            for link in ways[edge]:
                load[link] += 1


def _growth(graph: LinkGraph, roots: Sequence[int], *, both_ways: bool) -> Growth:
    src, dst, route = (values.tolist() for values in graph.pairs)
    ways = [[link for link in way if link >= 0] for way in route]
    edges = list(zip(src, dst, strict=True))
    if both_ways:
        number = {pair: at for at, pair in enumerate(edges)}
        edges = [(a, b) for a, b in edges if (b, a) in number]
        ways = [ways[number[a, b]] + ways[number[b, a]] for a, b in edges]
    return Growth(graph.npus, roots, edges, ways, (1 / graph.rate).tolist())


def _forest(growth: Growth, roots: Sequence[int], first: NDArray[np.int32], units: int) -> Forest:
    """Return the trees, with steps that mean nothing yet."""
    parent = np.array(growth.parents, np.int32)
    count = np.ones(len(parent), np.int32)
    return Forest(growth.n, units, np.array(roots, np.int32), first, count, parent, parent)


def _centered(parent: list[int], root: int) -> int:
    """Move the root of a tree to the middle of its longest path, and return it."""
    beside: list[list[int]] = [[] for _ in parent]
    for npu, before in enumerate(parent):
        if before >= 0:
            beside[npu].append(before)
            beside[before].append(npu)

    def search(start: int) -> tuple[list[int], list[int]]:
        before, order = [-1] * len(parent), [start]
        for npu in order:
            for other in beside[npu]:
                if other != before[npu]:
                    before[other] = npu
                    order.append(other)
        return before, order

    end = search(root)[1][-1]
    up, order = search(end)
    path = [order[-1]]
    while up[path[-1]] >= 0:
        path.append(up[path[-1]])
    middle = path[len(path) // 2]
    parent[:] = search(middle)[0]
    return middle
