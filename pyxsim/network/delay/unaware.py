"""Models of the analytical backend, without congestion.

Arithmetic (`compat`):

    None           exact fractions, rounded down to whole cycles; a message in several dimensions has the latency of
                   all hops and the bandwidth of the narrowest dimension
    "astra-sim-2"  floating point; of several dimensions only the lowest counts (MultiDimTopology of that simulator)
    "astra-sim-1"  rounded down after each summand, with interfaces, switches and memories; only the highest dimension

In a topology that is not a product of blocks, the links of the routes count, whatever `compat` defines for dimensions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import Int32Array, IntArray, unique_by_identity
from pyxsim.errors import InputError, UnreachableError
from pyxsim.network.delay.arithmetic import Arithmetic, check_compat
from pyxsim.network.delay.delay_network import Model
from pyxsim.network.delay.free_flight import FreeFlight
from pyxsim.network.delay.line_copies import LineCopies, same_delays
from pyxsim.network.link_paths import LinkPaths, in_cycles, link_rates_of, routes, widest
from pyxsim.routing.loads import expected_loads, oblivious
from pyxsim.routing.relation import Relation
from pyxsim.settings import Network
from pyxsim.topology.block import Block
from pyxsim.topology.topology import Topology

MOST_NPUS = 2048  # up to this size, link loads come from a table of all pairs,
MOST_PAIRS = 2**21  # above it, from the routes of the pairs that sent something
BATCH = 2**14  # pairs whose routes are held at a time


def unaware(topology: Topology, network: Network, compat: str | None) -> Model:
    """Return the model without congestion. Raises InputError."""
    check_compat(network, compat)
    blocks = [dim for dim in topology.dims if isinstance(dim, Block)]
    if len(blocks) == len(topology.dims) and topology.relation.separable and not topology.confined:
        return Grid(topology, network, compat, blocks)
    return Routed(topology, network, compat)


class _Free(ABC):
    """Base of the models without congestion."""

    engine: FreeFlight
    links_work = False
    _copies: LineCopies | None = None

    def __init__(self, topology: Topology, network: Network) -> None:
        self.topology = topology
        self.rates, self.latencies = link_rates_of(topology, network)
        self.widest = widest(topology, network, self.rates)

    def extend(self, src: IntArray, dst: IntArray, plane: IntArray) -> None:
        """Add the paths of pairs of NPUs."""
        self.engine.extend(*self._terms(src, dst, plane))

    @abstractmethod
    def _terms(self, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[NDArray[Any], IntArray]:
        """Latency, in the unit of the rule, and kind of pairs of NPUs."""

    def copy_lines(self, copies: LineCopies) -> bool:
        if not same_delays(copies, self._terms):
            return False
        self._copies = copies
        return True

    @property
    def flits(self) -> int:
        return int(self.engine.flits.sum())

    def on_links(self, ends: IntArray, flits: IntArray) -> IntArray:
        """Return the flits of each link by the topology's routes; zeros if packets adapt or pairs are too many.

        Those of host links are always known.
        """
        used = flits > 0
        ends, flits = ends[:, : len(used)][:, used], flits[used]  # the last pairs may have no route
        if self._copies is not None:
            ends, flits = self._copies.everywhere(ends, flits)
        src, dst, plane = ends
        on_links = self._between_routers(src, dst, plane, flits)
        if not self.topology.hosts:
            return on_links
        on_hosts = (np.bincount(npu, flits, self.topology.npus).astype(np.int64) for npu in (src, dst))
        return np.concatenate([on_links, *on_hosts])

    def _between_routers(self, src: IntArray, dst: IntArray, plane: IntArray, flits: IntArray) -> IntArray:
        """int64[links]: the flits of each link between routers."""
        relation = self.topology.relation
        if self.topology.npus <= MOST_NPUS:
            return np.rint(_by_matrix(relation, src, dst, plane, flits)).astype(np.int64)
        fixed = all(oblivious(relation, number) for number in np.unique(plane).tolist())
        if fixed and len(src) <= MOST_PAIRS:
            return _by_routes(relation, src, dst, plane, flits)
        return np.zeros(self.topology.links, np.int64)


def _by_matrix(
    relation: Relation, src: IntArray, dst: IntArray, plane: IntArray, flits: IntArray
) -> NDArray[np.float64]:
    """Link loads from a table of all pairs for each plane."""
    total = np.zeros(relation.links)
    for number in np.unique(plane).tolist():
        on_plane = plane == number
        matrix = np.zeros((relation.npus, relation.npus))
        matrix[src[on_plane], dst[on_plane]] = flits[on_plane]
        loads = expected_loads(relation, matrix, number)[0]
        if loads is not None:
            total += loads
    return total


def _by_routes(relation: Relation, src: IntArray, dst: IntArray, plane: IntArray, flits: IntArray) -> IntArray:
    """Link loads route by route; for random routes, the fixed route of the pair (see `routes`)."""
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
        latencies = [in_cycles(latency, clock) for latency in network.latencies(dims)]
        arithmetic = Arithmetic(network, compat, self._rates, latencies)
        self._late = arithmetic.latency(latencies)
        self._choose = {None: self._all, "astra-sim-2": self._lowest, "astra-sim-1": self._highest}[compat]
        self._blocks = blocks
        self._tables: dict[int, NDArray[np.int32]] = {}
        self.engine = FreeFlight(arithmetic.rule([block.switches > 0 for block in blocks]), network.flit)

    def _terms(self, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[NDArray[Any], IntArray]:
        src_coords, dst_coords = self.topology.coords[src], self.topology.coords[dst]
        hops = np.zeros(src_coords.shape, np.int64)
        for dim in range(src_coords.shape[1]):
            differs = src_coords[:, dim] != dst_coords[:, dim]
            if differs.any():
                if dim not in self._tables:
                    self._tables[dim] = _shortest(self._blocks[dim])
                hops[differs, dim] = self._tables[dim][src_coords[differs, dim], dst_coords[differs, dim]]
        return self._choose(hops)

    def _all(self, hops: IntArray) -> tuple[NDArray[Any], IntArray]:
        """Latency and kind of pairs that are `hops` apart in each dimension."""
        by_width = sorted(range(len(self._rates)), key=lambda dim: self._rates[dim])
        narrowest = np.array(by_width)[(hops[:, by_width] > 0).argmax(axis=1)]
        return hops @ self._late, narrowest

    def _lowest(self, hops: IntArray) -> tuple[NDArray[Any], IntArray]:
        return self._alone(hops, (hops > 0).argmax(axis=1))

    def _highest(self, hops: IntArray) -> tuple[NDArray[Any], IntArray]:
        return self._alone(hops, hops.shape[1] - 1 - (hops[:, ::-1] > 0).argmax(axis=1))

    def _alone(self, hops: IntArray, dim: IntArray) -> tuple[NDArray[Any], IntArray]:
        return hops[np.arange(len(hops)), dim] * self._late[dim], dim


def _shortest(block: Block) -> Int32Array:
    """Hops between the NPUs of a block on its shortest plane. Raises UnreachableError."""
    planes = [hop_table(plane, block.dst, block.npus) for plane in np.atleast_3d(block.next)]
    hops: Int32Array = np.min(planes, axis=0)
    if (hops < 0).any():
        raise UnreachableError(f"the block '{block.name}' has no route between some of its NPUs")
    return hops


class Routed(_Free):
    """Any topology: the sum of the latencies of links and lanes of a route, and the narrowest bandwidth."""

    def __init__(self, topology: Topology, network: Network, compat: str | None) -> None:
        super().__init__(topology, network)
        self._paths = LinkPaths(topology, network)
        link_rates, which = unique_by_identity(self._paths.rates)
        rates = sorted(set(link_rates))
        arithmetic = Arithmetic(network, compat, rates, self._paths.latencies)
        # The last entry stands for no link: no latency, and as wide as the widest.
        self._kind = np.append(np.array([rates.index(rate) for rate in link_rates], np.int64)[which], len(rates) - 1)
        self._late = np.append(arithmetic.latency(self._paths.latencies), 0)
        if network.analytical.summands:
            raise InputError(
                f"requires a product of blocks, which '{topology.name}' is not",
                key=f"network.analytical.{network.analytical.summands[0]}",
            )
        self.engine = FreeFlight(arithmetic.rule([False] * len(rates)), network.flit)

    def _terms(self, src: IntArray, dst: IntArray, plane: IntArray) -> tuple[NDArray[Any], IntArray]:
        steps = self._paths.steps(src, dst, plane)
        return self._late[steps].sum(axis=1), self._kind[steps].min(axis=1)


def hop_table(following: NDArray[np.integer], link_dst: NDArray[np.integer], npus: int) -> Int32Array:
    """Return int32[npus, npus]: links of the route from each NPU to each other; -1 without a route.

    `following`, int[routers, npus], is the link that a router takes toward an NPU, negative at the NPU itself; the NPUs
    are the first routers. `link_dst`, int[links], is the router at which each link ends.

    The algorithm doubles paths: after round k each entry covers 2^k links, or the whole route.
    """
    routers = len(following)
    home = np.arange(npus)
    ends = np.append(np.asarray(link_dst, np.int32), np.int32(-1))
    at = np.where(following >= 0, ends[following], np.arange(routers, dtype=np.int32)[:, None]).astype(np.int32)
    hops = (following >= 0).astype(np.int32)
    for _ in range(max(1, routers).bit_length()):
        if (at[:npus] == home).all():
            break
        hops = hops + hops[at, home]
        at = at[at, home]
    table: Int32Array = np.where(at[:npus] == home, hops[:npus], -1).astype(np.int32)
    return table
