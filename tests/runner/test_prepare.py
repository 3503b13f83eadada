"""From an experiment to networks of all kinds: lists, routings by name, what is proved, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim.errors import DeadlockError, InputError
from pyxsim.runner.lifecycle import run
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared, PreparedTraffic
from pyxsim.settings import load_experiment

TORUS: dict[str, Any] = {"topology": "torus", "shape": [4, 4], "flit": "4 B", "packet": "16 B"}
DRAGONFLY: dict[str, Any] = {"topology": "dragonfly", "options": {"p": 2, "a": 2, "h": 1}, "packet": "1 KiB"}
ALL_TO_ALL = {"kind": "all-to-all", "size": "1 KiB"}


def prepared(network: dict[str, Any], router: dict[str, Any] | None = None, **more: Any) -> Any:
    tables = {"network": network | {"router": router or {}}, **more}
    if "traffic" not in more:
        tables |= {"collective": ALL_TO_ALL, "system": {"all_to_all": "direct"}}
    return prepare(load_experiment(tables))


# -- lists -------------------------------------------------------------------------------------------------------------


def test_a_list_has_an_entry_for_each_kind_of_links() -> None:
    ready = prepared(
        DRAGONFLY | {"bandwidth": ["50 GB/s", "100 GB/s", "25 GB/s"], "latency": ["5 ns", "10 ns", "1 us"]}
    )
    assert [wire.latency for wire in ready.network.config.wires] == [5, 10, 1000]
    told = (
        r"network\.latency: the list has 2 entries, but the network has 3 kinds of links \(host, local, global\); "
        r"host_links = false removes 'host'; allowed: one value"
    )
    with pytest.raises(InputError, match=told):
        prepared(DRAGONFLY | {"latency": ["10 ns", "1 us"]})
    with pytest.raises(InputError, match=told.replace("latency", "bandwidth")):
        prepared(DRAGONFLY | {"bandwidth": ["64 GB/s", "256 GB/s"]})


def test_widths_of_dimensions_are_those_of_their_links() -> None:
    """Themis shares out a collective by what an NPU can send into each dimension."""
    ready = prepared(TORUS | {"bandwidth": ["4 GB/s", "1 GB/s"]})
    assert ready.network.injection_bandwidths() == [2, 2 / 4]
    dragonfly = prepared(DRAGONFLY | {"bandwidth": ["256 GB/s", "256 GB/s", "64 GB/s"]})
    assert dragonfly.network.injection_bandwidths() == [1, 1 / 4]


# -- routings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("routing", ["valiant", "romm", "ugal", "xy-yx", "adaptive-xy-yx", "minimal-adaptive"])
def test_collectives_go_by_any_routing(routing: str) -> None:
    ready = prepared(TORUS, {"routing": routing, "vcs": 16, "vc_reuse": "drained"})
    assert isinstance(ready, Prepared)
    assert ready.topology.routing == routing
    assert set(ready.system.traffic()[:, 2].tolist()) == {-1}
    result = run(ready.experiment)
    assert result.complete
    assert result.counts["bytes_delivered"] == ready.bytes_planned


def test_options_of_a_routing() -> None:
    ready = prepared(TORUS, {"routing": "ugal", "routing_options": {"bias": 3}, "vcs": 16})
    assert {way.bias for way in ready.topology.relation.ways} == {0, 3}
    with pytest.raises(
        InputError, match=r"network\.router\.routing_options\.bais: unknown option; .*did you mean 'bias'"
    ):
        prepared(TORUS, {"routing": "ugal", "routing_options": {"bais": 3}, "vcs": 16})
    with pytest.raises(InputError, match=r"network\.router\.routing: torus has no routing 'minimal'"):
        prepared(TORUS, {"routing": "minimal"})


def test_an_escape_wants_vcs_with_room() -> None:
    """Duato's escape is out of reach for a packet that queues behind another one in its VC, or waits for room there."""
    adaptive = {"routing": "minimal-adaptive", "vcs": 8}
    with pytest.raises(DeadlockError, match="can deadlock"):
        prepared(TORUS, adaptive)
    for router in (
        {"vc_reuse": "drained"},
        {"flow_control": "virtual-cut-through"},
        {"flow_control": "store-and-forward"},
    ):
        prepared(TORUS, adaptive | router)
    short = TORUS | {"packet": "4 B"}
    with pytest.raises(DeadlockError, match="can deadlock"):
        prepared(short, adaptive)
    prepared(short, adaptive | {"flow_control": "virtual-cut-through"})


