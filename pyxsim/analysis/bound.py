"""Lower bounds of the time of collectives and messages on given links, for any routers, buffers and algorithms."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.analysis.demand import Load, Loads, collective_loads, message_load, together, traffic_loads
from pyxsim.arrays import AnyIntArray, IntArray, unique_by_identity
from pyxsim.collective.bounds import rounds
from pyxsim.network.link_paths import link_rates_of
from pyxsim.network.protocol import Backend, DelayTerms
from pyxsim.results.phases import differing
from pyxsim.system import SystemLayer

MOST_STARTS = 32  # issue times that are evaluated one by one
MOST_ALIKE = 4096  # collectives issued together whose bound is kept


def bound_cycles(
    collectives: Iterable[Any], system: SystemLayer, network: Backend, times: Times | None = None
) -> Fraction:
    """Return the lower bound of the time from the first issue to the last completion, in cycles.

    In each dimension, the bytes that the NPUs send and receive (demand.py) cross the links of these NPUs: bytes over
    capacity. The first flit crosses an injection lane and a router before that, the last one the rest of the shortest
    route after it; the endpoint delay counts once on each side. With several issue times, the work issued after each
    time cannot end before it; with more than MOST_STARTS times only the total counts.

    If packets may use other dimensions than their own, all dimensions count as one. If NPUs share a router, which their
    bytes need not leave, lanes count instead of links. Delay backends round every message to whole cycles, so capacity
    bounds nothing there: the bound is the longest chain of messages and, with congestion, the time that all messages
    of an NPU take on its links.

    Parameters
    ----------
    times
        The value of `times_of`, for repeated calls.
    """
    return _least(collectives, times or times_of(system, network), system)


def times_of(system: SystemLayer, network: Backend) -> Times:
    """Return the rules by which this network's lower bounds are computed."""
    if network.capabilities.packets:
        return OfPackets(network, system)
    terms = network.delay_terms
    return Unbounded(network, system) if terms is None else OfDelays(network, system, terms)


def physical_cycles(collectives: Iterable[Any], system: SystemLayer, network: Backend) -> Fraction:
    """Return the lower bound from the links alone, whatever the backend: bytes over capacity, shortest latency.

    No hardware with these links can be faster; a model that is faster ignores that messages share links.
    """
    return _least(collectives, OfLinks(network, system), system)


def _least(collectives: Iterable[Any], times: Times, system: SystemLayer) -> Fraction:
    work = list(collectives)
    if not work:
        return Fraction(0)
    starts = [max(each.start, 0) for each in work]  # -1: no NPU has entered it yet
    if not system.sends_planned_bytes:
        return times.least_of(_traffic(system, work))
    if len(work) > MOST_ALIKE or any(hasattr(each, "dst") for each in work):
        return _of_starts(work, starts, times, system)
    # A training step issues the same few collectives thousands of times.
    key = tuple((_plans(each), start - starts[0]) for each, start in zip(work, starts, strict=True))
    if key not in times.known_bounds:
        times.known_bounds[key] = _of_starts(work, starts, times, system)
    return times.known_bounds[key]


def _plans(collective: Any) -> Hashable:
    """What the load of a collective depends on."""
    return collective.communicator, tuple(chunk.plan.phases for chunk in collective.chunks)


def _of_starts(work: Sequence[Any], starts: Sequence[int], times: Times, system: SystemLayer) -> Fraction:
    first = min(starts)
    cycles = sorted(set(starts))
    if len(cycles) > MOST_STARTS:
        if _is_all(system, work):
            return times.least_of(system.traffic())
        cycles = cycles[:1]
    bound = Fraction(0)
    for cycle in cycles:
        rest = [each for each, start in zip(work, starts, strict=True) if start >= cycle]
        bound = max(bound, cycle - first + times.least(rest))
    return max(bound, times.queued(work))


def _is_all(system: SystemLayer, work: Sequence[Any]) -> bool:
    return len(work) == len(system.collectives) + len(system.messages)


