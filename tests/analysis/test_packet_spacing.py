"""How soon packets can follow each other over a link: what is told beforehand is what a long message takes."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.analysis.packet_spacing import stream
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment

FEW, MANY = 60, 180  # packets: after the first ones all go at the same pace


def network_of(router: dict[str, Any], latency: str, flits: int, width: int = 128) -> PacketNetwork:
    """A row of four NPUs."""
    wires = {"bandwidth": f"{width} GB/s", "flit": "256 B", "packet": f"{256 * flits} B", "latency": latency}
    network = {"topology": "mesh", "shape": [4], **wires, "router": router}
    ready = prepare(load_experiment({"network": network, "message": [{"src": 0, "dst": 3, "size": "1 B"}]}))
    assert isinstance(ready, Prepared)
    assert isinstance(ready.network, PacketNetwork)
    return PacketNetwork(ready.topology, ready.experiment.network)


CASES: dict[str, tuple[dict[str, Any], str, int]] = {
    "buffers cover the loop": ({}, "100 ns", 4),
    "drained, one VC": ({"vc_reuse": "drained", "vcs": 1}, "100 ns", 4),
    "drained, four VCs": ({"vc_reuse": "drained", "vcs": 4}, "100 ns", 4),
    "drained, VCs enough": ({"vc_reuse": "drained", "vcs": 64}, "100 ns", 4),
    "drained, long packets": ({"vc_reuse": "drained", "vcs": 2}, "20 ns", 64),
    "drained, Garnet": ({"vc_reuse": "drained", "vcs": 4, "pipeline": "garnet", "latency": 3}, "50 ns", 4),
    "drained, speculation": ({"vc_reuse": "drained", "vcs": 2, "speculation": True}, "20 ns", 4),
    "drained, credits later": ({"vc_reuse": "drained", "vcs": 3, "credit_delay": 30}, "20 ns", 4),
    "buffers too small": ({"vcs": 2, "buffer": 8}, "100 ns", 4),
    "one VC, buffers too small": ({"vcs": 1, "buffer": 8}, "100 ns", 4),
    "a pool": ({"vcs": 2, "buffer": 8, "shared_buffer": 24}, "100 ns", 4),
    "packets that are in order": ({"vcs": 4, "buffer": 4, "ordered": True}, "100 ns", 8),
    "cut-through, room for one packet": ({"flow_control": "virtual-cut-through", "vcs": 2, "buffer": 4}, "100 ns", 4),
    "cut-through, room for two and a half": (
        {"flow_control": "virtual-cut-through", "vcs": 2, "buffer": 10},
        "100 ns",
        4,
    ),
    "store-and-forward": ({"flow_control": "store-and-forward", "vcs": 2, "buffer": 16}, "100 ns", 8),
    "serdes": ({"vc_reuse": "drained", "vcs": 2, "serdes": 5}, "20 ns", 4),
    "a lane that has one packet open": ({"vcs": 4, "buffer": 2}, "1 ns", 4),
    "one VC of a class: RC and VA between packets": ({"vcs": 1}, "20 ns", 1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("hops", [1, 3])
def test_a_long_message_takes_what_is_told(name: str, hops: int) -> None:
    router, latency, flits = CASES[name]
    ends = []
    for packets in (FEW, MANY):
        network = network_of(router, latency, flits)
        network.send(0, hops, packets * 256 * flits, at=0)
        ends.append(int(network.advance(None)[1][-1]))
    links, lanes = network.config.links, (network.config.inject[0], network.config.eject[hops])
    inject, eject = (next(iter(each.values())) for each in lanes)
    way = [links.network + inject, *(link for link, _ in network.topology.relation.route(0, hops, 0))]
    told = max(stream(network, link, flits).cycles for link in [*way, links.network + links.injection + eject])
    assert (ends[1] - ends[0]) / (MANY - FEW) == pytest.approx(float(told), rel=0.02)


def test_a_packet_that_no_buffer_holds_is_told_with_caution() -> None:
    """Whether others go beside it is up to what else is sent: `certain` is what it does alone."""
    told = stream(network_of({"vcs": 8, "buffer": 8}, "100 ns", 16), 0, 16)
    assert told.share > 3 * told.certain
    assert told.certain == pytest.approx(8 * 2 / told.loop)


def test_as_many_vcs_as_are_told_are_enough() -> None:
    few = stream(network_of({"vc_reuse": "drained", "vcs": 4}, "100 ns", 4), 0, 4)
    assert few.share < 0.5
    for vcs, busy in ((few.enough, True), (few.enough - 1, False)):
        assert (stream(network_of({"vc_reuse": "drained", "vcs": vcs}, "100 ns", 4), 0, 4).share == 1) is busy


@pytest.mark.parametrize(
    ("router", "words"),
    [
        ({"vc_reuse": "drained"}, "network.router.vc_reuse: a VC takes a packet of 4 flits every 213 cycles, "),
        ({"buffer": 4}, "network.router.buffer: 4 flits x 4 VCs (of a class) cover 16% of the credit loop of dimen"),
        ({"buffer": 2}, "network.router.buffer: 2 flits x 1 VC (a packet at a time) cover 67% of the credit loop of "),
    ],
)
def test_links_that_cannot_be_kept_busy_are_told(router: dict[str, Any], words: str) -> None:
    network = {"topology": "mesh", "shape": [4], "bandwidth": "128 GB/s", "packet": "1 KiB", "latency": "100 ns"}
    message = [{"src": 0, "dst": 3, "size": "1 B"}]
    ready = prepare(load_experiment({"network": {**network, "router": router}, "message": message}))
    assert any(line.startswith(words) for line in ready.warnings), ready.warnings
    assert not prepare(load_experiment({"network": network, "message": message})).warnings