@pytest.mark.parametrize("reuse", ["tail", "drained"])
def test_the_room_of_an_escape_is_not_that_of_a_pool(reuse: str) -> None:
    adaptive = {"routing": "minimal-adaptive", "vcs": 8, "flow_control": "virtual-cut-through", "vc_reuse": reuse}
    flits = 4
    network = TORUS | {"flit": "16 B", "packet": f"{16 * flits} B"}
    prepared(network, adaptive | {"buffer": flits, "shared_buffer": 2})
    with pytest.raises(DeadlockError, match=r"prevents this"):
        prepared(network, adaptive | {"buffer": flits - 1, "shared_buffer": flits})


def test_vc_classes_that_need_the_slots_of_a_pool_are_none() -> None:
    """Packets of both classes round a ring wait for the same slots; in wormholes one of a VC's own will do."""
    router = {"vcs": 2, "buffer": 3, "shared_buffer": 4, "flow_control": "virtual-cut-through"}
    with pytest.raises(
        DeadlockError,
        match=r"VCs with 3 flits .* packets of 4 flits; .*buffer = 4 prevents this",
    ):
        prepared(TORUS, router)
    prepared(TORUS, router | {"buffer": 4})
    prepared(TORUS, router | {"flow_control": "wormhole"})
    prepared({**TORUS, "topology": "mesh"}, router)


def test_ordered_packets_by_candidate_sets_are_proved_without_classes() -> None:
    """Up and down a tree no classes are needed; Valiant's two phases need theirs."""
    tree = {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 2}}
    prepared(tree, {"ordered": True})
    with pytest.raises(DeadlockError, match="can deadlock"):
        prepared(TORUS, {"ordered": True, "routing": "valiant", "vcs": 16})


def test_a_file_counts_from_the_folder_of_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "net.edgelist").write_text("0 1\n1 2\n2 0\n", encoding="utf-8")
    tables = {"network": {"topology": "graph", "options": {"file": "net.edgelist"}}, "collective": ALL_TO_ALL}
    assert prepare(load_experiment(tables), folder=tmp_path).topology.npus == 3


# -- virtual networks and traffic --------------------------------------------------------------------------------------


def test_a_collective_is_told_that_it_uses_one_virtual_network() -> None:
    ready = prepared(TORUS, {"vcs": 6, "virtual_networks": [4, 2]})
    assert "network.router.virtual_networks: collectives use only the first one" in ready.warnings


def test_traffic_has_one_lane_and_all_pairs_are_proved() -> None:
    ready = prepared(TORUS, {"vcs": 8, "buffer": 8}, traffic={"load": 0.1, "packet_flits": 4})
    assert isinstance(ready, PreparedTraffic)
    assert ready.network.config.links.injection == 16
    garnet = {"topology": "garnet-torus", "shape": [4, 1, 1]}
    with pytest.raises(DeadlockError, match="can deadlock"):
        prepared(garnet, traffic={"load": 0.1})


def test_buffers_of_cut_through_hold_the_longest_packet_of_the_traffic() -> None:
    router = {"flow_control": "virtual-cut-through", "buffer": 8}
    prepared(TORUS, router, traffic={"load": 0.1, "packet_flits": [1, 8]})
    with pytest.raises(InputError, match=r"network\.router\.buffer: .* requires buffers of a packet: 9 flits, not 8"):
        prepared(TORUS, router, traffic={"load": 0.1, "packet_flits": [1, 9]})


def test_a_class_wants_a_virtual_network_that_is_there() -> None:
    with pytest.raises(InputError, match="no virtual network 1; the network has 1"):
        prepared(TORUS, traffic={"load": 0.1, "virtual_network": 1})


def test_buffers_that_starve_a_kind_of_links_are_told() -> None:
    ready = prepared(
        DRAGONFLY | {"latency": ["1 ns", "1 ns", "100 ns"], "bandwidth": "256 GB/s"}, {"buffer": 4, "vcs": 4}
    )
    (line,) = [line for line in ready.warnings if "credit loop of the global links" in line]
    assert line.startswith(
        "network.router.buffer: 4 flits x 2 VCs (of a class) cover 4% of the credit loop of the global links ("
    )
    ready = prepared(
        DRAGONFLY | {"latency": ["100 ns", "1 ns", "1 ns"], "bandwidth": "256 GB/s"}, {"buffer": 4, "vcs": 4}
    )
    assert any("credit loop of the host links" in line for line in ready.warnings)
