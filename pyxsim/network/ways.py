"""The links that messages travel over: bandwidth and latency of each, exactly, and which of them a route has."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pyxsim.errors import InputError, UnreachableError
from pyxsim.network.protocol import Longs
from pyxsim.routing.relation import Relation
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology
from pyxsim.units import Duration, parse_bandwidth, parse_duration, to_seconds

Fractions = Sequence[Fraction]


def in_cycles(duration: Duration, clock: Fraction) -> Fraction:
    """A duration in cycles of the clock, not rounded."""
    return to_seconds(duration, clock) * clock


def wires_of(topology: Topology, network: Network) -> tuple[list[Fraction], list[Fraction]]:
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
    return max(rates or [rate / network.clock for rate in network.bandwidths(len(topology.link_kinds))])


def routes(relation: Relation, src: Longs, dst: Longs, plane: Longs) -> Longs:
    """int64[K, most hops]: the links of each pair's route, -1 behind its end. Raises UnreachableError.

    As `Relation.route`, for many pairs at once.
    """
    plane = np.where(plane < 0, relation.ways[0].last, plane)
    router, home, digits = relation.home[src].astype(np.int64), relation.home[dst], relation.digits[dst]
    dims = range(digits.shape[1])
    steps: list[Longs] = []
    while len(under_way := np.flatnonzero(router != home)):
        link, _, _ = relation.decide(plane[under_way] * relation.routers + router[under_way], digits[under_way], dims)
        if (link < 0).any() or len(steps) > relation.routers:
            lost = int(under_way[np.argmin(link)])
            raise UnreachableError(f"plane {plane[lost]} has no route from NPU {src[lost]} to NPU {dst[lost]}")
        step = np.full(len(src), -1, np.int64)
        step[under_way] = link
        steps.append(step)
        router[under_way] = relation.link_dst[link]
    return np.array(steps, np.int64).reshape(-1, len(src)).T


class Ways:
    """The links of a topology, and behind them, where NPUs share a router, a lane of each NPU.

    `rates`, `latencies`: of links and lanes. What an NPU sends to others at its own router takes its lane, which is as
    wide as the widest link and has no latency. `links`: how many of them are links.
    """

    def __init__(self, topology: Topology, network: Network) -> None:
        self.links = topology.links
        rates, latencies = wires_of(topology, network)
        self.widest = widest(topology, network, rates)
        lanes = topology.npus if len(np.unique(topology.home)) < topology.npus else 0
        self.rates: list[Fraction] = [*rates, *[self.widest] * lanes]
        self.latencies: list[Fraction] = [*latencies, *[Fraction(0)] * lanes]
        self._relation = topology.relation

    def steps(self, src: Longs, dst: Longs, plane: Longs) -> tuple[Longs, Longs]:
        """How many links, or lanes, each pair's way has, and which, one way behind the other. Raises UnreachableError.

        Of routes that are drawn or that adapt, the first candidate everywhere, on the first way, without its via.
        """
        steps = routes(self._relation, src, dst, plane)
        within = np.where((steps < 0).all(axis=1), self.links + src, -1)
        steps = np.hstack([within[:, None], steps])
        return (steps >= 0).sum(axis=1), steps[steps >= 0]
