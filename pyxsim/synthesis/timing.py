"""When the edges of a forest, or the hops of paths, are used: list scheduling on the links of their routes."""

from __future__ import annotations

import heapq
from dataclasses import replace
from fractions import Fraction

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.arrays import I32
from pyxsim.collective.custom.forest import Forest
from pyxsim.collective.custom.paths import Paths
from pyxsim.synthesis.link_graph import LinkGraph

JUSTIFIED = 3  # times at most that a schedule is improved
MOST_JUSTIFIED = 140_000  # messages of such a schedule
_ENOUGH = 1.01  # times the time of the busiest link: what ends so early is not improved
_SPREAD = 4  # trees count as closer together than they are, so that the time behind their edges counts more
_TICKS = 5040  # of a unit on the fastest link, in whole numbers, so that links of the same rate stay in step


def timed(graph: LinkGraph, forest: Forest, size: float = 0.0) -> tuple[Forest, Fraction]:
    """Return the forest with steps in the order in which a greedy schedule uses its edges, and when the last one ends.

    The time is that of data of 1 at every NPU at link rates in units of the graph, as `forest_time`.

    An edge occupies each link of its route as long as the link takes for its units, and what it brings can be passed on
    when the slowest link is through. Of the edges that could begin at the same time, the one that must begin first goes
    first, if trees end one after the other at equal distances: that is, by the time of all edges behind it, less that
    of the trees before its own. So deep trees begin early, and links that returned sums would leave idle add up others.

    `size`: bytes of a unit, against which latencies count; 0: without latencies.
    """
    links = _Links(graph, size)
    tree, child = np.nonzero(forest.parent >= 0)
    parent = forest.parent[tree, child]
    edges, trees, units = len(tree), len(forest.root), forest.count.astype(np.int64)
    down_of = np.full(forest.parent.shape, -1)
    down_of[tree, child] = np.arange(edges)
    after, before = down_of[tree, parent], np.arange(edges)
    at_root = after < 0
    time_down = links.time(parent, child) * units[tree]
    behind, _ = _paths(forest, tree, child, time_down)
    jobs = [np.stack([tree, parent, child, behind])]
    waits = [np.stack([after, before])[:, ~at_root]]
    if forest.up is not None:
        # In this order: edges down, edges up, and the sums at the roots, which no link carries.
        longest = np.zeros(trees, np.int64)
        np.maximum.at(longest, tree, behind)
        _, above = _paths(forest, tree, child, links.time(child, parent) * units[tree])
        waits.append(np.stack([before, after])[:, ~at_root] + edges)
        waits.append(np.stack([edges + before, 2 * edges + tree])[:, at_root])
        waits.append(np.stack([2 * edges + tree, before])[:, at_root])
        jobs.append(np.stack([tree, child, parent, above + longest[tree]]))
        jobs.append(np.stack([np.arange(trees), forest.root, forest.root, longest]))
    rows = np.concatenate(jobs, axis=1)
    load = links.load(rows[1], rows[2], units[rows[0]])
    # The units before a tree are those of its root; all-reduce trees share the units of the buffer.
    if forest.up is not None:
        rows[3] -= forest.first.astype(np.int64)[rows[0]] * int(load.max()) // (_SPREAD * forest.units)
    # Of equal urgency, what is closer to its root in the numbers of NPUs first: roots take turns.
    turn = (rows[2] - forest.root[rows[0]]) % forest.n
    order = np.lexsort((rows[0], turn, -rows[3]))
    start = _justified(links, rows[1:3], units[rows[0]], order, np.concatenate(waits, axis=1), int(load.max()))
    at = np.unique(start, return_inverse=True)[1].astype(np.int32)
    ways = [np.full(forest.parent.shape, -1, np.int32) for _ in range(2)]
    for way, part in zip(ways, (at[:edges], at[edges : 2 * edges]), strict=True):
        if len(part):
            way[tree, child] = part
    there = rows[1] != rows[2]
    end = int((start[there] + links.time(rows[1][there], rows[2][there]) * units[rows[0][there]]).max(initial=0))
    whole = Fraction(end, _TICKS * int(graph.rate.max()) * forest.units) * (1 if forest.up is None else forest.n)
    return _increasing(replace(forest, step=ways[0], up=None if forest.up is None else ways[1])), whole


