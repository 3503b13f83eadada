"""Paths of an all-to-all that load the links evenly, chosen one after the other.

Each part of the data from an NPU to another one takes the path whose links cost the least, where the cost of a link
grows exponentially with the time that it is busy: the multiplicative weights that approach the maximum concurrent flow
(N. Garg and J. Koenemann, "Faster and simpler algorithms for multicommodity flow", 1998; L. Fleischer, 2000), here with
whole parts. Then parts choose again, one at a time, with costs that grow faster in each round, until no link is busy
for longer than the bound, or parts are too large to come closer.

If the network looks the same from every NPU, only the paths of NPU 0 are chosen; moves make those of all others.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pyxsim.collective.custom.paths import Paths, paths_of
from pyxsim.synthesis.balanced import UnreachedError
from pyxsim.synthesis.link_graph import LinkGraph
from pyxsim.synthesis.symmetric import NetworkSymmetry, symmetry_of

STEEPNESS = (1, 3, 9, 27, 81, 243)  # of the costs of each round: growth for a bound's worth of time
_IDLE = 1e-3  # of the cost of a link that is busy as long as the bound: an idle one is not free, so paths stay short
_ENOUGH = 1.001  # times the bound: further rounds are not worth their time


def balanced_paths(graph: LinkGraph, units: int, bound: Fraction, *, seconds: float = 60.0) -> Paths | None:
    """Return paths for `units` equal parts of what each NPU has for each other one, with steps that mean nothing yet.

    Parameters
    ----------
    bound
        The least time of the all-to-all, for data of 1 at every NPU, equally much for each, at link rates in units of
        the graph.
    seconds
        CPU time after which the search ends: with the paths of the last round, or None in the first one.

    Raises
    ------
    UnreachedError
        If some NPU is not connected with another one.
    """
    deadline = time.process_time() + seconds
    target = float(bound) * units * graph.npus
    symmetry = symmetry_of(graph)
    if symmetry is not None:
        edges = list(symmetry.moved_edges)
        ways = [symmetry.classes[edge] for edge in symmetry.moved_edges.values()]
        each = [float(1 / rate) for rate in symmetry.rate]
        sources = [0]
    else:
        src, dst, route = (values.tolist() for values in graph.pairs)
        edges, ways = list(zip(src, dst, strict=True)), [[link for link in way if link >= 0] for way in route]
        each = (1 / graph.rate).tolist()
        sources = list(range(graph.npus))
    jobs = [(a, b) for _ in range(units) for a in sources for b in range(graph.npus) if a != b]
    choice = _Choice(graph.npus, jobs, edges, ways, each, target)
    if not choice.run(deadline):
        return None
    return _paths(graph.npus, units, jobs, choice.ranks(), symmetry)


def fewest_messages(graph: LinkGraph) -> int:
    """Return the hops of the shortest paths between all pairs of NPUs."""
    src, dst, _ = graph.pairs
    beside: list[list[int]] = [[] for _ in range(graph.npus)]
    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        beside[a].append(b)
    sources = [0] if symmetry_of(graph) is not None else range(graph.npus)
    hops = 0
    for source in sources:
        level, seen, distance = [source], {source}, 0
        while level:
            hops += distance * len(level)
            level = list({npu for before in level for npu in beside[before]} - seen)
            seen.update(level)
            distance += 1
    return hops * graph.npus // len(sources)


class _Choice:
    """The paths of all jobs (from, to), and what each link carries.

    Attributes
    ----------
    paths
        The edges of each path; none before the first choice.
    load
        Jobs of each link.
    cost
        Of each link, with one more job.
    """

    def __init__(
        self,
        n: int,
        jobs: Sequence[tuple[int, int]],
        edges: Sequence[tuple[int, int]],
        ways: list[list[int]],
        each: list[float],
        target: float,
    ) -> None:
        """`edges`: from, to; `ways`: the links that each loads; `each`: the time of a job on each link."""
        self.n, self.jobs, self.edges, self.ways, self.each, self.target = n, jobs, edges, ways, each, target
        self.out: list[list[tuple[int, int, list[int]]]] = [[] for _ in range(n)]
        for at, (a, b) in enumerate(edges):
            self.out[a].append((b, at, ways[at]))
        self.paths: list[list[int]] = [[] for _ in jobs]
        self.load = [0] * len(each)
        self.cost = [0.0] * len(each)
        self.steep = 0.0

    @property
    def time(self) -> float:
        """Of the busiest link."""
        return max(load * each for load, each in zip(self.load, self.each, strict=True))

    def run(self, deadline: float) -> bool:
        """Choose all paths, and again while that helps; False if there was not enough time."""
        order = np.random.default_rng(0)
        best, kept, stuck = math.inf, self.paths, 0
        if len(self.edges) == self.n * (self.n - 1):
            self._directly()
            best, kept = self.time, list(self.paths)
            if best <= self.target * _ENOUGH:
                return True
        for steep in STEEPNESS:
            self.steep = steep
            for link in range(len(self.each)):
                self._price(link)
            for job in order.permutation(len(self.jobs)).tolist():
                if time.process_time() > deadline:
                    self.paths = kept
                    return best < math.inf
                self._count(self.paths[job], -1)
                self.paths[job] = self._shortest(*self.jobs[job])
                self._count(self.paths[job], 1)
            stuck = 0 if self.time < best else stuck + 1
            if self.time < best:
                best, kept = self.time, list(self.paths)
            if best <= self.target * _ENOUGH or stuck == 2:
                break
        self.paths = kept
        return True

    def _directly(self) -> None:
        """Choose the path of one edge for all jobs."""
        number = {pair: at for at, pair in enumerate(self.edges)}
        self.paths = [[number[job]] for job in self.jobs]
        for path in self.paths:
            for link in self.ways[path[0]]:
                self.load[link] += 1

    def ranks(self) -> list[list[int]]:
        """The NPUs of each path."""
        return [[self.edges[path[0]][0], *(self.edges[edge][1] for edge in path)] for path in self.paths]

    def _price(self, link: int) -> None:
        each = self.each[link]
        over = (self.load[link] + 1) * each / self.target - 1
        self.cost[link] = each * (math.exp(min(self.steep * over, 600.0)) + _IDLE)

    def _count(self, path: Sequence[int], by: int) -> None:
        for edge in path:
            for link in self.ways[edge]:
                self.load[link] += by
                self._price(link)

    def _shortest(self, source: int, to: int) -> list[int]:
        """Return the edges of the cheapest path (Dijkstra 1959)."""
        cost, out = self.cost, self.out
        distance = [math.inf] * self.n
        came = [-1] * self.n
        distance[source] = 0.0
        front = [(0.0, source)]
        while front:
            far, npu = heapq.heappop(front)
            if npu == to:
                break
            if far > distance[npu]:
                continue
            for other, edge, way in out[npu]:
                near = far
                for link in way:
                    near += cost[link]
                if near < distance[other]:
                    distance[other] = near
                    came[other] = edge
                    heapq.heappush(front, (near, other))
        path: list[int] = []
        while to != source:
            if came[to] < 0:
                raise UnreachedError(f"NPU {to} is not connected with NPU {source}")
            path.append(came[to])
            to = self.edges[came[to]][0]
        return path[::-1]


def _paths(
    n: int,
    units: int,
    jobs: Sequence[tuple[int, int]],
    chosen: Sequence[Sequence[int]],
    symmetry: NetworkSymmetry | None,
) -> Paths:
    """Return the paths of all sources, with consecutive units of each pair on each."""
    ways = sorted((*job, tuple(ranks)) for job, ranks in zip(jobs, chosen, strict=True))
    if symmetry is not None:
        moved = symmetry.sums.tolist()
        ways = [(npu, moved[npu][b], tuple(moved[npu][rank] for rank in way)) for npu in range(n) for _, b, way in ways]
    rows = [(at % units, 1, way, range(len(way) - 1)) for at, (_, _, way) in enumerate(ways)]
    return paths_of(n, units, rows)
