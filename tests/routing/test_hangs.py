"""What the proof refuses does hang in the engine, and what it allows does not, under the same traffic."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pyxsim.errors import DeadlockError
from pyxsim.network.packet import PacketNetwork
from pyxsim.routing import Graph, Relation, Way, minimal_adaptive, prove, ugal
from pyxsim.settings import Network
from pyxsim.topology import Topology, product
from pyxsim.topology.build import build
from tests.routing.nets import grid
from tests.routing.test_counterexamples import UGAL, with_classes
from tests.topology.nets import block


def ends(net: Topology, traffic: list[tuple[int, int]], *, vcs: int, buffer: int, flits: int, reuse: str) -> str:
    """ "delivered" or "deadlock", with all of the traffic sent at once."""
    words = {
        "topology": net.name,
        "shape": list(net.shape),
        "flit": "16 B",
        "packet": f"{16 * flits} B",
        "bandwidth": "16 GB/s",
        "latency": "1 ns",
        "router": {"vcs": vcs, "buffer": buffer, "vc_reuse": reuse, "pipeline": "booksim"},
    }
    network = PacketNetwork(net, Network.model_validate(words))
    for src, dst in traffic:
        network.send(src, dst, 16 * flits, plane=-1, at=0)
    reason = "delivered"
    while network.engine.messages_pending and reason == "delivered":
        reason = network.engine.run(10_000_000).reason
    return reason


def uniform(npus: int, messages: int, seed: int) -> list[tuple[int, int]]:
    pairs = np.random.default_rng(seed).integers(0, npus, (messages, 2))
    return [(src, dst) for src, dst in pairs.tolist() if src != dst]


def test_an_escape_in_vcs_of_several_packets() -> None:
    base = product("mesh", [block("mesh", 4), block("mesh", 4)])
    net = dataclasses.replace(base, relation=minimal_adaptive(grid("mesh", [4, 4])))
    prove(net.relation, whole=True)
    with pytest.raises(DeadlockError):
        prove(net.relation)
    found = {
        reuse: {ends(net, uniform(16, 3000, seed), vcs=2, buffer=8, flits=5, reuse=reuse) for seed in range(3)}
        for reuse in ("tail", "drained")
    }
    # Packets that queue behind others cannot reach the escape. In VCs of their own they can.
    assert "deadlock" in found["tail"]
    assert found["drained"] == {"delivered"}


def test_dragonfly_with_the_classes_of_booksim2() -> None:
    net = build("dragonfly", options={"p": 2, "a": 4, "h": 2, "g": 9})
    graph = Graph(net.routers, net.home, net.link_src, net.link_dst, net.link_name)
    group = np.arange(36) // 4
    is_global = group[graph.src] != group[graph.dst]
    at_goal = group[graph.src][:, None] == group[None, :]
    last = np.where(is_global[:, None] | at_goal, 2, 1)
    booksim = with_classes(graph, [np.zeros_like(last), last], 3, UGAL)
    first = (~is_global[:, None] & at_goal).astype(int)
    minimal = dataclasses.replace(with_classes(graph, [first], 2, (Way(0),)), choose="random")
    proved = ugal(minimal)
    prove(proved)
    with pytest.raises(DeadlockError):
        prove(booksim)

    def biased(relation: Relation) -> Topology:
        """Under load most packets go over a via; here all of those do that are not alone on their link."""
        way = dataclasses.replace(relation.ways[1], bias=-10)
        return dataclasses.replace(net, relation=dataclasses.replace(relation, ways=(relation.ways[0], way)))

    traffic = uniform(72, 4000, 0)
    assert ends(biased(booksim), traffic, vcs=3, buffer=4, flits=20, reuse="tail") == "deadlock"
    assert ends(biased(proved), traffic, vcs=4, buffer=4, flits=20, reuse="tail") == "delivered"
