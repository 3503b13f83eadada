"""The engine takes links and VC classes that the relation allows, with every routing, on random networks."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.routing import (
    Relation,
    adaptive_xy_yx,
    balanced,
    minimal_adaptive,
    romm,
    tie_random,
    ugal,
    valiant,
    vc_ranges,
    xy_yx,
)
from pyxsim.settings import Network
from pyxsim.topology import Topology
from tests.examples import part_of
from tests.garnet_networks import garnet_switch, garnet_torus
from tests.routing.slow import Channel, Slow
from tests.topology.nets import products

MADE: list[Any] = [tie_random, balanced, xy_yx, adaptive_xy_yx, valiant, romm, ugal, minimal_adaptive]


def channels(relation: Relation, vcs: int) -> dict[tuple[int, int], Channel]:
    """(link, VC) -> (link, VC class)."""
    found = {}
    for link, classes in enumerate(relation.link_classes.tolist()):
        for vc_class, (low, high) in enumerate(zip(*vc_ranges(vcs, classes, relation.fixed_vcs), strict=True)):
            found |= {(link, vc): (link, vc_class) for vc in range(low, high)}
    return found


def followed(net: Topology, rows: list[tuple[int, int, int]], vcs: int = 12) -> None:
    """Send packets for each (source, destination, plane), and compare every launch with what the relation allows."""
    # The settings give speeds and router; what they call the network does not matter here.
    words = {"topology": net.name, "shape": list(net.shape), "router": {"vcs": vcs}}
    network = PacketNetwork(net, Network.model_validate(words), trace=True)
    for src, dst, plane in rows:
        network.send(src, dst, 1, plane=plane, at=0)
    while network.engine.messages_pending:
        assert network.engine.run(1_000_000).reason == "delivered"
    taken: dict[int, list[Channel]] = {message: [] for message in range(len(rows))}
    class_of = channels(net.relation, vcs)
    for _, link, vc, message, _, flit in network.engine.trace().tolist():
        if link < net.links and flit == 0:
            taken[message].append(class_of[link, vc])
    slow = Slow(net.relation, [], whole=False)
    for message, row in enumerate(rows):
        states = set(slow.begins(*row))
        for channel in taken[message]:
            states = {after for state in states for taking, after in slow.step(state) if taking == channel}
            assert states
        assert any(not slow.step(state) for state in states)


def rows(net: Topology) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    npu, plane = st.integers(0, net.npus - 1), st.integers(-1, net.planes - 1)
    return st.lists(st.tuples(npu, npu, plane).filter(lambda row: row[0] != row[1]), max_size=40)


@settings(max_examples=part_of(60))
@given(products(most=27), st.sampled_from(MADE), st.data())
def test_products(net: Topology, made: Any, data: st.DataObject) -> None:
    with contextlib.suppress(InputError):  # some routings need other networks
        net = dataclasses.replace(net, relation=made(net.relation))
    followed(net, data.draw(rows(net)) if net.npus > 1 else [])


def test_without_a_choice_it_is_the_route() -> None:
    net = garnet_torus(3, 2, 2, 2, 1, 1)
    for made in (net, garnet_switch(3, 2, 1, 2)):
        assert made.relation.deterministic
        followed(made, [(int(a), int(b), int(p)) for a, b, p in made.pairs()])