def _traffic(system: SystemLayer, work: Sequence[Any]) -> IntArray:
    """The network messages of this work."""
    if _is_all(system, work):
        return system.traffic()
    return system.traffic(work)


class Times:
    """Lower bounds of a network, for any work.

    `least` takes collectives and messages that are all issued at the start; `least_of` takes network messages, as rows
    (source, destination, plane, bytes, count).
    """

    def __init__(self, network: Backend, system: SystemLayer) -> None:
        self.network: Any = network
        self.system = system
        self.topology = network.topology
        self.endpoint = system.options.endpoint_delay if system.pays_endpoint_delays else 0
        # NPUs at the same router: each has a lane for the messages that stay there.
        self._neighbours = np.bincount(self.topology.home)[self.topology.home] - 1
        self.shared = bool(self._neighbours.any())
        self._known: dict[Any, Any] = {}
        self.known_bounds: dict[Hashable, Fraction] = {}

    def least(self, work: Sequence[Any]) -> Fraction:
        raise NotImplementedError

    def least_of(self, traffic: IntArray) -> Fraction:
        raise NotImplementedError

    def queued(self, work: Sequence[Any]) -> Fraction:
        """Return the cycles of work whose messages queue as a whole for the links of their NPUs; 0 if they do not."""
        return Fraction(0)

    @cached_property
    def _wires(self) -> tuple[list[Fraction], list[Fraction]]:
        return link_rates_of(self.topology, self.network.settings)

    @property
    def _apart(self) -> bool:
        """Whether packets between NPUs that differ in one dimension stay on the links of that dimension."""
        detours = any(way.via == "any" for way in self.topology.relation.ways)
        return self.topology.confined or (self.topology.relation.separable and not detours)


class OfLinks(Times):
    """Bytes over link capacity plus the latency of the shortest route: a bound for any router with these
    links. It omits messages between NPUs of one router."""

    def __init__(self, network: Backend, system: SystemLayer) -> None:
        super().__init__(network, system)
        self._all_dims = tuple(range(len(self.topology.shape)))
        self._known_loads: dict[Hashable, Loads] = {}

    def least(self, work: Sequence[Any]) -> Fraction:
        if self.shared:  # the algorithm decides which bytes leave a router
            return self.least_of(_traffic(self.system, work))
        return self._carry([loads for each in work for loads in self._loads(each).items()])

    def least_of(self, traffic: IntArray) -> Fraction:
        home = self.topology.home
        leaves = traffic[home[traffic[:, 0]] != home[traffic[:, 1]]]
        return self._carry(list(traffic_loads(leaves, self.network.npus, self.topology.shape).items()))

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
        return busy + min((self._latency(kind) for kind in kinds), default=0)

    def _capacities(self, dims: tuple[int, ...]) -> tuple[Capacities, Capacities]:
        """The capacities of the links from each router, and of those to it, in some dimensions."""
        if dims not in self._known:
            topology = self.topology
            used = np.isin(np.array(topology.kind_dims)[topology.link_dim], dims)
            ends = (topology.link_src, topology.link_dst)
            self._known[dims] = tuple(Capacities.of(self._rates, used, at, topology.routers) for at in ends)
        out, into = self._known[dims]
        return out, into

    @property
    def _rates(self) -> Sequence[Fraction]:
        """Bytes per cycle of each link."""
        return self._wires[0]

    def _latency(self, kind: int) -> int:
        """Cycles of a flit from NPU to NPU over links of a kind, without the time on its first network link."""
        if kind not in self._known:
            self._known[kind] = self._flight(kind)
        return int(self._known[kind])

    def _flight(self, kind: int) -> int:
        links, hops = self._way(kind)
        return int(
            hops * min(unique_by_identity(self._wires[1][link] for link in links.tolist())[0], default=Fraction(0))
        )

    def _way(self, kind: int) -> tuple[IntArray, int]:
        """The links of a kind, and the number of them on the shortest route between NPUs: two through a switch."""
        topology = self.topology
        links = np.flatnonzero(topology.link_dim == kind)
        ends = np.isin([topology.link_src[links], topology.link_dst[links]], topology.home).all(axis=0)
        return links, 1 if not len(links) or ends.any() else 2


