"""Total bandwidth of a network: per NPU, of all NPUs, of the bisection, and what an all-gather can make of it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from pyxsim.network.link_paths import link_rates_of, widest
from pyxsim.settings import Network
from pyxsim.topology.capacity_graph import CapacityGraph, Unreached
from pyxsim.topology.cut_bound import bottleneck
from pyxsim.topology.cuts import bisection
from pyxsim.topology.topology import Topology

MOST_CUT = 1024  # NPUs of a network whose bottleneck cut is computed,
MOST_WORK = 4_000_000  # and links times flows, which take some seconds


@dataclass(frozen=True)
class Capacity:
    """Bandwidths in bytes per second, both directions of links counted together, as vendors do.

    Attributes
    ----------
    npu
        All links of the NPU with the most bandwidth; where NPUs share routers, its host links or lanes.
    all
        Sum over all NPUs.
    bisection
        Between two halves of the NPUs.
    exact
        Whether `bisection` is the minimum over all halves, not only over those that were tried.
    all_gather
        Most bytes per second that an all-gather can deliver to every NPU, its own included, whatever its algorithm: the
        bottleneck cut (topology/cut_bound.py). None for more than MOST_CUT NPUs or MOST_WORK flows, for one NPU, and
        where some NPU is not reached.
    """

    npu: int
    all: int
    bisection: int
    exact: bool
    all_gather: int | None


def capacity_of(topology: Topology, network: Network) -> Capacity:
    """Return the capacity of a network. Raises InputError for a link with an invalid bandwidth."""
    rates = link_rates_of(topology, network)[0][: topology.links]
    width = np.array([int(rate * network.clock) for rate in rates], np.int64)
    routers, shared = np.unique(topology.home, return_counts=True)
    if topology.hosts:
        npu_width = np.full(topology.npus, int(2 * network.bandwidths(len(topology.link_kinds))[0]), np.int64)
    elif (shared > 1).any():
        lane = network.lane_bandwidth or widest(topology, network, rates) * network.clock
        lanes = network.lanes if isinstance(network.lanes, int) else 1
        npu_width = np.full(topology.npus, int(2 * lane * lanes), np.int64)
    else:
        npu_width = np.zeros(topology.routers, np.int64)
        np.add.at(npu_width, topology.link_src, width)
        np.add.at(npu_width, topology.link_dst, width)
        npu_width = npu_width[routers]
    bisection_width, exact = bisection(topology, width)
    all_gather = _all_gather(topology, width.tolist(), npu_width.tolist())
    return Capacity(int(npu_width.max()), int(npu_width.sum()), bisection_width, exact, all_gather)


def _all_gather(topology: Topology, width: list[int], npu_width: list[int]) -> int | None:
    """See `Capacity`; `width` of the links, `npu_width` of the NPUs in both directions together."""
    home = topology.home.tolist()
    if not 2 <= len(home) <= MOST_CUT:
        return None
    links: list[tuple[Hashable, Hashable, int]]
    links = list(zip(topology.link_src.tolist(), topology.link_dst.tolist(), width, strict=True))
    npus: list[Hashable] = list(home)
    if topology.hosts or len(set(home)) < len(home):  # each NPU behind its router, with a link of its own
        npus = [("npu", number) for number in range(len(home))]
        for npu, router, both in zip(npus, home, npu_width, strict=True):
            links += [(npu, router, both // 2), (router, npu, both // 2)]
    graph, _ = CapacityGraph.named(links, npus)
    try:
        found = bottleneck(graph, np.arange(len(npus)), shape=topology.shape, work=MOST_WORK)
    except Unreached:
        return None
    return int(found.rate * graph.unit * len(npus)) if found.exact else None
