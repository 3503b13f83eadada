"""Causes of pauses, and messages that wait behind pauses although they do not use their cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.network.ethernet.pause_tree import victims
from pyxsim.settings import Network
from pyxsim.topology.build import network_of

HOSTS = 4  # of each of two leaves; one spine


def made(**ethernet: Any) -> EthernetNetwork:
    options = {"npus": HOSTS, "leaves": 2, "spines": 1}
    settings = {"transport": "none", "buffer": {"capacity": "512 KiB"}, **ethernet}
    if ethernet.get("transport") == "nscc":
        del settings["buffer"]
    network = {"topology": "leaf-spine", "options": options, "bandwidth": "50 GB/s", "latency": "500 ns"}
    experiment = Network.model_validate({**network, "clock": "1 GHz", "ethernet": settings})
    return EthernetNetwork(network_of(experiment, Path()), experiment)


def run(network: EthernetNetwork, pairs: list[tuple[int, int]]) -> dict[str, Any]:
    src, dst = (np.array(column) for column in zip(*pairs, strict=True))
    network.send_many(src, dst, np.full(len(pairs), 1 << 20), np.zeros(len(pairs), np.int64), 0)
    last = 0
    while len((cycles := network.advance(None))[0]):
        last = int(cycles[1][-1])
    network.finish(last)
    return {name: table.columns for name, table in network.tables().items()}


INCAST = [(1, 0), (2, 0), (4, 0)]


def test_the_victim_shares_only_the_spine_with_an_incast() -> None:
    """NPUs 1, 2 and 4 send to 0; 5 sends to 3 through the spine as 4 does, and 6 to 7 below the other leaf."""
    network = made()
    tables = run(network, [*INCAST, (5, 3), (6, 7)])
    flows, ports = tables["flows"], tables["ports"]
    root = int(network.arrays.down[0])
    assert flows["victim_of"].tolist() == [-1, -1, -1, root, -1]
    life = flows["end"][3] - flows["start"][3]
    assert 0 < flows["victim_time"][3] <= life
    assert ports["root"][ports["pauses"] > 0].tolist().count(root) > 0
    assert ports["caused"].sum() == ports["paused"].sum()
    assert ports["caused"].argmax() == root


def test_causes_lead_to_the_next_switch() -> None:
    network = made()
    ports = run(network, INCAST)["ports"]
    paused = np.flatnonzero(ports["pauses"] > 0)
    peer, node = network.arrays.ports[:, 1], network.arrays.ports[:, 0]
    assert len(paused) > 0
    assert (node[ports["cause"][paused]] == peer[paused]).all()
    assert (ports["cause"][ports["pauses"] == 0] == -1).all()


@pytest.mark.parametrize("settings", [{"pfc": {"enabled": False}}, {"load_balancing": "spray"}, {"transport": "nscc"}])
def test_without_pauses_or_a_known_path_no_message_is_a_victim(settings: dict[str, Any]) -> None:
    flows = run(made(**settings), [*INCAST, (5, 3)])["flows"]
    assert (flows["victim_of"] == -1).all()
    assert not flows["victim_time"].any()


def test_victims_by_hand() -> None:
    """Link 0 is paused in the second half because of link 9; message 1 uses link 9 itself, message 2 ends before."""
    paths = np.array([[0, 0, 0, 5], [3, 9, 3, 3]], np.int32)
    root = np.full(10, -1)
    root[0] = 9
    span = np.array([[0, 20], [0, 20], [0, 10], [0, 20]], float)
    paused = np.zeros((3, 10), np.int64)
    paused[2, 0] = 8
    cause, waited = victims(paths, root, span, np.array([0.0, 10.0, 20.0]), paused)
    assert cause.tolist() == [9, -1, -1, -1]
    assert waited.tolist() == [8, 0, 0, 0]
