"""How much the links of a network carry together: per NPU, of all NPUs, between two halves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyxsim.network.link_paths import link_rates_of, widest
from pyxsim.settings import Network
from pyxsim.topology.cuts import bisection
from pyxsim.topology.topology import Topology


@dataclass(frozen=True)
class Capacity:
    """Bytes per second, both directions of links counted together, as vendors do.

    npu        the links of an NPU, of the one that has most; where routers are shared: its lane, there and back
    all        of all NPUs
    bisection  between two halves of the NPUs, of all halves the least if `exact`, else of those that were tried
    """

    npu: int
    all: int
    bisection: int
    exact: bool


def capacity_of(topology: Topology, network: Network) -> Capacity:
    """Counted from the links of a network. Raises InputError for a link whose own bandwidth is none."""
    rates = link_rates_of(topology, network)[0]
    width = np.array([int(rate * network.clock) for rate in rates], np.int64)
    routers, shared = np.unique(topology.home, return_counts=True)
    if (shared > 1).any():
        lane = network.lane_bandwidth or widest(topology, network, rates) * network.clock
        lanes = network.lanes if isinstance(network.lanes, int) else 1
        every = np.full(topology.npus, int(2 * lane * lanes), np.int64)
    else:
        every = np.zeros(topology.routers, np.int64)
        np.add.at(every, topology.link_src, width)
        np.add.at(every, topology.link_dst, width)
        every = every[routers]
    between, exact = bisection(topology, width)
    return Capacity(int(every.max()), int(every.sum()), between, exact)
