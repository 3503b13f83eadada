"""Packings of spanning trees that reach the bottleneck cut, for any graph of some dozen NPUs.

As ForestColl (L. Zhao and others, arXiv 2402.06787): rates become whole numbers of trees, k trees begin at every NPU,
and links over switches become links between NPUs so that every NPU still receives k trees from every other one. Trees
then grow edge by edge. An edge may carry as many copies of a tree as leave room for all others (K. Berczi and A. Frank,
"Packing arborescences", 2009): for the part of the network behind the edge, what enters it covers all trees that are
not there yet, which a maximum flow measures.

Links over switches take the routes of the network, each route the same share of its links as far as possible, so that
the messages of the simulated network cross the links that the packing counts on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.collective.custom.forest import Forest, forest_of
from pyxsim.synthesis.link_graph import LinkGraph

MOST_NPUS = 64
MOST_TREES = 48  # of a root
_SLACK = (Fraction(0), Fraction(1, 200), Fraction(1, 100), Fraction(1, 50), Fraction(1, 25), Fraction(1, 10))
_MOST_FLOW = 2**31 - 1  # of scipy's maximum flow


def packed_forest(graph: LinkGraph, bandwidth: Fraction, *, seconds: float = 60.0) -> Forest | None:
    """Return the packing whose rate is closest to the bound, of at most MOST_TREES trees per root.

    `bandwidth`: the bound, in units of the graph. None if no packing is found within `seconds` of CPU time, or for more
    than MOST_NPUS NPUs.
    """
    if graph.npus > MOST_NPUS:
        return None
    deadline = time.process_time() + seconds
    for trees, capacity in _capacities(graph, bandwidth / graph.npus, deadline):
        packed = _Packing(capacity, trees).run(deadline)
        if packed is not None:
            return packed
    return None


def _capacities(graph: LinkGraph, rate: Fraction, deadline: float) -> Iterator[tuple[int, IntArray]]:
    """Yield trees per root and whole capacities between NPUs that allow them, those closest to the bound first."""
    exact = lcm(*((Fraction(int(each)) / rate).denominator for each in np.unique(graph.rate)))
    choices = _route_choices(graph)
    for slack in _SLACK:
        counts = list(range(1, MOST_TREES + 1))
        if not slack:
            counts = [exact * times for times in range(1, MOST_TREES // exact + 1)] if exact <= MOST_TREES else []
        for trees in counts:
            if time.process_time() > deadline:
                return
            scale = trees * (1 + slack) / rate
            whole = np.array([int(each * scale) for each in graph.rate.tolist()], np.int64)
            if whole.sum() * 2 + trees * graph.npus > _MOST_FLOW or not _may_do(graph, whole, trees):
                continue
            for used in choices:
                capacity = _between_npus(graph, whole, used)
                if _allows(capacity, trees):
                    yield trees, capacity
                    break


def _may_do(graph: LinkGraph, whole: IntArray, trees: int) -> bool:
    """Whether enough enters each NPU and leaves it."""
    least = trees * (graph.npus - 1)
    enters = np.bincount(graph.dst, weights=whole, minlength=graph.nodes)[: graph.npus]
    return bool((enters >= least).all()) and bool((whole[graph.src < graph.npus] >= 0).all())


def _route_choices(graph: LinkGraph) -> list[NDArray[np.bool_]]:
    """Return which routes to use: all, or those over switches only between groups that nothing else connects."""
    src, dst, route = graph.pairs
    every = np.ones(len(src), bool)
    if not 1 < len(np.unique(graph.boxes)) < graph.npus:
        return [every]
    return [every, ((route >= 0).sum(axis=1) == 1) | (graph.boxes[src] != graph.boxes[dst])]


def _between_npus(graph: LinkGraph, whole: IntArray, used: NDArray[np.bool_]) -> IntArray:
    """int64[npus, npus]: whole shares of the routes between adjacent NPUs in the capacities of their links.

    All routes get equally much until a link is full. What is left of links goes to the routes in turns, those over the
    same distance in the numbers of NPUs at once.
    """
    src, dst, route = graph.pairs
    padded = np.where(route >= 0, route, len(whole))
    left = np.append(whole, _MOST_FLOW)
    share = np.zeros(len(src), np.int64)
    open_ = used & (left[padded].min(axis=1) > 0)
    while open_.any():
        on = np.bincount(padded[open_].ravel(), minlength=len(left))
        on[-1] = 0
        each = int((left[on > 0] // on[on > 0]).min())
        if each:
            share[open_] += each
            left -= each * on
        else:
            # A unit each, in an order in which the routes of a turn share few links.
            for pair in np.flatnonzero(open_)[np.argsort(((dst - src) % graph.npus)[open_], kind="stable")].tolist():
                if (left[padded[pair]] > 0).all():
                    share[pair] += 1
                    left[route[pair][route[pair] >= 0]] -= 1
        left[-1] = _MOST_FLOW
        open_ &= left[padded].min(axis=1) > 0
    capacity = np.zeros((graph.npus, graph.npus), np.int64)
    capacity[src, dst] = share
    return capacity


def _allows(capacity: IntArray, trees: int) -> bool:
    """Whether every NPU can receive `trees` from every other one at once."""
    n = len(capacity)
    flow = np.zeros((n + 1, n + 1), np.int32)
    flow[:n, :n] = capacity
    flow[n, :n] = trees
    enters = capacity.sum(axis=0)
    return all(_max_flow(flow, n, target)[0] >= trees * n for target in np.argsort(enters).tolist())


def _max_flow(capacity: Any, source: int, target: int) -> tuple[int, Any]:
    """Return the maximum flow (capacities: int32[nodes, nodes]) and what is left of the capacities."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_flow

    result = maximum_flow(csr_matrix(capacity), source, target)
    return int(result.flow_value), result.flow


