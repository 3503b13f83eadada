"""NSCC and RCCC on the Ethernet backend: closed forms, conservation, faults, checkpoints, options."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError, SimulationError
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.settings import Network
from pyxsim.topology.build import network_of
from tests.examples import part_of

TRANSPORTS = ["nscc", "rccc", "nscc-rccc"]
WIRE, HEADER, ACK = 4096 + 82, 82, 84
BYTES_PER_NS = 50


def made(leaf: tuple[int, int], ethernet: dict[str, Any], seed: int = 1, **network: Any) -> EthernetNetwork:
    """Leaves of a leaf-spine network with NPUs each, and as many spines as leaves have NPUs."""
    leaves, npus = leaf
    options = {"npus": npus, "leaves": leaves, "spines": npus}
    links = {"bandwidth": "50 GB/s", "latency": "500 ns"}
    experiment = Network.model_validate(
        {"topology": "leaf-spine", "options": options, "clock": "1 GHz", **links, **network, "ethernet": ethernet}
    )
    return EthernetNetwork(network_of(experiment, Path()), experiment, seed=seed)


def send(network: EthernetNetwork, src: list[int], dst: list[int], nbytes: list[int]) -> None:
    plane = np.zeros(len(src), np.int64)
    network.send_many(np.array(src), np.array(dst), np.array(nbytes, np.int64), plane, 0)


def times(network: EthernetNetwork) -> list[tuple[int, int]]:
    """Advance until nothing happens. The messages that arrive, and when, ns."""
    arrived: list[tuple[int, int]] = []
    while True:
        messages, cycles = network.advance(None)
        if not len(messages):
            return arrived
        arrived.extend(zip(messages.tolist(), cycles.tolist(), strict=True))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_one_packet_takes_its_transmission_and_the_latency_of_each_link(transport: str) -> None:
    network = made((2, 2), {"transport": transport})
    send(network, [0], [3], [4096])
    assert times(network) == [(0, -(-4 * WIRE // BYTES_PER_NS) + 4 * 500)]


def test_the_sender_knows_one_acknowledgment_later() -> None:
    network = made((2, 2), {"transport": "nscc", "end": "acknowledged"})
    send(network, [0], [3], [4096])
    assert times(network) == [(0, -(-4 * (WIRE + ACK) // BYTES_PER_NS) + 8 * 500)]


def test_a_long_flow_fills_its_link() -> None:
    network = made((2, 2), {"transport": "nscc"})
    packets = 1000
    send(network, [0], [3], [packets * 4096])
    assert times(network) == [(0, -(-(packets + 3) * WIRE // BYTES_PER_NS) + 4 * 500)]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_incast_takes_the_time_of_its_bytes_on_the_last_link(transport: str) -> None:
    network = made((4, 4), {"transport": transport, "buffer": {"queue": "64 KiB"}})
    packets = 100
    send(network, list(range(1, 16)), [0] * 15, [packets * 4096] * 15)
    end = max(at for _, at in times(network))
    trimmed = network.counts()["packets_trimmed"]
    least = (15 * packets * WIRE + trimmed * ACK) / BYTES_PER_NS
    assert trimmed > 0
    # RCCC paces pulls at 99 % of the line rate; the rest is the first round trip and the last packets sent again.
    assert least < end < least / 0.95 + 10_000


@st.composite
def ethernets(draw: st.DrawFn) -> dict[str, Any]:
    trimming = draw(st.booleans())
    transport = draw(st.sampled_from(TRANSPORTS))
    options: dict[str, Any] = {
        "entropy": draw(st.sampled_from(["mixed", "bitmap", "oblivious", "reps", "reps-legacy"])),
        "paths": draw(st.sampled_from([1, 4, 64])),
    }
    if transport == "nscc" and not trimming:
        options["sleek"] = draw(st.booleans())
    ethernet: dict[str, Any] = {
        "transport": transport,
        "transport_options": options,
        "end": draw(st.sampled_from(["received", "acknowledged"])),
        "buffer": {"queue": draw(st.sampled_from(["20 KiB", "100 KiB"]))},
        "timeout": "50 us",
    }
    if not trimming:
        ethernet["trim"] = "0 B"
    if draw(st.booleans()):
        ethernet["links"] = [{"link": "*", "packet_error_rate": 0.01}]
    return ethernet


@given(ethernets(), st.integers(0, 2**32 - 1))
@settings(max_examples=part_of(25))
def test_every_message_arrives_and_every_packet_is_accounted_for(ethernet: dict[str, Any], seed: int) -> None:
    network = made((3, 3), ethernet, seed)
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 40))
    src = random.integers(0, 9, count)
    dst = (src + random.integers(1, 9, count)) % 9 if random.integers(2) else np.where(src, 0, 1)
    send(network, src.tolist(), dst.tolist(), random.integers(1, 200_000, count).tolist())
    assert sorted(message for message, _ in times(network)) == list(range(count))
    counts = network.counts()
    gone = counts["packets_delivered"] + counts["packets_dropped"] + counts["packets_errored"]
    assert counts["packets"] == gone + counts["packets_in_network"]
    flows = network.engine.flow_table()
    assert (flows["sent"] + flows["resent"] >= flows["packets"]).all()
    assert (flows["delivered"] >= flows["packets"]).all()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_pickled_network_continues_to_the_bit(transport: str) -> None:
    ethernet = {"transport": transport, "buffer": {"queue": "40 KiB"}, "links": [{"link": "*", "bit_error_rate": 1e-7}]}
    whole, parts = made((3, 3), ethernet), made((3, 3), ethernet)
    for network in (whole, parts):
        send(network, list(range(1, 9)) * 3, [0] * 24, [50_000] * 24)
    expected = times(whole)
    got: list[tuple[int, int]] = []
    for _ in range(6):
        messages, cycles = parts.advance(None)
        got.extend(zip(messages.tolist(), cycles.tolist(), strict=True))
        parts = pickle.loads(pickle.dumps(parts))
    got.extend(times(parts))
    assert got == expected
    table, other = whole.engine.flow_table(), parts.engine.flow_table()
    assert all((table[name] == other[name]).all() for name in table)


def test_the_same_seed_gives_the_same_run() -> None:
    runs = []
    for seed in (1, 1, 2):
        network = made((4, 4), {"transport": "nscc", "buffer": {"queue": "40 KiB"}}, seed)
        send(network, list(range(1, 16)), [0] * 15, [100_000] * 15)
        runs.append(times(network))
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("entropy", ["reps", "mixed", "bitmap"])
def test_feedback_avoids_a_slow_link(entropy: str) -> None:
    """A link at a tenth of its rate: senders that learn from marks use it less than senders that do not."""
    fault = {"link": "*:(0)->(4)", "rate_factor": 0.1, "both_directions": False}
    carried = {}
    for choice in ("oblivious", entropy):
        ethernet = {"transport": "nscc", "transport_options": {"entropy": choice}, "links": [fault]}
        network = made((4, 4), ethernet)
        send(network, [0, 1, 2, 3], [4, 5, 6, 7], [4_000_000] * 4)
        carried[choice] = max(at for _, at in times(network))
    assert carried[entropy] < 0.7 * carried["oblivious"]


@pytest.mark.parametrize(
    ("ethernet", "key", "part"),
    [
        ({"transport_options": {"entropy": "rep"}}, "transport_options.entropy", "entropy 'rep'"),
        ({"transport_options": {"paths": 48}}, "transport_options.paths", "48 paths"),
        ({"transport_options": {"window": True}}, "transport_options.window", "kind of the default"),
        ({"transport_options": {"pace": 1}}, "transport_options.pace", "no option 'pace'"),
        ({"transport_options": {"sack_threshold": 0}}, "transport_options.sack_threshold", "out of range"),
        ({"transport_options": {"quick_adapt": 64}}, "transport_options.quick_adapt", "out of range"),
        ({"load_balancing": "spray"}, "load_balancing", "does not use"),
        ({"buffer": {"alpha": 2}}, "buffer.alpha", "does not use"),
    ],
)
def test_settings_without_an_effect_and_wrong_options_are_named(ethernet: dict[str, Any], key: str, part: str) -> None:
    with pytest.raises(InputError) as raised:
        made((2, 2), {"transport": "nscc", **ethernet})
    assert part in str(raised.value)
    assert f"network.ethernet.{key}" in str(raised.value)


def test_a_message_without_a_way_ends_the_run_with_one_line() -> None:
    ethernet = {"transport": "nscc", "links": [{"link": "host:NPU 3*", "down": True, "routes": "stale"}]}
    network = made((2, 2), ethernet)
    send(network, [0], [3], [10_000])
    with pytest.raises(SimulationError, match="the message of 10000 bytes from NPU 0 to NPU 3 has got no reply for"):
        times(network)


def test_npus_need_a_link_to_a_switch() -> None:
    experiment = Network.model_validate({"topology": "torus", "shape": [2, 2], "ethernet": {"transport": "nscc"}})
    with pytest.raises(InputError, match="needs a link between each NPU and a switch"):
        EthernetNetwork(network_of(experiment, Path()), experiment)


@pytest.mark.parametrize(("transport", "limited"), [("nscc", True), ("rccc", False)])
def test_samples_of_flows(transport: str, limited: bool) -> None:
    network = made((2, 4), {"transport": transport, "sampled_flows": 2})
    send(network, [0, 1, 4], [2, 2, 2], [1 << 20] * 3)
    network.finish(times(network)[-1][1])
    table = network.tables()["flow_windows"].columns
    assert set(table["flow"]) == {0, 1}
    assert set(table["rate"]) == {400e9}
    assert table["rtt"].max() > 4 * 500_000  # four links, and the queue
    assert (table["window"].max() > 2 * table["window"].min() > 0) == limited


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_packets_add_up_on_links_that_lose_some(transport: str) -> None:
    """Headers of trimmed packets that are lost do not count as packets."""
    links = [{"link": "*", "packet_error_rate": 0.02}]
    network = made((2, 4), {"transport": transport, "links": links, "buffer": {"queue": "16 KiB"}})
    send(network, [1, 2, 3, 4, 5, 6, 7], [0] * 7, [600_000] * 7)
    times(network)
    flows = network.engine.flow_table()
    assert flows["trimmed"].sum() > 100
    assert flows["errors"].sum() > 10
    received = flows["delivered"] + flows["trimmed"] + flows["dropped"] + flows["errors"]
    assert (flows["sent"] + flows["resent"] == received).all()
