"""Exact bandwidth and latency of links, and the links of a route."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from pyxsim.arrays import Int32Array, IntArray, unique_by_identity
from pyxsim.errors import InputError, UnreachableError
from pyxsim.routing.explore import decide
from pyxsim.routing.relation import Relation
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology
from pyxsim.units import Duration, parse_bandwidth, parse_duration, to_seconds

Fractions = Sequence[Fraction]


def in_cycles(duration: Duration, clock: Fraction) -> Fraction:
    """Return a duration in cycles of the clock, not rounded."""
    return to_seconds(duration, clock) * clock


def link_rates_of(topology: Topology, network: Network) -> tuple[list[Fraction], list[Fraction]]:
    """Return bytes per cycle and latency (cycles) of every link, host links included. Raises InputError."""
    kinds = len(topology.link_kinds)
    of_kind = network.bandwidths(kinds), network.latencies(kinds)
    memo: dict[tuple[int, int, str | None, str | None], tuple[Fraction, Fraction]] = {}
    rates, latencies = [], []
    for link, row in enumerate(topology.link_rows()):
        if row not in memo:
            kind, length, width, late = row
            try:
                bandwidth = of_kind[0][kind] if width is None else parse_bandwidth(width)
                latency = of_kind[1][kind] if late is None else parse_duration(late)
            except InputError as error:
                raise error.at(key=f"link {topology.link_name[link]}") from None
            if not bandwidth:
                raise InputError(f"{width!r} is zero", key=f"bandwidth of link {topology.link_name[link]}")
            cycles = in_cycles(latency, network.clock) * (length if late is None else 1)
            memo[row] = bandwidth / network.clock, cycles
        rate, cycles = memo[row]
        rates.append(rate)
        latencies.append(cycles)
    hosts = topology.counted_links - topology.links
    rates += [of_kind[0][0] / network.clock] * hosts
    latencies += [in_cycles(of_kind[1][0], network.clock)] * hosts
    return rates, latencies


def widest(topology: Topology, network: Network, rates: Fractions) -> Fraction:
    """Return the bytes per cycle of the widest link; without links, of the settings."""
    return max(
        unique_by_identity(rates)[0] or [rate / network.clock for rate in network.bandwidths(len(topology.link_kinds))]
    )


def routes(relation: Relation, src: IntArray, dst: IntArray, plane: IntArray) -> IntArray:
    """Return int64[K, hops]: the links of one route of each pair, then -1. Raises UnreachableError.

    Of several candidates the destination selects one: in a tree, its digits select the path up (D-mod-K). Of several
    route options it is the first, without its via.
    """
    steps = list(_steps(relation, src, dst, plane, dst + relation.npus * src))
    return np.array(steps, np.int64).reshape(len(steps), len(src)).T


def ends_of_routes(relation: Relation, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[IntArray, IntArray]:
    """Return int64[K] each: the first and the last link of `Relation.route` of each pair, -1 without a link.

    Raises UnreachableError.
    """
    first, last = np.full((2, len(src)), -1, np.int64)
    for step in _steps(relation, src, dst, plane, np.zeros_like(src)):
        last = np.where(step >= 0, step, last)
        first = np.where(first < 0, step, first)
    return first, last


def hops_of_routes(relation: Relation, src: IntArray, dst: IntArray, plane: IntArray) -> IntArray:
    """Return int64[K]: the number of links of `Relation.route` of each pair. Raises UnreachableError."""
    hops = np.zeros(len(src), np.int64)
    for step in _steps(relation, src, dst, plane, np.zeros_like(src)):
        hops += step >= 0
    return hops


def _steps(relation: Relation, src: IntArray, dst: IntArray, plane: IntArray, choice: IntArray) -> Iterator[IntArray]:
    """Yield int64[K] for each hop: the next link of each pair, -1 at its destination. `choice`: see `_select`."""
    plane = np.where(plane < 0, relation.ways[0].last, plane)
    router, home = relation.starts[src].astype(np.int64), relation.home[dst]
    hops = 0
    while len(under_way := np.flatnonzero(router != home)):
        step = np.full(len(src), -1, np.int64)
        for number in np.unique(plane[under_way]).tolist():
            at = under_way[plane[under_way] == number]
            step[at], choice[at] = _select(relation, number, router[at], dst[at], choice[at])
        lost = under_way[step[under_way] < 0] if hops <= relation.routers else under_way
        if len(lost):
            pair = lost[0]
            raise UnreachableError(f"plane {plane[pair]} has no route from NPU {src[pair]} to NPU {dst[pair]}")
        hops += 1
        yield step
        router[under_way] = relation.link_dst[step[under_way]]


def _select(
    relation: Relation, plane: int, router: IntArray, dst: IntArray, choice: IntArray
) -> tuple[IntArray, IntArray]:
    """Candidate `choice` modulo their number at each router, -1 without one; and the choices for the next hop."""
    digits = relation.digits[dst]
    pair, link, _, _ = decide(relation, plane, router, digits, range(digits.shape[1]))
    count = np.bincount(pair, minlength=len(router))
    first = np.cumsum(count) - count
    routed = np.flatnonzero(count)
    selected = np.full(len(router), -1, np.int64)
    selected[routed] = link[np.argsort(pair, kind="stable")][first[routed] + choice[routed] % count[routed]]
    return selected, choice // np.maximum(count, 1)


class LinkPaths:
    """The links of a topology, followed by the host links or lanes of every NPU.

    `rates` and `latencies` are those of links, injection lanes, ejection lanes. Lanes are host links, or, without
    these, only where NPUs share a router: as wide as the widest link that they serve, without latency. `links` is the
    number of links that tables list.
    """

    def __init__(self, topology: Topology, network: Network) -> None:
        self.links, self._npus, self._relation = topology.counted_links, topology.npus, topology.relation
        self._first_lane = topology.links
        self.rates, self.latencies = link_rates_of(topology, network)
        self.widest = widest(topology, network, self.rates)
        self._shares = (np.bincount(topology.home)[topology.home] > 1) | topology.hosts
        if self._shares.any() and not topology.hosts:
            lanes = [*self._lanes(topology.link_src), *self._lanes(topology.link_dst)]
            self.rates += lanes
            self.latencies += [Fraction(0)] * len(lanes)

    def _lanes(self, ends: Int32Array) -> list[Fraction]:
        """Bytes per cycle of the lanes of all NPUs: the widest link with this end at their router."""
        widest_of: dict[int, Fraction] = {}
        for router, rate in zip(ends.tolist(), self.rates, strict=False):
            if rate is not widest_of.get(router):
                widest_of[router] = max(widest_of.get(router, rate), rate)
        return [widest_of.get(router, self.widest) for router in self._relation.home.tolist()]

    @property
    def params(self) -> IntArray:
        """int64[links and lanes]: equal where bandwidth and latency are."""
        rates, latencies = unique_by_identity(self.rates)[1], unique_by_identity(self.latencies)
        pairs: IntArray = rates * len(latencies[0]) + latencies[1]
        return pairs

    def steps(self, src: IntArray, dst: IntArray, plane: IntArray) -> IntArray:
        """Return int64[K, hops + 2]: the lanes and links of each pair's route, in order; -1 for none.

        Each pair has one route (see `routes`), even with random or adaptive routing. Raises UnreachableError.
        """
        out = np.where(self._shares[src], self._first_lane + src, -1)
        into = np.where(self._shares[dst], self._first_lane + self._npus + dst, -1)
        return np.column_stack([out, routes(self._relation, src, dst, plane), into])