class _Links:
    """The links of routes between adjacent NPUs, and the ticks of a unit on each."""

    def __init__(self, graph: LinkGraph, size: float) -> None:
        src, dst, self.route = graph.pairs
        self.pair = np.full((graph.npus, graph.npus), -1, np.int32)
        self.pair[src, dst] = np.arange(len(src))
        ticks = np.rint(graph.rate.max() / graph.rate * _TICKS)
        self.ticks = np.append(np.maximum(ticks, 1).astype(np.int64), 0)
        late = graph.latency + graph.router_delay
        late = late * (graph.unit * float(graph.rate.max()) / size * _TICKS) if size else 0 * late
        self.late = np.append(np.rint(late).astype(np.int64), 0)

    def time(self, src: IntArray | I32, dst: IntArray | I32) -> IntArray:
        """int64[edges]: ticks of a unit on the slowest link between NPUs."""
        ticks: IntArray = self.ticks[self.route[self.pair[src, dst]]].max(axis=1)
        return ticks

    def load(self, src: IntArray, dst: IntArray, units: IntArray) -> IntArray:
        """int64[links]: ticks of all edges; those of an NPU to itself have no links."""
        there = src != dst
        pair = self.pair[src[there], dst[there]]
        each = np.bincount(pair, units[there], len(self.route)).astype(np.int64)
        load = np.zeros(len(self.ticks), np.int64)
        for hop in self.route.T:
            np.add.at(load, hop, each)
        load *= self.ticks
        return load

    def latency(self, src: IntArray, dst: IntArray) -> list[int]:
        """Ticks of latency of each edge."""
        route = np.where((src == dst)[:, None], -1, self.route[self.pair[src, dst]])
        ticks: list[int] = self.late[route].sum(axis=1).tolist()
        return ticks

    def ways(self, src: IntArray, dst: IntArray) -> tuple[list[list[int]], list[int]]:
        """The links of each route, and the route of each edge."""
        ways = [[link for link in way if link >= 0] for way in self.route.tolist()] + [[]]
        return ways, np.where(src == dst, len(ways) - 1, self.pair[src, dst]).tolist()


def _paths(forest: Forest, tree: IntArray, child: IntArray, time: IntArray) -> tuple[IntArray, IntArray]:
    """int64[edges] each: the time of the longest path down from each edge, and of that up to the root, both with it."""
    own = np.zeros(forest.parent.shape, np.int64)
    own[tree, child] = time
    below, above = own.copy(), own.copy()
    level = forest.depth[tree, child]
    parent = forest.parent[tree, child]
    for depth in range(2, int(level.max(initial=0)) + 1):
        here = level == depth
        above[tree[here], child[here]] += above[tree[here], parent[here]]
    for depth in range(int(level.max(initial=0)), 1, -1):
        here = level == depth
        t, c, p = tree[here], child[here], parent[here]
        np.maximum.at(below, (t, p), own[t, p] + below[t, c])
    return below[tree, child], above[tree, child]


def timed_paths(graph: LinkGraph, paths: Paths, size: float = 0.0) -> tuple[Paths, Fraction]:
    """Return paths with steps in the order of a greedy schedule, and when the last message ends; see `timed`.

    Of the messages that could begin at the same time, the one with the longest way before it goes first. `size`: bytes
    of a unit.
    """
    links = _Links(graph, size)
    path, at = np.nonzero(paths.ranks[:, 1:] >= 0)
    src, dst = paths.ranks[path, at].astype(np.int64), paths.ranks[path, at + 1].astype(np.int64)
    units = paths.count[path].astype(np.int64)
    took = np.zeros(paths.step.shape, np.int64)
    took[path, at] = links.time(src, dst) * units
    behind = np.cumsum(took[:, ::-1], axis=1)[:, ::-1][path, at]
    # Of equal ways, first units first, and those of a source in turn to all others.
    source, to = (ends.astype(np.int64) for ends in paths.ends)
    order = np.lexsort((path, ((to - source) % paths.n)[path], paths.first[path], -behind))
    number = np.arange(len(path))
    follows = np.flatnonzero(at > 0)
    waits = np.stack([number[follows - 1], number[follows]])
    ends = np.stack([src, dst])
    start = _justified(links, ends, units, order, waits, int(links.load(src, dst, units).max()))
    step = np.full(paths.step.shape, -1, np.int32)
    step[path, at] = np.unique(start, return_inverse=True)[1]
    end = int((start + took[path, at]).max(initial=0))
    whole = Fraction(end, _TICKS * int(graph.rate.max()) * paths.units * paths.n)
    return replace(paths, step=step), whole


