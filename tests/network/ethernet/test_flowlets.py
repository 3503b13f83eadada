"""Flowlets: which packets draw a new route, and that flows leave a slow one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.settings import Network
from pyxsim.topology.build import network_of

SPINES = 4


def leaf_spine(**ethernet: Any) -> EthernetNetwork:
    """Two leaves with 4 hosts each; 1 us per link. The round trip of a packet of 4 KiB takes 8.6 us."""
    settings = {"transport": "swift", "transport_options": {"least": 1.0, "most": 1.0}, **ethernet}
    options = {"npus": 4, "leaves": 2, "spines": SPINES}
    network = Network(
        topology="leaf-spine", options=options, bandwidth="50 GB/s", latency="1 us", clock="1 GHz", ethernet=settings
    )
    return EthernetNetwork(network_of(network, Path()), network)


def send(network: EthernetNetwork, src: list[int], dst: list[int], nbytes: int) -> dict[str, Any]:
    """Messages that start together. Returns the table of flows."""
    zeros = np.zeros(len(src), np.int64)
    network.send_many(np.array(src), np.array(dst), np.full(len(src), nbytes), zeros, 0)
    while len(network.advance(None)[0]):
        pass
    table: dict[str, Any] = network.engine.flow_table()
    return table


def on_spines(network: EthernetNetwork) -> list[int]:
    """Bytes from leaf 0 to each spine."""
    sent = network.engine.port_counters()["sent_bytes"]
    ports = network.arrays.ports
    leaf = ports[network.arrays.nodes[ports[:, 0], 0] == 0, 1][0]  # behind the host link of NPU 0
    up = (ports[:, 0] == leaf) & (network.arrays.nodes[ports[:, 1], 0] < 0)
    counted: list[int] = sent[up].tolist()
    return counted


@pytest.mark.parametrize(("gap", "spines"), [("9 us", 1), ("8 us", SPINES)])
def test_a_gap_that_is_too_long_begins_a_flowlet(gap: str, spines: int) -> None:
    """One packet in flight: the gap is the round trip of 8.6 us, and each packet draws a spine or keeps it."""
    network = leaf_spine(load_balancing="flowlet", flowlet_gap=gap)
    flows = send(network, [0], [4], 4096 * 400)
    used = [count for count in on_spines(network) if count]
    assert len(used) == spines
    assert flows["out_of_order"][0] == 0
    assert sum(used) == 400 * (4096 + 82)
    if spines > 1:  # binomial: 100 +- 4 sigma
        assert min(used) / 4178 > 65
        assert max(used) / 4178 < 135


def test_flows_without_gaps_keep_their_link() -> None:
    network = leaf_spine(load_balancing="flowlet", flowlet_gap="5 us", transport="none", transport_options={})
    flows = send(network, [0, 1, 2, 3], [4, 5, 6, 7], 2**20)
    assert not flows["out_of_order"].any()
    packets = np.array(on_spines(network)) / 2**20 / (1 + 82 / 4096)
    assert np.allclose(packets, packets.round())  # whole messages


def test_one_entry_is_one_flowlet() -> None:
    network = leaf_spine(
        load_balancing="flowlet", flowlet_gap="5 us", flowlet_entries=1, transport="none", transport_options={}
    )
    send(network, [0, 1, 2, 3], [4, 5, 6, 7], 2**20)
    assert sum(count > 0 for count in on_spines(network)) == 1


@pytest.mark.parametrize("seed", range(3))
def test_flows_leave_a_slow_spine(seed: int) -> None:
    """One of four spines at a tenth of the rate: windows that wait for it leave gaps, after which flows move."""
    shares = {}
    for balance in ("ecmp", "flowlet"):
        network = leaf_spine(
            load_balancing=balance,
            flowlet_gap="3 us",
            transport_options={"least": 1.0},
            links=[{"link": "level1:(0)->(2)", "rate_factor": 0.1}],
        )
        rng = np.random.default_rng(seed)
        flows = send(network, rng.integers(0, 4, 32).tolist(), rng.integers(4, 8, 32).tolist(), 2**20)
        shares[balance] = int(flows["end"].max())
    assert shares["flowlet"] < 0.7 * shares["ecmp"]


def test_other_words_are_refused() -> None:
    with pytest.raises((InputError, ValueError), match="load_balancing"):
        leaf_spine(load_balancing="flowlets")
