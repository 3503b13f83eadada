"""Random networks, settings and messages: every message arrives, and every packet is accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.settings import Network
from pyxsim.topology.build import network_of
from tests.examples import part_of

NETWORKS = [((4, 2), (2,)), ((3, 3), (1,)), ((2, 2, 2), (2, 2)), ((6,), ()), ((4, 4), (4,))]
TRANSPORTS = ["none", "dcqcn", "dctcp", "hpcc", "hpcc-pint", "swift", "timely", "newreno", "cubic", "ndp"]
TCP = {"min_rto": "20 us", "initial_rto": "100 us"}
# the retries of a message that is stopped for 30 us are not used up
FAULTS: list[dict[str, Any]] = [
    {"link": "*", "packet_error_rate": 0.01},
    {"link": "host:*", "bit_error_rate": 1e-6, "start": "3 us"},
    {"link": "host:NPU 1*", "down": True, "start": "2 us", "end": "30 us", "routes": "stale"},
    {"link": "*(0)->*", "rate_factor": 0.3, "end": "10 us", "both_directions": False},
]
CLASSES: list[dict[str, Any]] = [
    {"max_size": "20 kB", "weight": 2},
    {"npus": [0, 2, 4], "pfc": False, "ecn": False},
    {"min_size": "100 kB", "weight": 5},
]


@st.composite
def ethernets(draw: st.DrawFn) -> dict[str, Any]:
    transport = draw(st.sampled_from(TRANSPORTS))
    pfc, selective = draw(st.booleans()) and transport != "ndp", draw(st.booleans())
    buffer: dict[str, Any] = {"alpha": draw(st.sampled_from([0.5, 1, 2] if pfc else [0, 0.5, 2]))}
    buffer["capacity"] = f"{draw(st.sampled_from([1600, 4096] if pfc else [64, 256, 4096]))} KiB"
    if not pfc and draw(st.booleans()):
        buffer["queue"] = f"{draw(st.sampled_from([8, 30]))} KiB"
    made: dict[str, Any] = {
        "transport": transport,
        "load_balancing": draw(st.sampled_from(["ecmp", "spray", "adaptive", "flowlet"])),
        "flowlet_gap": "1 us",
        "flowlet_entries": draw(st.sampled_from([1, 4096])),
        "reliability": "selective" if selective else "go-back-n",
        "forwarding": draw(st.sampled_from(["store-and-forward", "cut-through"])),
        "mtu": f"{draw(st.sampled_from([256, 1000, 4096]))} B",
        "timeout": draw(st.sampled_from(["20 us", "100 us"])),
        "nack_interval": "5 us",
        "end": draw(st.sampled_from(["received", "acknowledged"])),
        "ack_interval": draw(st.sampled_from([1, 4])),
        "cnp_interval": draw(st.sampled_from(["0 ns", "4 us"])),
        "buffer": buffer,
        "pfc": {"enabled": pfc},
        "ecn": {"enabled": draw(st.booleans()), "mark": draw(st.sampled_from(["dequeue", "enqueue"]))},
    }
    if not pfc and (selective or transport in ("newreno", "cubic")) and draw(st.booleans()):
        made["trim"] = "64 B"
    if transport in ("newreno", "cubic"):
        made["transport_options"] = {**TCP, "sack": draw(st.booleans()), "ecn": draw(st.booleans())}
    elif transport == "ndp":
        made["transport_options"] = {
            "initial_window": draw(st.sampled_from([0, 1, 30])),
            "spray": made["load_balancing"] == "ecmp" and draw(st.booleans()),
        }
    elif transport != "swift" and draw(st.booleans()):
        made["transport_options"] = {"window": False}
    made["scheduling"] = draw(st.sampled_from(["round-robin", "strict", "weighted"]))
    made["classes"] = draw(st.lists(st.sampled_from(CLASSES), max_size=2))
    made["links"] = draw(st.lists(st.sampled_from(FAULTS), max_size=2))
    return made


def carried(shape: tuple[tuple[int, ...], tuple[int, ...]], ethernet: dict[str, Any], seed: int) -> EthernetNetwork:
    """A network that has carried random messages, half of the time an incast; all of them have arrived."""
    options = {"children": list(shape[0]), "parents": list(shape[1])}
    experiment = Network(topology="folded-clos", options=options, bandwidth="50 GB/s", ethernet=ethernet)
    try:
        network = EthernetNetwork(network_of(experiment, Path()), experiment, seed=seed)
    except InputError as error:  # slow ways back need more headroom for PFC than a small buffer has
        assume(error.key != "network.ethernet.buffer.capacity")
        raise
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 60))
    src = random.integers(0, network.npus, count)
    dst = (src + random.integers(1, network.npus, count)) % network.npus
    if seed % 2:
        src, dst = np.maximum(src, 1), np.zeros(count, np.int64)
    network.send_many(src, dst, random.integers(1, 200_000, count), np.zeros(count, np.int64), 0)
    arrived = np.zeros(count, np.int64)
    while len(batch := network.advance(None)[0]):
        arrived[batch] += 1
    assert (arrived == 1).all()
    return network


def check(shape: tuple[tuple[int, ...], tuple[int, ...]], ethernet: dict[str, Any], seed: int) -> None:
    network = carried(shape, ethernet, seed)
    counts, flows, ports = network.engine.counts, network.engine.flow_table(), network.engine.port_counters()
    assert counts["in_network"] == 0
    assert counts["made"] == counts["delivered"] + counts["dropped"] + counts["errored"]
    assert counts["errored"] == ports["errors"].sum() >= flows["errors"].sum()
    assert counts["dropped"] == ports["dropped"].sum() >= flows["dropped"].sum()  # replies count at ports only
    sent, received = flows["sent"] + flows["resent"], flows["delivered"] + flows["trimmed"]
    assert np.array_equal(sent, received + flows["dropped"] + flows["errors"])
    assert flows["trimmed"].sum() == ports["trimmed"].sum()
    assert (flows["sent"] == flows["packets"]).all()
    assert counts["delivered_bytes"] == flows["bytes"].sum()
    if ethernet["pfc"]["enabled"]:
        lossless = [*(entry.get("pfc", True) for entry in ethernet["classes"]), True]
        assert flows["dropped"][np.array(lossless)[flows["traffic_class"] - 1]].sum() == 0
        assert counts["dropped"] == 0 or not all(lossless)
    if (
        not counts["dropped"] + counts["errored"]
        and not ports["trimmed"].sum()
        and ethernet["load_balancing"] == "ecmp"
        and not ethernet.get("transport_options", {}).get("spray")
    ):
        assert not flows["out_of_order"].any()
    again = carried(shape, ethernet, seed).engine
    for name, column in flows.items():
        assert np.array_equal(column, again.flow_table()[name]), name


@settings(max_examples=part_of(40), deadline=None)
@given(shape=st.sampled_from(NETWORKS), ethernet=ethernets(), seed=st.integers(0, 2**31))
def test_packets_are_conserved(shape: Any, ethernet: dict[str, Any], seed: int) -> None:
    check(shape, ethernet, seed)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(shape=st.sampled_from(NETWORKS), ethernet=ethernets(), seed=st.integers(0, 2**31))
def test_packets_are_conserved_in_2000_networks(shape: Any, ethernet: dict[str, Any], seed: int) -> None:
    check(shape, ethernet, seed)


def test_pauses_that_arrive_late_lose_nothing() -> None:
    """Links back to the senders at 9 % of their rate: the headroom holds what is sent until a PFC frame arrives."""
    slow = {"link": "*(0)->*", "rate_factor": 0.3, "end": "10 us", "both_directions": False}
    ethernet = {
        "transport": "none",
        "load_balancing": "ecmp",
        "mtu": "256 B",
        "timeout": "20 us",
        "buffer": {"alpha": 0.5, "capacity": "1600 KiB"},
        "pfc": {"enabled": True},
        "ecn": {"enabled": False},
        "classes": [],
        "links": [slow, slow],
    }
    check(((4, 2), (2,)), ethernet, 0)
