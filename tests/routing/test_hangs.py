"""What the proof refuses does hang in the engine, and what it allows does not, under the same traffic."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import DeadlockError
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.routing import Graph, Relation, Way, minimal_adaptive, prove, ugal
from pyxsim.runner.proofs import prove_routes
from pyxsim.settings import Network
from pyxsim.topology import Topology, product
from pyxsim.topology.build import build
from tests.examples import part_of
from tests.routing.nets import grid
from tests.routing.test_counterexamples import UGAL, with_classes
from tests.topology.nets import block


def described(net: Topology, flits: int, router: dict[str, Any]) -> Network:
    words = {
        "topology": net.name,
        "shape": list(net.shape),
        "flit": "16 B",
        "packet": f"{16 * flits} B",
        "bandwidth": "16 GB/s",
        "latency": "1 ns",
        "router": {"pipeline": "booksim", **router},
    }
    return Network.model_validate(words)


def ends(
    net: Topology, traffic: list[tuple[int, int]], *, flits: int, sizes: tuple[int, ...] = (), **router: Any
) -> str:
    """ "delivered" or "deadlock", with all of the traffic sent at once. `sizes`: of messages, in turn."""
    network = PacketNetwork(net, described(net, flits, router))
    for i, (src, dst) in enumerate(traffic):
        size = sizes[i % len(sizes)] if sizes else flits
        network.send(src, dst, 16 * size, plane=-1, at=0)
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
        reuse: {ends(net, uniform(16, 3000, seed), vcs=2, buffer=8, flits=5, vc_reuse=reuse) for seed in range(3)}
        for reuse in ("tail", "drained")
    }
    # Packets that queue behind others cannot reach the escape. In VCs of their own they can.
    assert "deadlock" in found["tail"]
    assert found["drained"] == {"delivered"}


FLOWS = ("wormhole", "virtual-cut-through", "store-and-forward")


@pytest.mark.parametrize("pool", [0, 3])
@pytest.mark.parametrize("flits", [1, 3])
@pytest.mark.parametrize("flow", FLOWS)
def test_a_granted_vc_without_room(flow: str, flits: int, pool: int) -> None:
    """A head that took a VC behind other packets and waits there for credits asks for no escape any more."""
    net = build("ring", [8]).routed("minimal-adaptive")
    router: dict[str, Any] = {"flow_control": flow, "vcs": 4, "buffer": flits + 1, "shared_buffer": pool}
    found = {}
    for reuse in ("tail", "drained"):
        router["vc_reuse"] = reuse
        found[reuse] = {ends(net, uniform(8, 400, seed), flits=flits, **router) for seed in range(8)}
        if (flow, reuse) == ("wormhole", "tail"):
            with pytest.raises(DeadlockError):
                prove_routes(net.relation, described(net, flits, router), None, flits)
        else:
            prove_routes(net.relation, described(net, flits, router), None, flits)
    assert found["drained"] == {"delivered"}
    assert ("deadlock" in found["tail"]) == (flow == "wormhole")


def test_vc_classes_that_need_slots_of_one_pool() -> None:
    """What a packet of the one class waits for, those of the other have, and the dateline is none."""
    net = build("ring", [8])
    router: dict[str, Any] = {"flow_control": "virtual-cut-through", "vcs": 2, "shared_buffer": 4}
    traffic = uniform(8, 400, 0)
    with pytest.raises(DeadlockError, match="prevents this"):
        prove_routes(net.relation, described(net, 4, router | {"buffer": 1}), None, 4)
    assert ends(net, traffic, flits=4, buffer=1, **router) == "deadlock"
    prove_routes(net.relation, described(net, 4, router | {"buffer": 4}), None, 4)
    assert ends(net, traffic, flits=4, buffer=4, **router) == "delivered"


ADAPTIVE = [("ring", [6]), ("ring", [8]), ("torus", [3, 3]), ("torus", [2, 5]), ("torus", [4, 4]), ("mesh", [3, 3])]
GRAPHS = [("random-regular", {"routers": 8, "degree": 3}), ("random-regular", {"routers": 10, "degree": 3})]
OBLIVIOUS = ("dimension-order", "valiant", "ugal")


@st.composite
def machines(draw: st.DrawFn) -> tuple[Topology, int, dict[str, Any]]:
    """Small networks with small buffers: the flits of a packet, and the router."""
    if draw(st.integers(0, 3)):
        net = build(*draw(st.sampled_from(ADAPTIVE)))
        net = net.routed(draw(st.sampled_from(["minimal-adaptive", "minimal-adaptive", *OBLIVIOUS])))
    else:
        name, options = draw(st.sampled_from(GRAPHS))
        net = build(name, options={**options, "seed": draw(st.integers(1, 9))}).routed("minimal-adaptive")
    flits = draw(st.sampled_from([1, 2, 3, 5]))
    pool = draw(st.sampled_from([0, 0, 1, flits, 2 * flits]))
    router = {
        "vcs": draw(st.integers(4, 5)),
        "buffer": draw(st.integers(max(1, flits - min(pool, 2)), flits + 2)),
        "shared_buffer": pool,
        "flow_control": draw(st.sampled_from([*FLOWS, *FLOWS[1:]])),
        "vc_reuse": draw(st.sampled_from(["tail", "tail", "drained"])),
        "va_allocator": draw(st.sampled_from(["rotating", "rotating", "islip:2", "wavefront", "age"])),
        "internal_speedup": draw(st.sampled_from([1, 1, 2])),
        "speculation": draw(st.booleans()),
    }
    return net, flits, router


def never_hangs(machine: tuple[Topology, int, dict[str, Any]], seed: int) -> None:
    net, flits, router = machine
    try:
        prove_routes(net.relation, described(net, flits, router), None, flits)
    except DeadlockError:
        return
    rng = random.Random(seed)
    sizes = tuple(rng.randint(1, 3 * flits) for _ in range(rng.choice([1, 7])))
    assert ends(net, uniform(net.npus, 600, seed), flits=flits, sizes=sizes, **router) == "delivered"


@settings(max_examples=part_of(60))
@given(machines(), st.integers(0, 999))
def test_what_is_proved_never_hangs(machine: tuple[Topology, int, dict[str, Any]], seed: int) -> None:
    never_hangs(machine, seed)


@pytest.mark.slow
@settings(max_examples=600)
@given(machines(), st.integers(0, 999))
def test_what_is_proved_never_hangs_many(machine: tuple[Topology, int, dict[str, Any]], seed: int) -> None:
    never_hangs(machine, seed)


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
    assert ends(biased(booksim), traffic, vcs=3, buffer=4, flits=20) == "deadlock"
    assert ends(biased(proved), traffic, vcs=4, buffer=4, flits=20) == "delivered"
