"""The network with a node at each port of its switch, where the switch sends and receives packets itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyxsim.topology.graph import graph_network
from pyxsim.topology.routings import graph_routings
from pyxsim.topology.topology import Topology


def is_one_switch(topology: Topology) -> bool:
    """Whether the network is one switch, to which each NPU has one link, and from which one."""
    npus = topology.npus
    own_routers = topology.routers == npus + 1 and np.array_equal(topology.home, np.arange(npus))
    return own_routers and topology.links == 2 * npus and not topology.hosts


def with_ports(topology: Topology) -> Topology:
    """Return the network with nodes npus + i at its switch: the port to NPU i. Links keep their numbers."""
    npus = topology.npus
    links = np.stack([topology.link_src, topology.link_dst], axis=1)
    home = np.concatenate([topology.home, np.full(npus, npus)])
    made = graph_network(topology.name, home, links, graph_routings("table"), both_ways=False, routers=topology.routers)
    assert np.array_equal(made.link_src, topology.link_src)
    assert np.array_equal(made.link_dst, topology.link_dst)
    return replace(
        made,
        link_name=topology.link_name,
        link_kinds=topology.link_kinds,
        kind_dims=(0,) * len(topology.link_kinds),
        link_dim=topology.link_dim,
        link_length=topology.link_length,
        link_bandwidth=topology.link_bandwidth,
        link_latency=topology.link_latency,
    )
