"""Total bandwidth of a network: per NPU, of all NPUs, of the bisection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyxsim.network.link_paths import link_rates_of, widest
from pyxsim.settings import Network
from pyxsim.topology.cuts import bisection
from pyxsim.topology.topology import Topology


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
    """

    npu: int
    all: int
    bisection: int
    exact: bool


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
    return Capacity(int(npu_width.max()), int(npu_width.sum()), bisection_width, exact)
