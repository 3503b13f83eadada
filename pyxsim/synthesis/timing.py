"""When the edges of a forest are used: list scheduling on the links of their routes."""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np

from pyxsim.collective.custom.forest import Forest
from pyxsim.synthesis.link_graph import LinkGraph


def timed(graph: LinkGraph, forest: Forest) -> Forest:
    """Return the forest with steps in the order in which a greedy schedule uses its edges.

    An edge occupies each link of its route as long as the link takes for its units, and what it brings can be passed on
    when the slowest link is through. Of the edges that could begin at the same time, the one with the most levels below
    it goes first.
    """
    src, dst, route = graph.pairs
    pair = {(a, b): at for at, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True))}
    ways = [[link for link in way if link >= 0] for way in route.tolist()]
    rate = graph.rate.tolist()
    parent, count = forest.parent.tolist(), forest.count.tolist()
    height = _height(forest).tolist()
    children = [[list[int]() for _ in range(forest.n)] for _ in parent]
    for tree, row in enumerate(parent):
        for npu, before in enumerate(row):
            if before >= 0:
                children[tree][before].append(npu)
    free = [0.0] * len(rate)
    start = np.full(forest.parent.shape, -1.0)
    queue: list[tuple[float, int, int, int]] = []
    for tree, root in enumerate(forest.root.tolist()):
        queue += [(0.0, -height[tree][npu], npu - root, tree) for npu in children[tree][root]]
    heapq.heapify(queue)
    while queue:
        at, level, turn, tree = heapq.heappop(queue)
        npu = turn + int(forest.root[tree])
        way = ways[pair[parent[tree][npu], npu]]
        begin = max(at, *(free[link] for link in way))
        if begin > at:
            heapq.heappush(queue, (begin, level, turn, tree))
            continue
        start[tree, npu] = begin
        end = begin
        for link in way:
            free[link] = begin + count[tree] / rate[link]
            end = max(end, free[link])
        for child in children[tree][npu]:
            heapq.heappush(queue, (end, -height[tree][child], child - int(forest.root[tree]), tree))
    # Rounded, so that equal times are one step.
    begins = np.round(start / max(start.max(), 1e-30), 9)
    times = np.unique(begins[begins >= 0])
    step = np.where(start >= 0, np.searchsorted(times, begins), -1).astype(np.int32)
    return _increasing(replace(forest, step=step))


def _height(forest: Forest) -> np.ndarray:
    """int[trees, npus]: levels below each NPU."""
    height = np.zeros(forest.parent.shape, np.int64)
    for level in range(int(forest.depth.max(initial=0)), 0, -1):
        tree, child = np.nonzero(forest.depth == level)
        np.maximum.at(height, (tree, forest.parent[tree, child]), height[tree, child] + 1)
    return height


def _increasing(forest: Forest) -> Forest:
    """Return the forest with every step later than that of the edge before it."""
    step = forest.step.copy()
    for level in range(1, int(forest.depth.max(initial=0)) + 1):
        tree, child = np.nonzero(forest.depth == level)
        step[tree, child] = np.maximum(step[tree, child], step[tree, forest.parent[tree, child]] + 1)
    return replace(forest, step=step)