class OfPackets(OfLinks):
    """The bound of the packet backend: links, lanes and the stages of routers."""

    def __init__(self, network: Backend, system: SystemLayer) -> None:
        super().__init__(network, system)
        self.wires = network.link_params

    def least(self, work: Sequence[Any]) -> Fraction:
        return self._carry([loads for each in work for loads in self._loads(each).items()])

    def least_of(self, traffic: IntArray) -> Fraction:
        return self._carry(list(traffic_loads(traffic, self.network.npus, self.topology.shape).items()))

    def _carry(self, all_loads: Sequence[tuple[tuple[int, ...], Load]]) -> Fraction:
        if not self.shared:
            return super()._carry(all_loads)
        loads = [load for _, load in all_loads if load.total]
        return self._through_lanes(together(loads)) + 2 * self.endpoint if loads else Fraction(0)

    @cached_property
    def _rates(self) -> Sequence[Fraction]:
        kinds, which = unique_by_identity(self.wires)
        rates = [self.network.settings.flit / wire.s for wire in kinds]
        return [rates[kind] for kind in which.tolist()]

    def _flight(self, kind: int) -> int:
        """Cycles through lanes, routers and the links of the shortest route, direct or through a switch."""
        config = self.network.config
        links, hops = self._way(kind)
        wire = config.link_params[links[np.argmin(_flights(links, self.network))]] if len(links) else config.wires[kind]
        lanes = sum(int(_flights(_lanes(self.network, incoming=which), self.network).min()) for which in (False, True))
        # RC and VA in the first router; a flit behind a head does not pay them in the others.
        return int(lanes + config.head_wait + wire.delay + (hops - 1) * (ceil(wire.s) + wire.delay + wire.traversal))

    def _through_lanes(self, load: Load) -> Fraction:
        """Cycles for a load out of the injection lanes and into the ejection lanes."""
        into, out = (_lanes(self.network, incoming=which) for which in (False, True))
        busy = load.total / min(_capacity(into, self.network), _capacity(out, self.network))
        # The last flit still enters a router and leaves it.
        return busy + int(self.network.config.links.delay[into].min()) + int(_flights(out, self.network).min())


class Unbounded(Times):
    """No bound: the backend gives no terms for one."""

    def least(self, work: Sequence[Any]) -> Fraction:
        return Fraction(0)

    def least_of(self, traffic: IntArray) -> Fraction:
        return Fraction(0)


