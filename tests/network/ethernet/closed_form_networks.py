"""Chains and stars of links for tests of closed forms."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from pyxsim.network.ethernet.engine import Engine
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.settings import Network
from pyxsim.topology.from_networkx import from_networkx

DELAY = 500_000  # ps, latency of each link


def network_of(
    graph: nx.Graph, ethernet: dict[str, Any], seed: int, delay: int = DELAY, **options: Any
) -> EthernetNetwork:
    for node, attributes in graph.nodes(data=True):
        attributes.setdefault("npus", int(graph.degree[node] == 1))
    for _, _, attributes in graph.edges(data=True):
        attributes |= {"bandwidth": f"{attributes['mbps']} Mb/s", "latency": f"{delay} ps"}
    settings = Network(topology="graph", options={"file": "closed"}, ethernet=ethernet, clock="1 THz")
    return EthernetNetwork(from_networkx(graph), settings, seed=seed, **options)


def chain(mbps: list[int], **ethernet: Any) -> EthernetNetwork:
    """NPU 0, switches, NPU 1: a link of each rate."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(mbps) + 1))
    for hop, rate in enumerate(mbps):
        graph.add_edge(hop, hop + 1, mbps=rate)
    return network_of(
        graph, {"transport": "none", "transport_options": {"window": False}, **ethernet}, 1, attribution=True
    )


def star(
    senders: int, mbps: int, sink_mbps: int | None = None, *, seed: int = 1, delay: int = DELAY, **ethernet: Any
) -> EthernetNetwork:
    """NPU 0 receives from NPUs 1 to `senders` by one switch."""
    graph = nx.Graph()
    graph.add_nodes_from(range(senders + 2))
    for host in range(senders + 1):
        graph.add_edge(host, senders + 1, mbps=mbps if host or sink_mbps is None else sink_mbps)
    return network_of(graph, {"transport": "none", **ethernet}, seed, delay, attribution=True)


def engine_of(network: EthernetNetwork) -> Engine:
    assert isinstance(network.engine, Engine)
    return network.engine


def begin(network: EthernetNetwork, src: list[int], dst: list[int], nbytes: int) -> None:
    """Start messages now."""
    count = len(src)
    network.send_many(np.array(src), np.array(dst), np.full(count, nbytes), np.zeros(count, np.int64), network.now)


def durations(network: EthernetNetwork) -> list[int]:
    """Run to the end; the time that each message took, ps."""
    while len(network.advance(None)[0]):
        pass
    flows = engine_of(network).flow_table()
    times: list[int] = (flows["end"] - flows["start"]).tolist()
    return times


def run_until(network: EthernetNetwork, time: int) -> None:
    """All events up to `time`, ps."""
    engine = engine_of(network)
    while 0 <= engine.next_time <= time:
        engine.run(time, 1, 1, 0)


def present_depth(network: EthernetNetwork, port: int) -> int:
    """The bytes in the queue of a port now."""
    engine_of(network).window_peaks()
    depth: int = engine_of(network).window_peaks()[port]
    return depth


def port_to(network: EthernetNetwork, router: int) -> int:
    """The port of the link into a node that has only one."""
    return network.topology.link_dst.tolist().index(router)
