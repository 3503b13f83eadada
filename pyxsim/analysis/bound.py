"""The lower bound of the time of collectives and messages on given links, for any router, backend and algorithm."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.analysis.demand import Load, Loads, collective_loads, message_load, together, traffic_loads
from pyxsim.arrays import AnyIntArray, IntArray, unique_by_identity
from pyxsim.network.protocol import Backend
from pyxsim.system import SystemLayer

MOST_STARTS = 32  # issue times that are evaluated one by one
MOST_ALIKE = 4096  # collectives issued together whose bound is kept


def ignored_limit(backend: str) -> str:
    """Return what a backend ignores whose time is below the bound."""
    return "that messages share links" if backend == "analytical" else "limits of the links"


def lower_bound_cycles(
    collectives: Iterable[Any], system: SystemLayer, network: Backend, links: LinkBound | None = None
) -> Fraction:
    """Return the least time from the first issue to the last completion, in cycles.

    In each dimension, the bytes that the NPUs must send and receive (demand.py) cross the links of these NPUs: bytes
    over capacity, of the NPUs together and of the busiest router. The last byte still takes the latency of the
    shortest route; the endpoint delay counts once on each side. With several issue times, the work issued after each
    time cannot end before it; with more than MOST_STARTS times only the total counts.

    If packets may leave their dimension, all dimensions count as one. If NPUs share a router, only the bytes that the
    algorithm sends to other routers count, and all bytes on host links. Routers, lanes, headers and flits do not count,
    so the bound is the same for every backend: no hardware with these links is faster, and a model that is faster
    ignores that messages share links. Backends count whole cycles, so it is rounded down.

    Parameters
    ----------
    links
        A LinkBound of this network, for repeated calls.
    """
    return Fraction(int(_least(collectives, links or LinkBound(network, system), system)))


def _least(collectives: Iterable[Any], links: LinkBound, system: SystemLayer) -> Fraction:
    work = list(collectives)
    if not work:
        return Fraction(0)
    starts = [max(item.start, 0) for item in work]  # -1: no NPU has entered it yet
    if not system.sends_planned_bytes:
        return links.least_of(_traffic(system, work))
    if len(work) > MOST_ALIKE or any(hasattr(item, "dst") for item in work):
        return _of_starts(work, starts, links, system)
    # A training step issues the same few collectives thousands of times.
    key = tuple((_plans(item), start - starts[0]) for item, start in zip(work, starts, strict=True))
    if key not in links.known_bounds:
        links.known_bounds[key] = _of_starts(work, starts, links, system)
    return links.known_bounds[key]


def _plans(collective: Any) -> Hashable:
    """What the load of a collective depends on."""
    return collective.communicator, tuple(chunk.plan.phases for chunk in collective.chunks)


def _of_starts(work: Sequence[Any], starts: Sequence[int], links: LinkBound, system: SystemLayer) -> Fraction:
    first = min(starts)
    cycles = sorted(set(starts))
    if len(cycles) > MOST_STARTS:
        if _is_all(system, work):
            return links.least_of(system.traffic())
        cycles = cycles[:1]
    bound = Fraction(0)
    for cycle in cycles:
        rest = [item for item, start in zip(work, starts, strict=True) if start >= cycle]
        bound = max(bound, cycle - first + links.least(rest))
    return bound


def _is_all(system: SystemLayer, work: Sequence[Any]) -> bool:
    return len(work) == len(system.collectives) + len(system.messages)


def _traffic(system: SystemLayer, work: Sequence[Any]) -> IntArray:
    """The network messages of this work."""
    if _is_all(system, work):
        return system.traffic()
    return system.traffic(work)


class LinkBound:
    """Bytes over link capacity plus the latency of the shortest route, for any work on one network.

    `least` takes collectives and messages that are all issued at the start; `least_of` takes network messages, as rows
    (source, destination, plane, bytes, count).
    """

    def __init__(self, network: Backend, system: SystemLayer) -> None:
        self.network: Any = network
        self.system = system
        self.topology = network.topology
        self.endpoint = system.options.endpoint_delay if system.pays_endpoint_delays else 0
        # Whether NPUs share a router: then messages may need no link but host links.
        self.shared = bool((np.bincount(self.topology.home) > 1).any()) or self.topology.hosts
        self._all_dims = tuple(range(len(self.topology.shape)))
        rates, self._latencies = network.link_rates
        self._rates = rates[: self.topology.links] if self.topology.hosts else rates
        self._host_rate = rates[-1] if self.topology.hosts else Fraction(0)
        self._host_latency = 2 * self._latencies[-1] if self.topology.hosts else Fraction(0)
        self._known: dict[Any, Any] = {}
        self.known_bounds: dict[Hashable, Fraction] = {}
        self._known_loads: dict[Hashable, Loads] = {}

    @property
    def _apart(self) -> bool:
        """Whether packets between NPUs that differ in one dimension stay on the links of that dimension."""
        detours = any(way.via == "any" for way in self.topology.relation.ways)
        return self.topology.confined or (self.topology.relation.separable and not detours)

    def least(self, work: Sequence[Any]) -> Fraction:
        """Return the fewest cycles in which the links carry collectives and messages."""
        if self.shared:  # the algorithm decides which bytes leave a router
            return self.least_of(_traffic(self.system, work))
        return self._carry([loads for item in work for loads in self._loads(item).items()])

    def least_of(self, traffic: IntArray) -> Fraction:
        """Return the fewest cycles in which the links carry a traffic matrix, in bytes."""
        home = self.topology.home
        leaves = traffic[home[traffic[:, 0]] != home[traffic[:, 1]]]
        cycles = self._carry(list(traffic_loads(leaves, self.network.npus, self.topology.shape).items()))
        if not self.topology.hosts or not len(traffic):
            return cycles
        load = together(traffic_loads(traffic, self.network.npus, self.topology.shape).values())
        busy = Fraction(int(max(load.sent.max(), load.received.max()))) / self._host_rate
        return max(cycles, busy + int(self._host_latency) + 2 * self.endpoint)

    def _carry(self, all_loads: Sequence[tuple[tuple[int, ...], Load]]) -> Fraction:
        """Cycles for loads on dimensions."""
        loads = [(dims, load) for dims, load in all_loads if load.total]
        if not loads:
            return Fraction(0)
        if self._apart and not self.shared:
            by_dims: dict[tuple[int, ...], list[Load]] = {}
            for dims, load in loads:
                by_dims.setdefault(dims, []).append(load)
            cycles = max(self._through_links(dims, together(parts)) for dims, parts in by_dims.items())
        else:
            cycles = self._through_links(self._all_dims, together(load for _, load in loads))
        return cycles + 2 * self.endpoint

    def _loads(self, each: Any) -> Loads:
        npus = self.network.npus
        if hasattr(each, "dst"):
            return message_load(each, npus, self._between(each))
        key = _plans(each)
        if key not in self._known_loads:
            self._known_loads[key] = collective_loads(each, npus, len(self.topology.shape))
        return self._known_loads[key]

    def _between(self, message: Any) -> tuple[int, ...]:
        """The dimension in which the ends of a message differ; all dimensions if they differ in several."""
        at, weight = [], 1
        for dim, size in enumerate(self.topology.shape):
            if message.src // weight % size != message.dst // weight % size:
                at.append(dim)
            weight *= size
        return (at[0],) if len(at) == 1 else self._all_dims

    def _through_links(self, dims: tuple[int, ...], load: Load) -> Fraction:
        """Cycles for a load on the links of some dimensions: that of all NPUs together, and that of each router."""
        out, into = self._capacities(dims)
        home = self.topology.home
        all_out = out.together(np.unique(home[load.members]))
        busy = load.total / all_out if all_out else Fraction(0)
        sent, received = (_by_router(values, home, self.topology.routers) for values in (load.sent, load.received))
        busy = max(busy, out.longest(sent), into.longest(received))
        kinds = [kind for kind, dim in enumerate(self.topology.kind_dims) if dim in dims]
        latencies = [self._latency(kind) for kind in kinds if kind or not self.topology.hosts]
        return busy + int(self._host_latency) + min(latencies, default=0)

    def _capacities(self, dims: tuple[int, ...]) -> tuple[Capacities, Capacities]:
        """The capacities of the links from each router, and of those to it, in some dimensions."""
        if dims not in self._known:
            topology = self.topology
            used = np.isin(np.array(topology.kind_dims)[topology.link_dim], dims)
            ends = (topology.link_src, topology.link_dst)
            self._known[dims] = tuple(Capacities.of(self._rates, used, at, topology.routers) for at in ends)
        out, into = self._known[dims]
        return out, into

    def _latency(self, kind: int) -> int:
        """Cycles of a byte from NPU to NPU over links of a kind, without the time on its first link."""
        if kind not in self._known:
            links, hops = self._way(kind)
            latencies = unique_by_identity(self._latencies[link] for link in links.tolist())[0]
            self._known[kind] = int(hops * min(latencies, default=Fraction(0)))
        return int(self._known[kind])

    def _way(self, kind: int) -> tuple[IntArray, int]:
        """The links of a kind, and the number of them on the shortest route between NPUs: two through a switch."""
        topology = self.topology
        links = np.flatnonzero(topology.link_dim == kind)
        ends = np.isin([topology.link_src[links], topology.link_dst[links]], topology.home).all(axis=0)
        return links, 1 if not len(links) or ends.any() else 2


@dataclass(frozen=True, eq=False)
class Capacities:
    """Total bytes per cycle of the links at each router: `parts` / `whole`; int64[routers], or Python integers."""

    parts: NDArray[Any]
    whole: int

    @classmethod
    def of(
        cls, rates: Sequence[Fraction], used: NDArray[np.bool_], ends: NDArray[np.int32], routers: int
    ) -> Capacities:
        """Add the rates of the `used` links at the routers of their `ends`."""
        kinds, which = unique_by_identity(rates)
        whole = lcm(*(rate.denominator for rate in kinds))
        parts = [int(rate * whole) for rate in kinds]
        small = max(parts, default=0) * len(rates) < 2**63
        sums = np.zeros(routers, np.int64 if small else object)
        np.add.at(sums, ends[used], np.array(parts, sums.dtype)[which[used]])
        return cls(sums, whole)

    def together(self, routers: AnyIntArray) -> Fraction:
        """Return the total bytes per cycle of some routers."""
        return Fraction(sum(self.parts[routers].tolist()), self.whole)

    def longest(self, load: IntArray) -> Fraction:
        """Return the cycles of the router that takes longest for its load; routers without capacity do not count."""
        at = np.flatnonzero((load > 0) & (self.parts > 0))
        # Of routers with the same capacity only the most loaded one matters.
        parts, which = np.unique(self.parts[at], return_inverse=True)
        most = np.zeros(len(parts), np.int64)
        np.maximum.at(most, which, load[at])
        times = (Fraction(n * self.whole, part) for n, part in zip(most.tolist(), parts.tolist(), strict=True))
        return max(times, default=Fraction(0))


def _by_router(values: IntArray, home: NDArray[np.integer[Any]], routers: int) -> IntArray:
    """The sum over the NPUs of each router."""
    sums = np.zeros(routers, np.int64)
    np.add.at(sums, home, values)
    return sums
