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
    """A duration in cycles of the clock, not rounded."""
    return to_seconds(duration, clock) * clock


def link_rates_of(topology: Topology, network: Network) -> tuple[list[Fraction], list[Fraction]]:
    """Bytes per cycle and latency (cycles) of every link. Raises InputError."""
    kinds = len(topology.link_kinds)
    of_kind = network.bandwidths(kinds), network.latencies(kinds)
    nothing = (None,) * topology.links
    memo: dict[tuple[int, int, str | None, str | None], tuple[Fraction, Fraction]] = {}
    rates, latencies = [], []
    rows = zip(
        topology.link_dim.tolist(),
        topology.link_length.tolist(),
        topology.link_bandwidth or nothing,
        topology.link_latency or nothing,
        strict=True,
    )
    for link, row in enumerate(rows):
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
    return rates, latencies


def widest(topology: Topology, network: Network, rates: Fractions) -> Fraction:
    """Bytes per cycle of the widest link; where all NPUs share a router, what the settings say of links."""
    return max(
        unique_by_identity(rates)[0] or [rate / network.clock for rate in network.bandwidths(len(topology.link_kinds))]
    )


def routes(relation: Relation, src: IntArray, dst: IntArray, plane: IntArray) -> IntArray:
    """int64[K, most hops]: the links of a route of each pair, -1 behind its end. Raises UnreachableError.

    Where packets have a choice, pairs are spread over the candidates by destination: in a tree the digits of the
    destination select the way up (D-mod-K). Of several route options it is the first, without its via.
    """
    steps = list(_steps(relation, src, dst, plane, dst + relation.npus * src))
    return np.array(steps, np.int64).reshape(len(steps), len(src)).T


def ends_of_routes(relation: Relation, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[IntArray, IntArray]:
    """int64[K] each: the first and the last link of `Relation.route` of each pair, -1 where it has none.

    Raises UnreachableError.
    """
    first, last = np.full((2, len(src)), -1, np.int64)
    for step in _steps(relation, src, dst, plane, np.zeros_like(src)):
        last = np.where(step >= 0, step, last)
        first = np.where(first < 0, step, first)
    return first, last


def hops_of_routes(relation: Relation, src: IntArray, dst: IntArray, plane: IntArray) -> IntArray:
    """int64[K]: how many links `Relation.route` of each pair has. Raises UnreachableError."""
    hops = np.zeros(len(src), np.int64)
    for step in _steps(relation, src, dst, plane, np.zeros_like(src)):
        hops += step >= 0
    return hops


def _steps(relation: Relation, src: IntArray, dst: IntArray, plane: IntArray, turn: IntArray) -> Iterator[IntArray]:
    """int64[K], hop by hop: the next link of each pair, -1 for those that have arrived. `turn`: see `_one_of`."""
    plane = np.where(plane < 0, relation.ways[0].last, plane)
    router, home = relation.home[src].astype(np.int64), relation.home[dst]
    hops = 0
    while len(under_way := np.flatnonzero(router != home)):
        step = np.full(len(src), -1, np.int64)
        for number in np.unique(plane[under_way]).tolist():
            here = under_way[plane[under_way] == number]
            step[here], turn[here] = _one_of(relation, number, router[here], dst[here], turn[here])
        lost = under_way[step[under_way] < 0] if hops <= relation.routers else under_way
        if len(lost):
            pair = lost[0]
            raise UnreachableError(f"plane {plane[pair]} has no route from NPU {src[pair]} to NPU {dst[pair]}")
        hops += 1
        yield step
        router[under_way] = relation.link_dst[step[under_way]]


def _one_of(
    relation: Relation, plane: int, router: IntArray, dst: IntArray, turn: IntArray
) -> tuple[IntArray, IntArray]:
    """The candidate whose turn it is at each router, -1 where there is none; and the turns from there on."""
    digits = relation.digits[dst]
    pair, link, _, _ = decide(relation, plane, router, digits, range(digits.shape[1]))
    count = np.bincount(pair, minlength=len(router))
    first = np.cumsum(count) - count
    some = np.flatnonzero(count)
    found = np.full(len(router), -1, np.int64)
    found[some] = link[np.argsort(pair, kind="stable")][first[some] + turn[some] % count[some]]
    return found, turn // np.maximum(count, 1)


class LinkPaths:
    """The links of a topology, and behind them, where NPUs share a router, a lane out and a lane in of every NPU.

    `rates`, `latencies`: of links, lanes out, lanes in. A lane is as wide as the widest link that it serves, and has no
    latency. `links`: how many are links.
    """

    def __init__(self, topology: Topology, network: Network) -> None:
        self.links, self._npus, self._relation = topology.links, topology.npus, topology.relation
        self.rates, self.latencies = link_rates_of(topology, network)
        self.widest = widest(topology, network, self.rates)
        self._shares = np.bincount(topology.home)[topology.home] > 1
        if self._shares.any():
            lanes = [*self._lanes(topology.link_src), *self._lanes(topology.link_dst)]
            self.rates += lanes
            self.latencies += [Fraction(0)] * len(lanes)

    def _lanes(self, ends: Int32Array) -> list[Fraction]:
        """Bytes per cycle of the lanes of all NPUs, by the links that have these ends at their routers."""
        found: dict[int, Fraction] = {}
        for router, rate in zip(ends.tolist(), self.rates, strict=False):
            if rate is not found.get(router):
                found[router] = max(found.get(router, rate), rate)
        return [found.get(router, self.widest) for router in self._relation.home.tolist()]

    def steps(self, src: IntArray, dst: IntArray, plane: IntArray) -> IntArray:
        """int64[K, most]: the links and lanes of each pair's way, in order; -1 where it has none.

        Each pair keeps to one route (see `routes`), also where packets draw theirs or adapt. Raises UnreachableError.
        """
        out = np.where(self._shares[src], self.links + src, -1)
        into = np.where(self._shares[dst], self.links + self._npus + dst, -1)
        return np.column_stack([out, routes(self._relation, src, dst, plane), into])
