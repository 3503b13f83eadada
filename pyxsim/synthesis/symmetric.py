"""Trees of networks that look the same from every NPU: one set of trees, moved to every root.

If adding the same coordinates to all NPUs, modulo the shape, maps links to links of the same rate, an edge of a tree of
NPU 0 becomes an edge in each of the trees that the moves make of it. The links that moves map to each other, a *class*,
then carry equally much. It is enough to choose, for every NPU and every tree of NPU 0, the class of the edge that
reaches it, so that classes carry data in proportion to their rates, which is a bipartite matching. Tori, hypercubes,
fully connected groups, switches and their products have this symmetry; meshes and networks with a dead link do not.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.custom.forest import Forest
from pyxsim.synthesis.balanced import Growth
from pyxsim.synthesis.link_graph import LinkGraph

MOST_TREES = 8  # of a root along shortest paths; more even out the classes better
GROWN = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # of a root along any paths


@dataclass(frozen=True)
class NetworkSymmetry:
    """The edges out of NPU 0, which the moves map to those of all others.

    Attributes
    ----------
    ends
        Where each edge leads.
    classes
        Of the links on the route of each edge.
    rate
        Of each class, per NPU.
    main
        The class of each edge with the smallest rate.
    graph
        The network, in the shape in which moves add coordinates.
    """

    ends: list[int]
    classes: list[list[int]]
    rate: list[Fraction]
    main: list[int]
    graph: LinkGraph

    @cached_property
    def sums(self) -> IntArray:
        """int64[npus, npus]: the NPU whose coordinates are the sum of those of two, modulo the shape."""
        at = _coordinates(self.graph)
        weight = np.cumprod([1, *self.graph.shape[:-1]])
        return np.asarray(((at[:, None] + at[None]) % np.array(self.graph.shape) * weight).sum(axis=2), np.int64)

    @cached_property
    def moved_edges(self) -> dict[tuple[int, int], int]:
        """Of all adjacent NPUs (from, to), the edge out of NPU 0 that a move maps there."""
        plus = self.sums[self.ends]
        return {(npu, int(to)): edge for edge, row in enumerate(plus) for npu, to in enumerate(row)}


def symmetric_forest(graph: LinkGraph, time: Fraction) -> Forest | None:
    """Return the fewest trees per root, at most MOST_TREES, that take at most 1 % more than the bound, else the best.

    `time`: the bound, for data of 1 at every NPU. None for a network without the symmetry: neither in its own shape nor
    in rows of equal length, such as the boxes of a cluster.
    """
    symmetry = symmetry_of(graph)
    return None if symmetry is None else _fewest(symmetry.graph, symmetry, time)


def symmetry_of(graph: LinkGraph) -> NetworkSymmetry | None:
    """Return how the network looks the same from every NPU: in its own shape or in rows of equal length; else None."""
    n = graph.npus
    for shape in dict.fromkeys([graph.shape, *((row, n // row) for row in range(2, n) if n % row == 0)]):
        if (symmetry := _symmetry(graph.with_shape(shape))) is not None:
            return symmetry
    return None


def _fewest(graph: LinkGraph, symmetry: NetworkSymmetry, time: Fraction) -> Forest | None:
    options = _options(graph, symmetry)
    if options is None:
        return None
    best, least = None, None
    for trees in range(1, MOST_TREES + 1):
        chosen, slow = _balanced(options, symmetry, trees)
        slow /= trees
        if least is None or slow < least:
            best, least = chosen, slow
        if slow <= time * Fraction(101, 100):
            break
    assert best is not None
    assert least is not None
    if least > time * Fraction(101, 100):
        best = _grown(graph, symmetry, time, least) or best
    return _moved(graph, symmetry, best)


def _grown(
    graph: LinkGraph, symmetry: NetworkSymmetry, time: Fraction, least: Fraction
) -> list[list[tuple[int, int]]] | None:
    """Return trees of NPU 0 that leave the shortest paths, in which classes take less than `least`; None without."""
    of = symmetry.moved_edges
    ways = [symmetry.classes[edge] for edge in of.values()]
    each = [float(1 / rate) for rate in symmetry.rate]
    best = None
    for trees in GROWN:
        growth = Growth(graph.npus, [0] * trees, list(of), ways, each)
        growth.run(float(time) * trees, math.inf)
        if growth.time / trees < least:
            least = Fraction(growth.time) / trees
            best = [
                [(of[before, npu], before) if before >= 0 else (-1, -1) for npu, before in enumerate(parent)]
                for parent in growth.parents
            ]
        if least <= time * Fraction(101, 100):
            break
    return best


def _coordinates(graph: LinkGraph) -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(graph.npus), graph.shape[::-1])[::-1], axis=1)


def _symmetry(graph: LinkGraph) -> NetworkSymmetry | None:
    if int(np.prod(graph.shape)) != graph.npus:
        return None
    src, dst, route = graph.pairs
    shape, at = np.array(graph.shape), _coordinates(graph)
    weight = np.cumprod([1, *graph.shape[:-1]])
    move = ((at[dst] - at[src]) % shape * weight).sum(axis=1)
    ends, count = np.unique(move, return_counts=True)
    if (count != graph.npus).any() or not len(ends):
        return None
    group = np.arange(len(graph.src))

    def find(link: int) -> int:
        while group[link] != link:
            group[link] = group[group[link]]
            link = int(group[link])
        return link

    order = np.argsort(move, kind="stable").reshape(len(ends), graph.npus)
    for edges in order:
        for hop in route[edges].T:
            links = np.unique(hop[hop >= 0])
            for link in links[1:].tolist():
                group[find(link)] = find(int(links[0]))
    roots = np.array([find(link) for link in range(len(group))])
    _, of = np.unique(roots, return_inverse=True)
    if any(len(set(graph.rate[of == kind].tolist())) > 1 for kind in range(of.max() + 1)):
        return None
    rate = [Fraction(int(graph.rate[of == kind].sum()), graph.npus) for kind in range(of.max() + 1)]
    classes = [[int(of[link]) for link in route[edges[0]].tolist() if link >= 0] for edges in order]
    main = [min(kinds, key=lambda kind: rate[kind]) for kinds in classes]
    return NetworkSymmetry(ends.tolist(), classes, rate, main, graph)


def _options(graph: LinkGraph, symmetry: NetworkSymmetry) -> list[list[tuple[int, int]]] | None:
    """Per NPU, the edges that may reach it, with the NPU before it, one hop closer to NPU 0; None if one is out of
    reach."""
    plus = symmetry.sums[symmetry.ends]  # [edge, npu]
    distance = np.full(graph.npus, -1)
    distance[0], level = 0, np.array([0])
    while len(level):
        following = np.unique(plus[:, level])
        following = following[distance[following] < 0]
        distance[following] = distance[level[0]] + 1
        level = following
    if (distance < 0).any():
        return None
    options: list[list[tuple[int, int]]] = [[] for _ in range(graph.npus)]
    for edge, row in enumerate(plus):
        for npu in np.flatnonzero(distance[row] == distance + 1).tolist():
            options[row[npu]].append((edge, npu))
    return options


def _balanced(
    options: list[list[tuple[int, int]]], symmetry: NetworkSymmetry, trees: int
) -> tuple[list[list[tuple[int, int]]], Fraction]:
    """Return the (edge, NPU before) of every tree and NPU, and the time of the slowest class.

    Greedy first; then NPUs move from the slowest class along a path of classes to one that stays faster, until there
    is no such path, which is optimal for edges that load one class.
    """
    jobs = [(tree, npu) for tree in range(trees) for npu in range(1, len(options))]
    jobs.sort(key=lambda job: len({symmetry.main[edge] for edge, _ in options[job[1]]}))
    load = [0] * len(symmetry.rate)
    chosen: dict[tuple[int, int], tuple[int, int]] = {}
    used: defaultdict[int, int] = defaultdict(int)
    can: list[dict[int, list[tuple[int, int]]]] = []
    for choices in options:
        by_class = defaultdict[int, list[tuple[int, int]]](list)
        for choice in choices:
            by_class[symmetry.main[choice[0]]].append(choice)
        can.append(dict(by_class))

    def take(job: tuple[int, int], kind: int) -> None:
        choice = min(can[job[1]][kind], key=lambda choice: used[choice[0]])
        used[choice[0]] += 1
        load[kind] += 1
        chosen[job] = choice

    members: defaultdict[int, dict[tuple[int, int], None]] = defaultdict(dict)
    for job in jobs:
        kind = min(can[job[1]], key=lambda kind: Fraction(load[kind] + 1) / symmetry.rate[kind])
        take(job, kind)
        members[kind][job] = None
    while True:
        busy = max(members, key=lambda kind: load[kind] / symmetry.rate[kind])
        most = load[busy] / symmetry.rate[busy]
        path = _relief(busy, most, load, symmetry.rate, members, can)
        if not path:
            break
        for job, old, new in path:
            used[chosen[job][0]] -= 1
            load[old] -= 1
            del members[old][job]
            take(job, new)
            members[new][job] = None
    result = [[(-1, -1)] * len(options) for _ in range(trees)]
    for (tree, npu), choice in chosen.items():
        result[tree][npu] = choice
    total = [0] * len(symmetry.rate)
    for edge, _ in chosen.values():
        for kind in symmetry.classes[edge]:
            total[kind] += 1
    return result, max(count / rate for count, rate in zip(total, symmetry.rate, strict=True) if rate)


def _relief(
    busy: int,
    most: Fraction,
    load: list[int],
    rate: list[Fraction],
    members: defaultdict[int, dict[tuple[int, int], None]],
    can: list[dict[int, list[tuple[int, int]]]],
) -> list[tuple[tuple[int, int], int, int]]:
    """Return moves (job, class, new class) after which no class is as slow as `busy` that was not before; or none."""
    came: dict[int, tuple[tuple[int, int], int]] = {}
    waiting, seen = [busy], {busy}
    for kind in waiting:
        for job in members[kind]:
            for other in can[job[1]]:
                if other in seen:
                    continue
                seen.add(other)
                came[other] = job, kind
                if (load[other] + 1) / rate[other] < most:
                    path = []
                    at = other
                    while at != busy:
                        job, before = came[at]
                        path.append((job, before, at))
                        at = before
                    return path
                waiting.append(other)
    return []


def _moved(graph: LinkGraph, symmetry: NetworkSymmetry, chosen: list[list[tuple[int, int]]]) -> Forest:
    """Return the trees of all roots: those of NPU 0, with its coordinates added to those of all NPUs."""
    n, trees = graph.npus, len(chosen)
    parent = np.array([[npu for _, npu in tree] for tree in chosen])
    step = _steps(symmetry, chosen)
    plus = symmetry.sums
    root = np.repeat(np.arange(n), trees)
    tree = np.tile(np.arange(trees), n)
    parents, steps = np.full((n * trees, n), -1, np.int32), np.full((n * trees, n), -1, np.int32)
    rows = np.arange(n * trees)[:, None]
    children = plus[root]
    moved = np.where(parent[tree] >= 0, plus[root[:, None], np.maximum(parent[tree], 0)], -1)
    parents[rows, children] = moved
    steps[rows, children] = step[tree]
    of = np.arange(n * trees, dtype=np.int32) % trees
    return Forest(n, trees, root.astype(np.int32), of, np.ones(n * trees, np.int32), parents, steps)


def _steps(symmetry: NetworkSymmetry, chosen: list[list[tuple[int, int]]]) -> np.ndarray:
    """int[trees, npus]: when the edges of the trees of NPU 0 are used, one after the other in each class.

    What has the most edges below it goes first.
    """
    children: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for tree, edges in enumerate(chosen):
        for npu, (edge, before) in enumerate(edges):
            if edge >= 0:
                children[tree, before].append(npu)
    height: dict[tuple[int, int], int] = {}
    for tree in range(len(chosen)):
        order = [0]
        for npu in order:
            order += children.get((tree, npu), [])
        for npu in reversed(order):
            height[tree, npu] = max((height[tree, child] + 1 for child in children.get((tree, npu), ())), default=0)
    free: dict[int, Fraction] = defaultdict(Fraction)
    start: dict[tuple[int, int], Fraction] = {}
    ready: defaultdict[Fraction, list[tuple[int, int]]] = defaultdict(list)
    times = [Fraction(0)]
    queue: dict[tuple[int, int], None] = {}
    ready[Fraction(0)] = [(tree, child) for tree in range(len(chosen)) for child in children.get((tree, 0), ())]
    while times:
        now = heapq.heappop(times)
        while times and times[0] == now:
            heapq.heappop(times)
        queue.update(dict.fromkeys(ready.pop(now, ())))
        for job in sorted(queue, key=lambda job: -height[job]):
            tree, npu = job
            edge = chosen[tree][npu][0]
            kinds = symmetry.classes[edge]
            if any(free[kind] > now for kind in kinds):
                continue
            del queue[job]
            start[job] = now
            for kind in kinds:
                free[kind] = max(free[kind], now) + 1 / symmetry.rate[kind]
            end = now + 1 / symmetry.rate[symmetry.main[edge]]
            ready[end] += [(tree, child) for child in children.get(job, ())]
            for time in {end, *(free[kind] for kind in kinds)}:
                heapq.heappush(times, time)
    number = {time: at for at, time in enumerate(sorted(set(start.values())))}
    step = np.full((len(chosen), len(chosen[0])), -1)
    for (tree, npu), time in start.items():
        step[tree, npu] = number[time]
    return step