class OfDelays(Times):
    """The bound of a delay model, which truncates delays: the longest chain of messages, or the busiest NPU's links."""

    def __init__(self, network: Backend, system: SystemLayer, terms: DelayTerms) -> None:
        super().__init__(network, system)
        self._bandwidth, self._queue = terms.bandwidth, terms.queues
        # Cycles of the shortest link, truncated. NPUs that share a router need no link.
        self._latency_cycles = 0 if self.shared else int(terms.latency)

    def least(self, work: Sequence[Any]) -> Fraction:
        different = {_chain_key(each): each for each in work}
        for key, each in different.items():
            if key not in self._known:
                self._known[key] = self._chain(each)
        return max((self._known[key] for key in different), default=Fraction(0))

    def least_of(self, traffic: IntArray) -> Fraction:
        longest = int(traffic[:, 3].max(initial=0) / self._bandwidth) + self._latency_cycles + 2 * self.endpoint
        return max(Fraction(longest if len(traffic) else 0), self._queued(traffic))

    def queued(self, work: Sequence[Any]) -> Fraction:
        if not self._queue:
            return Fraction(0)
        alike = tuple(_traffic_key(each) for each in work)  # many layers have equal work
        if alike not in self._known:
            self._known[alike] = self._queued(_traffic(self.system, work))
        return Fraction(self._known[alike])

    def _queued(self, traffic: IntArray) -> Fraction:
        if not self._queue or not len(traffic):
            return Fraction(0)
        topology = self.topology
        everything = np.ones(len(topology.link_src), dtype=bool)
        most = self._queues(traffic, everything, self._bandwidth)
        if self._apart and not self.shared:
            differ = differing(traffic, topology.shape)
            for dim in range(len(topology.shape)):
                used = np.array(topology.kind_dims)[topology.link_dim] == dim
                alone = traffic[differ == dim]
                if used.any() and len(alone):
                    fastest = max(unique_by_identity(self._wires[0][link] for link in np.flatnonzero(used).tolist())[0])
                    most = max(most, self._queues(alone, used, fastest))
        return most + self._latency_cycles + 2 * self.endpoint

    def _queues(self, traffic: IntArray, used: NDArray[np.bool_], fastest: Fraction) -> Fraction:
        """Cycles for messages on some links of their NPUs; the widest link carries `fastest` bytes per cycle."""
        sizes, which = np.unique(traffic[:, 3], return_inverse=True)
        busy = np.array([int(size / fastest) for size in sizes.tolist()])[which] * traffic[:, 4]
        most = Fraction(0)
        for end, links in ((0, self.topology.link_src), (1, self.topology.link_dst)):
            by_npu = np.bincount(traffic[:, end], busy, minlength=self.network.npus).astype(np.int64)
            count = np.bincount(links[used], minlength=self.topology.routers)[self.topology.home] + self._neighbours
            for links_of_one in np.unique(count[count > 0]).tolist():
                most = max(most, Fraction(int(by_npu[count == links_of_one].max()), links_of_one))
        return most

    def _chain(self, each: Any) -> Fraction:
        """Cycles of the longest chain of dependent messages of a phase, without contention.

        Each message of the chain takes at least the bytes of the smallest message over the widest link.
        """
        fastest, latency = self._bandwidth, self._latency_cycles
        if hasattr(each, "dst"):
            return Fraction(int(each.size / fastest) + latency + 2 * self.endpoint)
        longest = Fraction(0)
        for phase in {phase for chunk in each.chunks for phase in chunk.plan.phases}:
            for piece in np.unique(phase.pieces[phase.groups[:, 0]]).tolist():
                schedule, sizes = phase.messages(piece)
                sizes = sizes[schedule.src != schedule.dst]
                if len(sizes):
                    count = rounds(schedule) if (sizes > 0).all() else 1
                    hop = int(int(sizes.min()) / fastest) + latency + self.endpoint
                    longest = max(longest, Fraction(self.endpoint + count * hop))
        return longest


def _chain_key(each: Any) -> tuple[Any, ...]:
    """A key that is equal for work with the same chain of messages, whichever NPUs take part."""
    if hasattr(each, "dst"):
        return (each.size,)
    group = each.communicator
    return each.kind, each.size, each.algorithms, group.shape, group.dims, each.root, len(each.chunks)


def _traffic_key(each: Any) -> tuple[Any, ...]:
    """A key that is equal for work that sends the same bytes between the same NPUs."""
    if hasattr(each, "dst"):
        return each.src, each.dst, each.size
    return each.communicator, tuple(chunk.plan for chunk in each.chunks)


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


def _capacity(links: AnyIntArray, network: Any) -> Fraction:
    """Total bytes per cycle of some links or lanes."""
    table = network.config.links
    speeds, counts = np.unique(np.stack([table.s_den[links], table.s_num[links]]), axis=1, return_counts=True)
    flits = (Fraction(den, num) * count for den, num, count in zip(*speeds.tolist(), counts.tolist(), strict=True))
    return int(network.settings.flit) * sum(flits, Fraction(0))


def _flights(links: AnyIntArray, network: Any) -> AnyIntArray:
    """Cycles of a flit on each of these links or lanes."""
    table = network.config.links
    flights: AnyIntArray = -(-table.s_num[links] // table.s_den[links]) + table.delay[links]
    return flights


def _lanes(network: Any, *, incoming: bool) -> AnyIntArray:
    """The numbers of all ejection lanes (`incoming`), or of all injection lanes."""
    links = network.config.links
    first = links.network + (links.injection if incoming else 0)
    return np.arange(first, first + (links.ejection if incoming else links.injection))
