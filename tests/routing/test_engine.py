"""The engine takes the very links and VC classes that the relation names, on random products of blocks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.network.packet import PacketNetwork
from pyxsim.settings import Network
from pyxsim.topology import Topology
from pyxsim.topology.garnet import garnet_switch, garnet_torus
from tests.topology.nets import products


def followed(net: Topology, pairs: list[tuple[int, int, int]]) -> None:
    """Send one packet for each (source, destination, plane), and compare every launch with the route."""
    vcs = 4
    # The settings give speeds and router; what they call the network does not matter here.
    words = {"topology": net.name, "shape": list(net.shape), "router": {"vcs": vcs}}
    network = PacketNetwork(net, Network.model_validate(words), trace=True)
    for src, dst, plane in pairs:
        network.send(src, dst, 1, plane=plane, at=0)
    while network.engine.messages_pending:
        assert network.engine.run(1_000_000).reason == "delivered"
    taken: dict[int, list[tuple[int, int]]] = {message: [] for message in range(len(pairs))}
    for _, link, vc, message, _, _ in network.engine.trace().tolist():
        if link < net.links:
            classes = int(net.relation.link_classes[link])
            # Class c has the VCs from c * V / C to (c + 1) * V / C.
            vc_class = next(c for c in range(classes) if vc < (c + 1) * vcs // classes)
            taken[message].append((link, vc_class))
    for message, (src, dst, plane) in enumerate(pairs):
        assert taken[message] == net.relation.route(src, dst, plane)


@settings(max_examples=40)
@given(products(most=32), st.data())
def test_products(net: Topology, data: st.DataObject) -> None:
    npu, plane = st.integers(0, net.npus - 1), st.integers(0, net.planes - 1)
    pair = st.tuples(npu, npu, plane).filter(lambda p: p[0] != p[1])
    followed(net, data.draw(st.lists(pair, max_size=30)) if net.npus > 1 else [])


def test_garnet() -> None:
    for net in (garnet_torus(3, 2, 2, 2, 1, 1), garnet_switch(3, 2, 1, 2)):
        followed(net, [(int(a), int(b), int(p)) for a, b, p in net.pairs()])
