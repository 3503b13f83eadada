"""The delay models of the analytical backend, from a topology and its settings.

Whose arithmetic (`compat`):

    None           exact fractions, cut off to whole cycles; a message that differs in several dimensions pays the
                   latency of every hop, and the bandwidth of the narrowest of them
    "astra-sim-2"  floating point; of several dimensions the lowest counts alone (MultiDimTopology of that simulator)
    "astra-sim-1"  cut off after each summand, with interfaces, switches and memories; the highest dimension alone

Where a topology is no product of blocks, the links of its routes count, whatever `compat` says of dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from math import lcm
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pyxsim.analytical.free_flight import FreeFlight
from pyxsim.analytical.hops import hop_table
from pyxsim.analytical.rule import Doubles, Exact, Rule, Summands
from pyxsim.analytical.store_and_forward import StoreAndForward
from pyxsim.errors import InputError, UnreachableError
from pyxsim.network.protocol import Longs
from pyxsim.routing.loads import expected_loads, oblivious
from pyxsim.routing.relation import Ints, Relation
from pyxsim.settings import Network, per_dimension
from pyxsim.topology.block import Block
from pyxsim.topology.topology import Topology
from pyxsim.units import Duration, parse_bandwidth, parse_duration, to_seconds

COMPATS = ("astra-sim-1", "astra-sim-2")
GIB = 2**30
MOST_NPUS = 2048  # up to so many, what links carry is worked out from a table of all pairs,
MOST_PAIRS = 2**18  # else from the routes of those that sent something
BATCH = 2**14  # pairs whose routes are held at a time

Fractions = Sequence[Fraction]


class Model(Protocol):
    """What the backend wants of a model. `rates`: bytes per cycle of each link; `latencies`: cycles, perhaps broken.

    `widest`: bytes per cycle of the widest link, and of what stays within a router.
    """

    @property
    def engine(self) -> FreeFlight | StoreAndForward: ...
    @property
    def rates(self) -> Fractions: ...
    @property
    def latencies(self) -> Fractions: ...
    @property
    def widest(self) -> Fraction: ...

    def extend(self, src: Longs, dst: Longs, plane: Longs) -> None:
        """Make pairs known, in the order of their numbers."""

    @property
    def links_work(self) -> bool:
        """Whether links carry messages while time passes; else a message is booked when it is sent."""

    def on_links(self, ends: Longs, flits: Longs) -> Longs:
        """int64[links]: what links have carried, when the ways of the engine have carried `flits`.

        `ends`: rows source, destination, plane of the pairs known so far.
        """

    @property
    def flits(self) -> int:
        """Flits of all messages."""


def make_model(topology: Topology, network: Network, compat: str | None) -> Model:
    """The model of `[network.analytical]`. Raises InputError."""
    if compat not in (None, *COMPATS):
        raise InputError(f"the analytical backend knows no arithmetic of '{compat}'", key="system.compat")
    summands = network.analytical.summands
    if summands and compat != "astra-sim-1":
        raise InputError(
            "belongs to the delays of ASTRA-sim 1",
            key=f"network.analytical.{summands[0]}",
            allowed='nothing here, or system.compat = "astra-sim-1"',
        )
    make: dict[str, Callable[[Topology, Network, str | None], Model]] = {
        "unaware": _unaware,
        "congestion": Congestion,
    }
    return make[network.analytical.model](topology, network, compat)


def _unaware(topology: Topology, network: Network, compat: str | None) -> Model:
    blocks = [dim for dim in topology.dims if isinstance(dim, Block)]
    if len(blocks) == len(topology.dims) and topology.relation.separable and not topology.confined:
        return Grid(topology, network, compat, blocks)
    return Routed(topology, network, compat)


# --- links ------------------------------------------------------------------------------------------------------------


def _cycles(duration: Duration, clock: Fraction) -> Fraction:
    """A duration in cycles of the clock, not rounded."""
    return to_seconds(duration, clock) * clock


def _links(topology: Topology, network: Network) -> tuple[list[Fraction], list[Fraction]]:
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
            cycles = _cycles(latency, network.clock) * (length if late is None else 1)
            memo[row] = bandwidth / network.clock, cycles
        rate, cycles = memo[row]
        rates.append(rate)
        latencies.append(cycles)
    return rates, latencies


def _widest(topology: Topology, network: Network, rates: Fractions) -> Fraction:
    """Bytes per cycle of the widest link; where all NPUs share a router, what the settings say of links."""
    return max(rates or [rate / network.clock for rate in network.bandwidths(len(topology.link_kinds))])


class _Arithmetic:
    """The rule of a `compat`, for kinds of some bytes per cycle; latencies become numbers of the rule."""

    def __init__(self, network: Network, compat: str | None, rates: Fractions, latencies: Fractions) -> None:
        self.exact = compat is None
        self.unit = lcm(*(latency.denominator for latency in latencies)) if self.exact else 1
        self._network = network
        self._rates = rates
        self._compat = compat

    def rule(self, switched: Sequence[bool]) -> Rule:
        """`switched`: whether there is a switch in the way, kind by kind."""
        if self.exact:
            try:
                return Exact(self._rates, self.unit)
            except InputError as error:
                raise error.at(key="network.bandwidth") from None
        rates = [_as_astra_sim(rate * self._network.clock, self._network.clock) for rate in self._rates]
        if self._compat == "astra-sim-2":
            return Doubles(rates)
        return Summands(rates, _summands(self._network, switched))

    def latency(self, values: Fractions) -> NDArray[Any]:
        """Latencies as the rule counts them: in its unit, or floating point."""
        if self.exact:
            return np.array([int(value * self.unit) for value in values], np.int64)
        return np.array([float(value) for value in values], np.float64)


def _as_astra_sim(bandwidth: Fraction, clock: Fraction) -> float:
    """Bytes per cycle in floating point, rounded as ASTRA-sim does it: GB/s of 2^30 bytes first, then per ns."""
    return float(bandwidth / GIB) * GIB / float(clock)


def _summands(network: Network, switched: Sequence[bool]) -> list[tuple[float, ...]]:
    """What an interface, a switch and a memory add in each dimension (see `Summands`)."""
    extra, clock, dims = network.analytical, network.clock, len(switched)
    for name in extra.summands:
        value = getattr(extra, name)
        if isinstance(value, tuple) and len(value) != dims:
            raise InputError(
                f"the list has {len(value)} entries, the network {dims} dimensions",
                key=f"network.analytical.{name}",
                allowed=f"one value for all, or a list of {dims}",
            )
    scales = per_dimension(extra.hbm_scale, dims)
    if any(scales) and extra.hbm_bandwidth is None:
        raise InputError("is missing, where hbm_scale is not 0", key="network.analytical.hbm_bandwidth")
    memory = per_dimension(extra.hbm_bandwidth or Fraction(clock), dims)
    columns = zip(
        per_dimension(extra.nic_latency, dims),
        per_dimension(extra.router_latency, dims),
        per_dimension(extra.hbm_latency, dims),
        memory,
        scales,
        switched,
        strict=True,
    )
    return [
        (
            2 * float(_cycles(nic, clock)),
            float(_cycles(router, clock)) if has_switch else 0.0,
            float(_cycles(late, clock)),
            float(width / clock),
            float(scale),
        )
        for nic, router, late, width, scale, has_switch in columns
    ]


# --- messages that never meet -----------------------------------------------------------------------------------------


class _Free:
    """What the models without congestion share."""

    engine: FreeFlight
    links_work = False

    def __init__(self, topology: Topology, network: Network) -> None:
        self.topology = topology
        self.rates, self.latencies = _links(topology, network)
        self.widest = _widest(topology, network, self.rates)

    @property
    def flits(self) -> int:
        return int(self.engine.flits.sum())

    def on_links(self, ends: Longs, flits: Longs) -> Longs:
        """By the routes of the topology; zeros where packets adapt, or for very many pairs of very many NPUs."""
        relation, used = self.topology.relation, flits > 0
        src, dst, plane = ends[:, used]
        if self.topology.npus <= MOST_NPUS:
            return np.rint(_by_matrix(relation, src, dst, plane, flits[used])).astype(np.int64)
        fixed = all(oblivious(relation, number) for number in np.unique(plane).tolist())
        if fixed and len(src) <= MOST_PAIRS:
            return _by_routes(relation, src, dst, plane, flits[used])
        return np.zeros(self.topology.links, np.int64)


def _by_matrix(relation: Relation, src: Longs, dst: Longs, plane: Longs, flits: Longs) -> NDArray[np.float64]:
    """What links carry, from a table of all pairs for each plane."""
    total = np.zeros(relation.links)
    for number in np.unique(plane).tolist():
        here = plane == number
        matrix = np.zeros((relation.npus, relation.npus))
        matrix[src[here], dst[here]] = flits[here]
        loads = expected_loads(relation, matrix, number)[0]
        if loads is not None:
            total += loads
    return total


def _by_routes(relation: Relation, src: Longs, dst: Longs, plane: Longs, flits: Longs) -> Longs:
    """The same, one route after the other; where it is drawn, the first one."""
    total = np.zeros(relation.links, np.int64)
    for begin in range(0, len(src), BATCH):
        part = slice(begin, begin + BATCH)
        steps = routes(relation, src[part], dst[part], plane[part])
        pair, step = np.nonzero(steps >= 0)
        np.add.at(total, steps[pair, step], flits[part][pair])
    return total


class Grid(_Free):
    """A product of blocks: hops by coordinates. The kind of a pair is the dimension whose bandwidth counts."""

    def __init__(self, topology: Topology, network: Network, compat: str | None, blocks: Sequence[Block]) -> None:
        super().__init__(topology, network)
        dims, clock = len(blocks), network.clock
        self._rates = [bandwidth / clock for bandwidth in network.bandwidths(dims)]
        latencies = [_cycles(latency, clock) for latency in network.latencies(dims)]
        arithmetic = _Arithmetic(network, compat, self._rates, latencies)
        self._late = arithmetic.latency(latencies)
        self._choose = {None: self._all, "astra-sim-2": self._lowest, "astra-sim-1": self._highest}[compat]
        self._hops = cache(lambda dim: _shortest(blocks[dim]))
        self.engine = FreeFlight(arithmetic.rule([block.switches > 0 for block in blocks]), network.flit)

    def extend(self, src: Longs, dst: Longs, plane: Longs) -> None:
        here, there = self.topology.coords[src], self.topology.coords[dst]
        hops = np.zeros(here.shape, np.int64)
        for dim in range(here.shape[1]):
            differs = here[:, dim] != there[:, dim]
            if differs.any():
                hops[differs, dim] = self._hops(dim)[here[differs, dim], there[differs, dim]]
        self.engine.extend(*self._choose(hops))

    def _all(self, hops: Longs) -> tuple[NDArray[Any], Longs]:
        """Latency and kind of pairs that are `hops` apart in each dimension."""
        by_width = sorted(range(len(self._rates)), key=lambda dim: self._rates[dim])
        narrowest = np.array(by_width)[(hops[:, by_width] > 0).argmax(axis=1)]
        return hops @ self._late, narrowest

    def _lowest(self, hops: Longs) -> tuple[NDArray[Any], Longs]:
        return self._alone(hops, (hops > 0).argmax(axis=1))

    def _highest(self, hops: Longs) -> tuple[NDArray[Any], Longs]:
        return self._alone(hops, hops.shape[1] - 1 - (hops[:, ::-1] > 0).argmax(axis=1))

    def _alone(self, hops: Longs, dim: Longs) -> tuple[NDArray[Any], Longs]:
        return hops[np.arange(len(hops)), dim] * self._late[dim], dim


def _shortest(block: Block) -> Ints:
    """Hops between the NPUs of a block on its shortest plane. Raises UnreachableError."""
    planes = [hop_table(plane, block.dst, block.npus) for plane in np.atleast_3d(block.next)]
    found: Ints = np.min(planes, axis=0)
    if (found < 0).any():
        raise UnreachableError(f"the block '{block.name}' has no way between some of its NPUs")
    return found


class Routed(_Free):
    """Any topology: the links of a route, one after the other; the narrowest of them counts."""

    def __init__(self, topology: Topology, network: Network, compat: str | None) -> None:
        super().__init__(topology, network)
        rates = sorted(set(self.rates)) or [self.widest]
        arithmetic = _Arithmetic(network, compat, rates, self.latencies)
        place = {rate: number for number, rate in enumerate(rates)}
        # Behind the last link: what is no link takes no time and is as wide as the widest.
        self._kind = np.array([*(place[rate] for rate in self.rates), len(rates) - 1])
        self._late = np.append(arithmetic.latency(self.latencies), 0)
        if network.analytical.summands:
            raise InputError(
                f"belongs to networks of dimensions, which '{topology.name}' is not",
                key=f"network.analytical.{network.analytical.summands[0]}",
            )
        self.engine = FreeFlight(arithmetic.rule([False] * len(rates)), network.flit)

    def extend(self, src: Longs, dst: Longs, plane: Longs) -> None:
        steps = routes(self.topology.relation, src, dst, plane)
        latency, kind = self._late[steps].sum(axis=1), self._kind[steps].min(axis=1, initial=self._kind[-1])
        self.engine.extend(latency, kind)


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


# --- messages that queue for links ------------------------------------------------------------------------------------


class Congestion:
    """ASTRA-sim 2's congestion-aware model: one dimension, whole messages, store and forward.

    Where NPUs share a router, what one sends to another there queues for a lane of its own, without latency.
    """

    links_work = True

    def __init__(self, topology: Topology, network: Network, compat: str | None) -> None:
        if len(topology.shape) > 1:
            raise InputError(
                f"'congestion' knows networks of one dimension only; this one has {len(topology.shape)}",
                key="network.analytical.model",
                allowed="'unaware' for this network, or --backend packet",
            )
        if compat == "astra-sim-1":
            raise InputError(
                "ASTRA-sim 1 knows no 'congestion' model", key="network.analytical.model", allowed="'unaware'"
            )
        self.relation = topology.relation
        self.rates, self.latencies = _links(topology, network)
        self.widest = _widest(topology, network, self.rates)
        self._by_plane = compat is None
        self._links = topology.links
        lanes = topology.npus if len(np.unique(topology.home)) < topology.npus else 0
        latencies = [*self.latencies, *[Fraction(0)] * lanes]
        arithmetic = _Arithmetic(network, compat, [*self.rates, *[self.widest] * lanes], latencies)
        rule = arithmetic.rule([False] * len(latencies))
        rule.extend(arithmetic.latency(latencies), np.arange(len(latencies)))
        self.engine = StoreAndForward(rule, network.flit)

    def extend(self, src: Longs, dst: Longs, plane: Longs) -> None:
        # ASTRA-sim goes clockwise to the opposite NPU of a ring, whatever the queue.
        plane = plane if self._by_plane else np.zeros_like(plane)
        steps = routes(self.relation, src, dst, plane)
        within = np.where((steps < 0).all(axis=1) & (src != dst), self._links + src, -1)
        steps = np.hstack([within[:, None], steps])
        self.engine.extend((steps >= 0).sum(axis=1), steps[steps >= 0])

    def on_links(self, ends: Longs, flits: Longs) -> Longs:
        return flits[: self._links]

    @property
    def flits(self) -> int:
        return int(self.engine.flits.sum())