@dataclass
class _Tree:
    """Some copies of a tree under way: the NPUs that it has reached, in this order, and their parents."""

    reached: list[int]
    parent: list[int]
    copies: int


class _Packing:
    """Grows the trees of one root after the other."""

    def __init__(self, capacity: IntArray, trees: int) -> None:
        self.capacity = capacity.copy()
        self.n, self.trees = len(capacity), trees
        self.waiting = np.ones(self.n, bool)  # roots whose trees have not begun
        # Sets of NPUs that what enters them just suffices for: they stay so, and a tree inside uses no edge into them.
        self.tight = np.zeros((0, self.n), bool)

    def run(self, deadline: float) -> Forest | None:
        """Return the forest; None after the deadline."""
        rows: list[tuple[int, int, int, IntArray | list[int], IntArray | list[int]]] = []
        for root in range(self.n):
            self.waiting[root] = False
            under_way = [_Tree([root], [-1] * self.n, self.trees)]
            first = 0
            while under_way:
                tree = under_way[-1]
                if len(tree.reached) == self.n:
                    under_way.pop()
                    rows.append((root, first, tree.copies, tree.parent, [-1] * self.n))
                    first += tree.copies
                    continue
                if time.process_time() > deadline or not self._grow(tree, under_way):
                    return None
        forest = forest_of(self.n, self.trees, rows)
        return forest.by_depth()

    def _grow(self, tree: _Tree, under_way: list[_Tree]) -> bool:
        """Add an edge to a tree; copies that the edge cannot carry become a tree of their own. False if none can."""
        outside = np.ones(self.n, bool)
        outside[tree.reached] = False
        inside = self.tight[self.tight[:, tree.reached].any(axis=1)]
        for before in tree.reached:
            row = np.where(outside, self.capacity[before], 0)
            row[inside[~inside[:, before]].any(axis=0)] = 0
            for npu in np.argsort(-row, kind="stable")[: int((row > 0).sum())].tolist():
                copies = min(tree.copies, int(row[npu]))
                room, behind = self._room(before, npu, tree, under_way)
                if room <= copies:
                    self.tight = np.concatenate([self.tight, behind[None]])
                copies = min(copies, room)
                if copies <= 0:
                    continue
                if copies < tree.copies:
                    under_way.insert(-1, _Tree(tree.reached.copy(), tree.parent.copy(), tree.copies - copies))
                    tree.copies = copies
                self.capacity[before, npu] -= copies
                tree.reached.append(npu)
                tree.parent[npu] = before
                return True
        return False

    def _room(self, before: int, npu: int, tree: _Tree, under_way: list[_Tree]) -> tuple[int, NDArray[np.bool_]]:
        """How many copies an edge may carry so that all other trees can still be completed.

        And the set of NPUs behind the edge that allows no more.
        """
        others = [each for each in under_way if each is not tree and len(each.reached) > 1]
        alone = sum(each.copies for each in under_way if each is not tree and len(each.reached) == 1)
        n = self.n
        flow = np.zeros((n + len(others), n + len(others)), np.int32)
        flow[:n, :n] = self.capacity
        flow[before, :n] += np.where(self.waiting, self.trees, 0).astype(np.int32)
        if alone:
            flow[before, under_way[0].reached[0]] += alone
        flow[before, before] = 0
        for number, each in enumerate(others, n):
            flow[before, number] = each.copies
            flow[number, each.reached] = each.copies
        taken = int(self.waiting.sum()) * self.trees + alone + sum(each.copies for each in others)
        value, carried = _max_flow(flow, before, npu)
        left = flow - carried.toarray() > 0
        reached = np.zeros(len(flow), bool)
        reached[before] = True
        while (further := left[reached].any(axis=0) & ~reached).any():
            reached |= further
        return value - taken, ~reached[:n]