def _justified(
    links: _Links, ends: IntArray, units: IntArray, order: IntArray, waits: IntArray, busiest: int
) -> IntArray:
    """int64[jobs]: when each begins, in a schedule that is justified while that helps; `busiest`: least time.

    The jobs are scheduled backwards in time, the one that ended last first, then forwards in the order in which they
    began there (forward-backward improvement: K. Li and R. Willis 1992; V. Valls and others 2005, "Justification and
    RCPSP"). That closes the gaps in which links waited while trees filled and drained.
    """
    took = np.zeros(len(units), np.int64)
    there = ends[0] != ends[1]
    took[there] = links.time(ends[0][there], ends[1][there]) * units[there]
    best = _start(links, ends, units, order, waits)
    for _ in range(JUSTIFIED if len(units) <= MOST_JUSTIFIED else 0):
        end = int((best + took).max(initial=0))
        if end <= busiest * _ENOUGH:
            break
        back = _start(links, ends, units, np.argsort(-(best + took), kind="stable"), waits[::-1])
        new = _start(links, ends, units, np.argsort(-(back + took), kind="stable"), waits)
        if int((new + took).max(initial=0)) >= end:
            break
        best = new
    return best


def _start(links: _Links, ends: IntArray, units: IntArray, order: IntArray, waits: IntArray) -> IntArray:
    """int64[jobs]: when each begins.

    `ends`: from and to of each; `order`: jobs, the most urgent one first; `waits`: pairs (before, after) of jobs. A job
    that finds a link of its route occupied waits at this link; when a link is free again, the first of those that wait
    there begins.
    """
    jobs = len(order)
    rank_of = np.empty(jobs, np.int64)
    rank_of[order] = np.arange(jobs)
    rank, by_rank = rank_of.tolist(), order.tolist()
    ways, way = links.ways(*ends)
    each, length, late = links.ticks.tolist(), units.tolist(), links.latency(*ends)
    missing = np.bincount(waits[1], minlength=jobs).tolist()
    by_first = np.argsort(waits[0], kind="stable")
    waiting = waits[1][by_first].tolist()
    place = np.searchsorted(waits[0][by_first], np.arange(jobs + 1)).tolist()
    ready_at, start = [0] * jobs, [-1] * jobs
    free = [0] * len(each)
    queue: list[list[int]] = [[] for _ in each]  # of each link: ranks of the jobs that wait there
    # Events are whole numbers, time times `span` plus a link or, behind these, a job: faster than pairs.
    links_end = len(each)
    span = links_end + jobs
    events = [links_end + job for job, left in enumerate(missing) if not left]
    push, pop = heapq.heappush, heapq.heappop

    def begin(now: int, job: int) -> None:
        start[job] = end = now
        for link in ways[way[job]]:
            free[link] = until = now + length[job] * each[link]
            if until > end:
                end = until
            push(events, until * span + links_end - 1 - link)
        end += late[job]
        for following in waiting[place[job] : place[job + 1]]:
            missing[following] -= 1
            if end > ready_at[following]:
                ready_at[following] = end
            if not missing[following]:
                push(events, ready_at[following] * span + links_end + following)

    def wait(job: int) -> int:
        """Wait at the link of the route that is occupied the longest, and return it."""
        own = ways[way[job]]
        busy = own[0] if len(own) == 1 else max(own, key=free.__getitem__)
        push(queue[busy], rank[job])
        return busy

    while events:
        now = events[0] // span
        first, last = now * span, (now + 1) * span
        now_free, ready = dict[int, None](), list[int]()
        while events and events[0] < last:
            which = pop(events) - first - links_end
            if which < 0:
                now_free[-1 - which] = None
            elif ways[way[which]]:
                ready.append(which)
            else:
                begin(now, which)
        # Those that are ready now compete with those that have waited.
        for job in ready:
            now_free[wait(job)] = None
        for link in now_free:
            waits_here = queue[link]
            while waits_here and free[link] <= now:
                job = by_rank[pop(waits_here)]
                own = ways[way[job]]
                if len(own) > 1 and any(free[each_link] > now for each_link in own):
                    wait(job)
                else:
                    begin(now, job)
    return np.array(start)


def _increasing(forest: Forest) -> Forest:
    """Return the forest with every step later than that of the edge before it."""
    step = forest.step.copy()
    levels = range(1, int(forest.depth.max(initial=0)) + 1)
    up = None if forest.up is None else forest.up.copy()
    if up is not None:
        for level in reversed(levels[1:]):
            tree, child = np.nonzero(forest.depth == level)
            np.maximum.at(up, (tree, forest.parent[tree, child]), up[tree, child] + 1)
        tree, child = np.nonzero(forest.depth == 1)
        step[tree, child] = np.maximum(step[tree, child], up.max(axis=1)[tree] + 1)
    for level in levels:
        tree, child = np.nonzero(forest.depth == level)
        step[tree, child] = np.maximum(step[tree, child], step[tree, forest.parent[tree, child]] + 1)
    return replace(forest, step=step, up=up)
