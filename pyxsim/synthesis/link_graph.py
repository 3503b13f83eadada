"""The network as a graph of NPUs, switches and links with whole-number rates, and the routes between NPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import BoolArray, IntArray
from pyxsim.errors import InputError, UnreachableError
from pyxsim.network.link_paths import link_rates_of, routes, widest
from pyxsim.settings import Network
from pyxsim.topology import Topology

MOST_PAIRS = 2**21  # pairs of NPUs whose routes are kept
_PLANE = 0  # of the messages of a collective with all NPUs in one group


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """Links between nodes. NPU i is node i; all other nodes are switches. Parallel links are one.

    Attributes
    ----------
    npus, nodes
        Numbers of them.
    src, dst, rate
        int64[links]: ends, and bandwidth in `unit`.
    latency
        float64[links], in seconds.
    unit
        Bytes per second of a rate of 1.
    shape
        NPUs per dimension: NPU i has the coordinates of i in this shape, the first dimension fastest.
    topology
        The network that routes the messages; None: they take shortest paths.
    of_link
        int64[links of the topology]: the link here.
    own
        Links own + i and own + npus + i join NPU i with the router that it shares; -1 where NPUs are routers.
    router_delay
        Seconds that the router before each link takes for a head flit, in the packet backend.
    """

    npus: int
    nodes: int
    src: IntArray
    dst: IntArray
    rate: IntArray
    latency: NDArray[np.float64]
    unit: int
    shape: tuple[int, ...]
    topology: Topology | None = None
    of_link: IntArray | None = None
    own: int = -1
    router_delay: float = 0.0

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray, IntArray]:
        """From, to (int64[pairs]) and links of the route (int64[pairs, hops], then -1) of adjacent NPUs.

        NPUs are adjacent if the route between them passes no other NPU. Raises InputError for more than MOST_PAIRS.
        """
        ends, route = self._own_routes() if self.topology is None else self._network_routes()
        inner = np.where(route >= 0, self.dst[route], self.npus)
        inner[np.arange(len(route)), (route >= 0).sum(1) - 1] = self.npus  # the destination may be an NPU
        kept = (inner >= self.npus).all(axis=1) if len(route) else np.zeros(0, bool)
        return ends[0][kept], ends[1][kept], route[kept]

    def _network_routes(self) -> tuple[IntArray, IntArray]:
        assert self.topology is not None
        assert self.of_link is not None
        ends = self._reachable()
        try:
            route = routes(self.topology.relation, ends[0], ends[1], np.full(ends.shape[1], _PLANE, np.int64))
        except UnreachableError as error:
            raise InputError(f"no route: {error}", allowed="a network that connects all NPUs") from None
        route = np.where(route >= 0, self.of_link[route], -1)
        if self.own >= 0:
            hops = (route >= 0).sum(1)
            whole = np.full((len(route), route.shape[1] + 2), -1, np.int64)
            whole[:, 0] = self.own + ends[0]
            whole[:, 1:-1] = route
            whole[np.arange(len(route)), hops + 1] = self.own + self.npus + ends[1]
            route = whole
        return ends, route

    def _own_routes(self) -> tuple[IntArray, IntArray]:
        """Shortest paths over switches; of several, the first of the widest."""
        ends: list[tuple[int, int]] = []
        found: list[list[int]] = []
        for npu in range(self.npus):
            ways: dict[int, list[int]] = {npu: []}
            width: dict[int, int] = {npu: 1 << 62}
            level = [npu]
            while level:
                following: dict[int, None] = {}
                for at in level:
                    for link, to in self.out[at] if at == npu or at >= self.npus else ():
                        wide = min(width[at], int(self.rate[link]))
                        if to not in ways or (to in following and wide > width[to]):
                            ways[to], width[to] = [*ways[at], link], wide
                            following[to] = None
                level = list(following)
            for to in sorted(ways):
                if to < self.npus and to != npu:
                    ends.append((npu, to))
                    found.append(ways[to])
            self._check_pairs(len(ends))
        route = np.full((len(found), max(map(len, found), default=1)), -1, np.int64)
        for number, way in enumerate(found):
            route[number, : len(way)] = way
        return np.array(ends, np.int64).reshape(-1, 2).T, route

    def _reachable(self) -> IntArray:
        """int64[2, pairs]: NPUs between which a path without other NPUs exists."""
        behind: dict[int, set[int]] = {}  # the NPUs that a switch reaches over switches
        pairs: list[tuple[int, int]] = []
        for npu in range(self.npus):
            reached = set[int]()
            for _, to in self.out[npu]:
                if to < self.npus:
                    reached.add(to)
                else:
                    if to not in behind:
                        behind[to] = self._behind(to)
                    reached |= behind[to]
            pairs += [(npu, to) for to in sorted(reached - {npu})]
            self._check_pairs(len(pairs))
        return np.array(pairs, np.int64).reshape(-1, 2).T

    def _behind(self, switch: int) -> set[int]:
        waiting, seen = [switch], {switch}
        for at in waiting:
            for _, to in self.out[at] if at >= self.npus else ():
                if to not in seen:
                    seen.add(to)
                    waiting.append(to)
        return {node for node in seen if node < self.npus}

    def _check_pairs(self, count: int) -> None:
        if count > MOST_PAIRS:
            problem = f"more than {MOST_PAIRS} pairs of NPUs reach each other over switches"
            raise InputError(problem, key="network", allowed="a smaller network")

    def both_ways(self) -> LinkGraph:
        """Return the graph with those adjacent NPUs only that are adjacent in the other direction, too.

        Raises InputError if there are none.
        """
        src, dst, route = self.pairs
        kept = np.isin(src * self.npus + dst, dst * self.npus + src)
        if kept.all():
            return self
        if not kept.any():
            problem = "the trees of an all-reduce are used in both directions, but NPUs are linked in one only"
            raise InputError(problem, key="--collective", allowed="reduce-scatter and all-gather, each with its trees")
        return self._with_pairs(src[kept], dst[kept], route[kept])

    @cached_property
    def near(self) -> BoolArray:
        """bool[pairs]: adjacent without a switch; if no NPUs are, over the fastest switches."""
        route = self.pairs[2]
        direct: BoolArray = (route >= 0).sum(axis=1) == 1
        if direct.any():
            return direct
        slowest = np.where(route >= 0, self.rate[route], np.iinfo(np.int64).max).min(axis=1)
        fastest: BoolArray = slowest == slowest.max(initial=0)
        return fastest

    @cached_property
    def boxes(self) -> IntArray:
        """int64[npus]: the smallest number of those NPUs that are connected over NPUs near each other."""
        src, dst, _ = self.pairs
        src, dst = src[self.near], dst[self.near]
        box = np.arange(self.npus)
        while (box[src] != box[dst]).any():
            np.minimum.at(box, dst, box[src])
            np.minimum.at(box, src, box[dst])
        return box

    def with_few_partners(self) -> LinkGraph:
        """Return the graph with one route into and out of each box over switches, for most of its NPUs.

        Messages from several NPUs that meet at a link into one wait for each other, and hold up those behind them. So
        NPUs that are in boxes send to other boxes at the distance, in numbers of NPUs, that joins the most of them in
        different boxes, and at that distance backwards. The graph itself, if there is no such network.
        """
        between = self._between()
        if not between.any():
            return self
        src, dst, route = self.pairs
        distance = (dst - src) % self.npus
        best = int(np.bincount(distance[between], minlength=1).argmax())
        kept = self.near | (between & np.isin(distance, (best, self.npus - best)))
        return self._with_pairs(src[kept], dst[kept], route[kept])

    def with_rails(self) -> LinkGraph:
        """Return the graph in which NPUs of different boxes are adjacent only at the same place of their boxes.

        The graph itself, if boxes differ in size or there are none.
        """
        between = self._between()
        _, place, count = np.unique(self.boxes, return_inverse=True, return_counts=True)
        if not between.any() or len(set(count.tolist())) > 1:
            return self
        place = np.argsort(np.argsort(place, kind="stable")) % count[0]
        src, dst, route = self.pairs
        kept = self.near | (between & (place[src] == place[dst]))
        return self._with_pairs(src[kept], dst[kept], route[kept])

    def _between(self) -> BoolArray:
        """bool[pairs]: the NPUs are in different boxes, and there are boxes of several NPUs."""
        src, dst, _ = self.pairs
        none = self.near.all() or not 1 < len(np.unique(self.boxes)) < self.npus
        between: BoolArray = ~self.near & (self.boxes[src] != self.boxes[dst]) & (not none)
        return between

    def with_shape(self, shape: tuple[int, ...]) -> LinkGraph:
        """Return the graph with its NPUs in another grid."""
        return replace(self, shape=shape)._with_pairs(*self.pairs)

    def _with_pairs(self, src: IntArray, dst: IntArray, route: IntArray) -> LinkGraph:
        graph = replace(self)
        # The value of a cached property: routes are not computed again.
        vars(graph)["pairs"] = src, dst, route
        return graph

    @property
    def same_both_ways(self) -> bool:
        """Whether every link has one of the same rate back."""
        links = {(a, b, rate) for a, b, rate in self.links}
        src, dst, _ = self.pairs
        pairs = set(zip(src.tolist(), dst.tolist(), strict=True))
        return pairs == {(b, a) for a, b in pairs} and links == {(b, a, rate) for a, b, rate in links}

    def reversed(self) -> LinkGraph:
        """Return the graph with all links, and the routes on them, in the other direction."""
        src, dst, route = self.pairs
        return replace(self, src=self.dst, dst=self.src)._with_pairs(dst, src, route)

    @cached_property
    def out(self) -> dict[int, list[tuple[int, int]]]:
        """The links out of each node, with their ends."""
        out = defaultdict[int, list[tuple[int, int]]](list)
        for link, (a, b) in enumerate(zip(self.src.tolist(), self.dst.tolist(), strict=True)):
            out[a].append((link, b))
        return out

    @property
    def links(self) -> list[tuple[Hashable, Hashable, int]]:
        """Rows (from, to, rate)."""
        return list(zip(self.src.tolist(), self.dst.tolist(), self.rate.tolist(), strict=True))


def graph_of_links(links: Sequence[tuple[Hashable, Hashable, int]], npus: Sequence[Hashable]) -> LinkGraph:
    """Return the graph of rows (from, to, bytes per second) without latencies; all nodes but `npus` are switches."""
    number = {node: at for at, node in enumerate(npus)}
    for a, b, _ in links:
        number.setdefault(a, len(number))
        number.setdefault(b, len(number))
    rows = np.array([(number[a], number[b], rate) for a, b, rate in links], np.int64).reshape(-1, 3)
    return _graph(len(npus), len(number), rows, np.zeros(len(rows)), (len(npus),))


def graph_of(topology: Topology, network: Network) -> LinkGraph:
    """Return the graph of a network. Raises InputError for a link with an invalid bandwidth, and for one NPU."""
    if topology.npus < 2:
        raise InputError(f"{topology.npus} NPU", key="network", allowed="a network of at least 2 NPUs")
    rates, latencies = link_rates_of(topology, network)
    rate = [int(value * network.clock) for value in rates[: topology.links]]
    late = [float(value / network.clock) for value in latencies[: topology.links]]
    n, home = topology.npus, topology.home
    shared = topology.hosts or len(np.unique(home)) < n
    node = np.full(topology.routers, -1, np.int64)
    if not shared:
        node[home] = np.arange(n)
    switches = np.flatnonzero(node < 0)
    node[switches] = n + np.arange(len(switches))
    rows = [np.stack([node[topology.link_src], node[topology.link_dst], np.array(rate, np.int64)], axis=1)]
    if shared:
        if topology.hosts:
            own, wait = int(network.bandwidths(len(topology.link_kinds))[0]), float(latencies[-1] / network.clock)
        else:
            lanes = network.lanes if isinstance(network.lanes, int) else 1
            each = network.lane_bandwidth or widest(topology, network, rates) * network.clock
            own, wait = int(each * lanes), 0.0
        npus, width = np.arange(n), np.full(n, own)
        rows += [np.stack([npus, node[home], width], axis=1), np.stack([node[home], npus, width], axis=1)]
        late += [wait] * (2 * n)
    graph = _graph(
        n, n + len(switches), np.concatenate(rows), np.array(late), topology.shape, topology, n if shared else 0
    )
    return replace(graph, router_delay=float(sum(network.router.stages()) / network.clock))


def _graph(
    npus: int,
    nodes: int,
    rows: IntArray,
    late: NDArray[np.float64],
    shape: tuple[int, ...],
    topology: Topology | None = None,
    own: int = 0,
) -> LinkGraph:
    """Merge parallel links; the last 2 * own rows are those between NPUs and their routers."""
    key = rows[:, 0] * nodes + rows[:, 1]
    keys, first, of_link = np.unique(key, return_index=True, return_inverse=True)
    if own:  # they keep their order, behind the others
        order = np.argsort(np.where(first >= len(rows) - 2 * own, first, -1), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        keys, first, of_link = keys[order], first[order], place[of_link]
    rate = np.zeros(len(keys), np.int64)
    np.add.at(rate, of_link, rows[:, 2])
    unit = gcd(*rate.tolist()) or 1
    return LinkGraph(
        npus,
        nodes,
        keys // nodes,
        keys % nodes,
        rate // unit,
        late[first],
        unit,
        shape,
        topology,
        of_link,
        len(keys) - 2 * own if own else -1,
    )
