"""Rails, planes and queue pairs: routes, shares of NIC ports, equal parts, and training steps on 64 x 8 NPUs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyxsim
from pyxsim import library
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.network.ethernet.stripes import Stripes
from pyxsim.settings import Network
from pyxsim.settings.points import points
from pyxsim.topology.build import network_of

RAIL_64X8 = Path(__file__).resolve().parents[3] / "inputs" / "ethernet" / "rail_64x8.toml"
PACKET = 1050  # bytes on the wire


def rails(options: dict[str, Any], **ethernet: Any) -> EthernetNetwork:
    """Links of 100 Gb/s (12.5 B/ns) and 500 ns, without congestion control."""
    library.load_all()
    settings = {
        "transport": "none",
        "transport_options": {"window": False},
        "mtu": "1000 B",
        "header": "50 B",
        "ecn": {"enabled": False},
        **ethernet,
    }
    network = Network(
        topology="rail-optimized",
        options=options,
        bandwidth="12.5 GB/s",
        latency="500 ns",
        ethernet=settings,
        clock="1 GHz",
    )
    return EthernetNetwork(network_of(network), network)


def run(network: EthernetNetwork, src: list[int], dst: list[int], nbytes: list[int]) -> np.ndarray:
    """Send messages at once; return their times, ns."""
    times = np.full(len(src), -1)
    network.send_many(np.array(src), np.array(dst), np.array(nbytes), np.zeros(len(src), np.int64), 0)
    while True:
        messages, cycles = network.advance(None)
        if not len(messages):
            return times
        assert (times[messages] == -1).all()
        times[messages] = cycles


def used(network: EthernetNetwork, sizes: int = PACKET) -> list[str]:
    """The names of the links that carried data."""
    sent = network.engine.port_counters()["sent_bytes"]
    return [name for name, count in zip(network.topology.link_name, sent, strict=True) if count >= sizes]


@pytest.mark.parametrize(
    ("spines", "dst", "way"),
    [
        (0, 1, ["scale-up:(0,0)->(*,0)", "scale-up:(*,0)->(1,0)"]),
        (0, 4, ["rail:(0,0)->leaf0:(0,0)", "rail:leaf0:(0,0)->(0,2)"]),
        (1, 3, ["rail:(0,0)->leaf0:(0,0)", "rail:leaf0:(1,0)->(1,1)", "spine:leaf0:(0,0)->spine0:0"]),
    ],
)
def test_shortest_routes(spines: int, dst: int, way: list[str]) -> None:
    """Within a server, along a rail, and between rails over the spines, which is as far as over another NPU."""
    network = rails({"servers": 3, "npus": 2, "spines": spines})
    run(network, [0] * 8, [dst] * 8, [1000] * 8)
    assert set(way) <= set(used(network))
    assert len(used(network)) == len(way) + (spines == 1)


def test_without_spines_an_npu_forwards() -> None:
    network = rails({"servers": 3, "npus": 2})
    run(network, [0] * 8, [5] * 8, [1000] * 8)
    assert set(used(network)) == {
        *("scale-up:(0,0)->(*,0)", "scale-up:(*,0)->(1,0)", "rail:(1,0)->leaf0:(1,0)", "rail:leaf0:(1,0)->(1,2)"),
        *("rail:(0,0)->leaf0:(0,0)", "rail:leaf0:(0,0)->(0,2)", "scale-up:(0,2)->(*,2)", "scale-up:(*,2)->(1,2)"),
    }


@pytest.mark.parametrize("planes", [1, 2, 4])
@pytest.mark.parametrize("queue_pairs", [4, 8])
def test_queue_pairs_use_all_ports_of_a_nic(planes: int, queue_pairs: int) -> None:
    """400 packets over `planes` ports at once: the last one takes a link more."""
    network = rails({"servers": 2, "npus": 1, "planes": planes}, queue_pairs=queue_pairs)
    times = run(network, [0], [1], [400_000])
    assert times.tolist() == [400 // planes * 84 + 500 + 84 + 500]
    sent = network.engine.port_counters()["sent_bytes"]
    rail = [name.startswith("rail:(0,0)") for name in network.topology.link_name]
    assert sent[rail].tolist() == [400 * PACKET // planes] * planes
    flows = network.tables()["flows"].columns
    assert flows["message"].tolist() == [0] * queue_pairs
    assert flows["bytes"].tolist() == [400_000 // queue_pairs] * queue_pairs


def test_a_message_arrives_with_its_last_flow() -> None:
    """Random messages over two planes: each arrives once, when its last part does; bytes and packets add up."""
    random = np.random.default_rng(3)
    src, sizes = random.integers(0, 8, 40), random.integers(1, 30_000, 40)
    dst = (src + random.integers(1, 8, 40)) % 8
    network = rails({"servers": 4, "npus": 2, "planes": 2}, queue_pairs=3)
    times = run(network, src.tolist(), dst.tolist(), sizes.tolist())
    flows = network.tables()["flows"].columns
    message = flows["message"]
    assert np.array_equal(np.bincount(message, flows["bytes"]), sizes)
    assert np.array_equal(np.bincount(message, flows["packets"]), -(-sizes // 1000))
    last = np.zeros(40, np.int64)
    np.maximum.at(last, message, -(-flows["end"] // 1000))
    assert np.array_equal(last, times)
    assert network.bytes_delivered == sizes.sum()
    assert network.messages_sent == 40


def test_a_pickled_network_continues() -> None:
    def send() -> EthernetNetwork:
        network = rails({"servers": 4, "npus": 2, "planes": 2}, queue_pairs=3)
        src = np.arange(8)
        network.send_many(src, src[::-1].copy(), np.full(8, 50_000), np.zeros(8, np.int64), 0)
        return network

    whole, parts = send(), send()
    ends: dict[int, int] = {}
    while parts.engine.pending:
        ends |= dict(zip(*(column.tolist() for column in parts.advance(parts.now + 20_001)), strict=True))
        parts = pickle.loads(pickle.dumps(parts))
    expected: dict[int, int] = {}
    while len((batch := whole.advance(None))[0]):
        expected |= dict(zip(*(column.tolist() for column in batch), strict=True))
    assert ends == expected


def test_cut_is_even_and_whole() -> None:
    which, size, number = Stripes(4, 1000).cut(np.array([1, 3500, 9001]))
    assert which.tolist() == [0, 1, 1, 1, 1, 2, 2, 2, 2]
    assert number.tolist() == [0, 0, 1, 2, 3, 0, 1, 2, 3]
    assert size.tolist() == [1, 1000, 1000, 1000, 500, 2000, 3000, 2000, 2001]


def test_a_full_window_is_acknowledged_at_once() -> None:
    """A window of 3 packets and an acknowledgment for each 16: without a request, each window would end by timeout."""
    library.load_all()
    options = {"servers": 2, "npus": 1}
    network = rails(options, transport_options={"window": True}, ack_interval=16, timeout="10 ms", mtu="10000 B")
    (time,) = run(network, [0], [1], [10**6])
    assert network.engine.flow_table()["timeouts"].sum() == 0
    assert time < 10**6


def check_step(result: pyxsim.Result) -> None:
    assert result.complete
    assert not result.warnings
    counts, ports = result.counts, result.ports
    assert counts["packets"] == counts["packets_delivered"] + counts["packets_in_network"]
    assert result.flows["timeouts"].sum() == 0
    kinds = np.array([link.partition(":")[0] for link in result.links.name])
    assert all(ports["bytes"][kinds == kind].sum() > 0 for kind in ("scale-up", "rail", "spine"))


def test_a_training_step_on_8x8() -> None:
    smaller = ["network.options.servers=8", "network.options.pod=4"]
    (dlrm,) = (point for point in points(RAIL_64X8, smaller) if point.variant == "DLRM")
    check_step(pyxsim.run(dlrm.experiment, backend="ethernet"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DLRM", "Mixtral", "GPT-3"])
def test_a_training_step_on_64x8(name: str) -> None:
    (step,) = (point for point in points(RAIL_64X8) if point.variant == name)
    result = pyxsim.run(step.experiment, backend="ethernet")
    assert result.topology.npus == 512
    check_step(result)
