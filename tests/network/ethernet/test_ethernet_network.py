"""The Ethernet backend against recorded runs of ns-3, and its transports.

The flow completion times are those of ASTRA-sim 518bd51 over astra-network-ns3 8fd3604: its sample configuration
(payload 1000 B, links of 500 ns, one queue pair per message), N hosts at one switch.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.network.ethernet.transport_choice import make_transport
from pyxsim.settings import Network, load_experiment
from pyxsim.settings.ethernet import Ethernet
from pyxsim.topology.build import network_of
from pyxsim.topology.from_networkx import from_networkx
from tests.examples import part_of

KMIN = {100: 400, 200: 600, 400: 800}  # kB
NS3 = {
    "mtu": "1000 B",
    "header": "36 B",
    "ack": "48 B",
    "end": "acknowledged",
    "resolution": "1 ns",
    "timeout": "0 ns",
}


def star(hosts: int, gbps: int, transport: str = "none", **options: Any) -> EthernetNetwork:
    """Hosts at one switch, with ns-3's settings."""
    graph = nx.Graph()
    graph.add_nodes_from(range(hosts), npus=1)
    graph.add_node(hosts, npus=0)
    graph.add_edges_from(((i, hosts) for i in range(hosts)), bandwidth=f"{gbps} Gb/s", latency="500 ns")
    ethernet: dict[str, Any] = {
        **NS3,
        "transport": transport,
        "transport_options": options,
        "buffer": {"alpha": 0.125, "reserve": "4096 B"},
        "pfc": {"frame": "31 B", "headroom": f"{gbps * 500 // 8 * 3} B"},
        "ecn": {"kmin": f"{KMIN[gbps]} kB", "kmax": f"{4 * KMIN[gbps]} kB", "pmax": 0.2},
    }
    network = Network(topology="graph", options={"file": "star"}, ethernet=ethernet, clock="1 GHz")
    return EthernetNetwork(from_networkx(graph), network)


def finish(network: EthernetNetwork, src: list[int], dst: list[int], nbytes: int) -> list[int]:
    """The times at which messages that start together arrive, ns."""
    count = len(src)
    network.send_many(np.array(src), np.array(dst), np.full(count, nbytes, np.int64), np.zeros(count, np.int64), 0)
    times = np.zeros(count, np.int64)
    while True:
        messages, cycles = network.advance(None)
        if not len(messages):
            return times.tolist()
        times[messages] = cycles


@pytest.mark.parametrize(
    ("gbps", "transport", "nbytes", "expected"),
    [
        (400, "none", 1000, 2044),
        (400, "none", 65536, 3399),
        (400, "none", 1048576, 24043),
        (400, "dcqcn", 1048576, 24043),
        (400, "hpcc", 1048576, 25736),
    ],
)
def test_one_flow_as_in_ns3(gbps: int, transport: str, nbytes: int, expected: int) -> None:
    assert finish(star(2, gbps, transport), [0], [1], nbytes) == [expected]


@pytest.mark.parametrize(
    ("hosts", "gbps", "transport", "expected"),
    [
        (8, 400, "none", 156163),
        (16, 100, "none", 1307586),
        (16, 100, "dcqcn", 1307586),
        (16, 100, "dctcp", 1307586),
        (32, 200, "none", 1334797),
    ],
)
def test_an_incast_as_in_ns3(hosts: int, gbps: int, transport: str, expected: int) -> None:
    options = {"gain": 1 / 256} if transport == "dctcp" else {}
    network = star(hosts, gbps, transport, **options)
    times = finish(network, list(range(1, hosts)), [0] * (hosts - 1), 2**20)
    assert max(times) == expected
    counts = network.engine.counts
    assert counts["made"] == counts["delivered"] == 2 * (hosts - 1) * 1049
    assert counts["in_network"] == counts["dropped"] == 0


@pytest.mark.parametrize(
    "transport", ["none", "dcqcn", "dctcp", "hpcc", "hpcc-pint", "swift", "timely", "newreno", "cubic"]
)
def test_every_transport_ends_an_incast(transport: str) -> None:
    network = star(5, 100, transport)
    times = finish(network, [1, 2, 3, 4], [0] * 4, 2**20)
    least = 4 * 1049 * 83  # the drain of the last link
    assert least < max(times) < 1.5 * least


def test_the_same_seed_gives_the_same_times() -> None:
    runs = [finish(star(8, 400, "dcqcn", window=False), list(range(1, 8)), [0] * 7, 2**20) for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("transport", ["dcqcn", "hpcc", "hpcc-pint", "swift", "newreno", "cubic"])
def test_a_pickled_network_continues_to_the_bit(transport: str) -> None:
    whole, parts = star(8, 400, transport), star(8, 400, transport)
    src, dst = np.arange(1, 8), np.zeros(7, np.int64)
    for network in (whole, parts):
        network.send_many(src, dst, np.full(7, 2**18), dst, 0)
    step = 10**6 // part_of(333, usual=80)
    while parts.now < 10**6:
        parts.advance(parts.now + step)
        parts = pickle.loads(pickle.dumps(parts))
    whole.advance(parts.now)
    for network in (whole, parts):  # up to the last timer
        while network.engine.pending:
            network.advance(None)
    for name, column in whole.engine.flow_table().items():
        assert np.array_equal(column, parts.engine.flow_table()[name]), name
    for name, column in whole.engine.port_counters().items():
        assert np.array_equal(column, parts.engine.port_counters()[name]), name
    assert whole.engine.counts == parts.engine.counts


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"transport": "dcqcm"}, "network.ethernet.transport: unknown transport 'dcqcm'; .*did you mean 'dcqcn'"),
        ({"transport_options": {"gian": 1}}, r"transport_options\.gian: the transport 'dcqcn' has no option 'gian'"),
        ({"transport_options": {"gain": "1"}}, r"transport_options\.gain: .* is not of the kind of the default"),
        ({"transport_options": {"decrease_interval": 4}}, "decrease_interval: 4 has no unit"),
        ({"pfc": {"headroom": "40 MiB"}}, "buffer.capacity: the headroom of a switch takes"),
    ],
)
def test_faulty_settings(settings: dict[str, Any], problem: str) -> None:
    graph = nx.star_graph(3)
    nx.set_node_attributes(graph, {0: 0, 1: 1, 2: 1, 3: 1}, "npus")
    network = Network(topology="graph", options={"file": "star"}, ethernet=settings)
    with pytest.raises(InputError, match=problem):
        EthernetNetwork(from_networkx(graph), network)


AIMD = '''
from pyxsim.plugins import transports

@transports.register("{name}")
class Aimd:
    """Halve the window after a mark."""

    def __init__(self, factor=0.5):
        self.factor = factor

    def start(self, flow):
        flow.window, flow.state = flow.bdp, []

    def acknowledged(self, flow, nbytes, marked, rtt):
        flow.state.append(rtt)
        {line}
'''


def users_transport(folder: Path, name: str, line: str, **options: Any) -> EthernetNetwork:
    (folder / "transports").mkdir()
    (folder / "transports" / f"{name}.py").write_text(AIMD.format(name=name, line=line), encoding="utf-8")
    library.load_all([str(folder)])
    return star(4, 100, name, **options)


def test_a_users_transport_controls_the_window(tmp_path: Path) -> None:
    """The first window of 2 x 1 us + 2 x 80 ns = 27,000 B has 27 packets; then each packet takes a round trip."""
    network = users_transport(tmp_path, "one_packet", "flow.window = 1")
    round_trip = 2 * (1000 + 83 + 4)
    assert finish(network, [1], [0], 40_000) == [26 * 83 + round_trip + 13 * round_trip]


def test_a_faulty_transport_ends_the_run_with_its_file(tmp_path: Path) -> None:
    network = users_transport(tmp_path, "broken", "flow.window = -1")
    with pytest.raises(InputError, match=r"broken\.py:4: transport 'broken': acknowledged\(\) raised ValueError"):
        finish(network, [1], [0], 40_000)


@pytest.mark.parametrize(
    ("transport", "option", "value", "allowed"),
    [
        ("dcqcn", "increase_interval", "0 ns", "above 0"),
        ("dcqcn", "alpha_interval", "0 ns", "above 0"),
        ("dcqcn", "gain", 1.5, "above 0, at most 1"),
        ("dcqcn", "fast_recovery", 1 << 40, "at most 2147483647"),
        ("dcqcn", "increase_interval", "1e9 s", "at most 1000000 s"),
        ("dctcp", "gain", 0.0, "above 0, at most 1"),
        ("hpcc", "target", 2.0, "above 0, at most 1"),
        ("swift", "least", 0.0, "above 0"),
        ("timely", "beta", 3.0, "above 0, at most 1"),
        ("timely", "low", "600 us", "at most high"),
        ("newreno", "min_rto", "0 s", "above 0"),
        ("newreno", "threshold", 0, "above 0"),
        ("cubic", "initial_rto", "0 s", "above 0"),
    ],
)
def test_options_out_of_range(transport: str, option: str, value: Any, allowed: str) -> None:
    with pytest.raises(InputError) as fault:
        make_transport(Ethernet(transport=transport, transport_options={option: value}))
    assert f"transport_options.{option}: " in str(fault.value)
    assert str(fault.value).endswith(f"allowed: {allowed}")


@pytest.mark.parametrize(
    ("ethernet", "key", "least"),
    [
        ({"buffer": {"queue": "1 KiB"}}, "buffer.queue", "at least 4178 B"),
        ({"buffer": {"capacity": "4 kB"}}, "buffer.capacity", "at least 4178 B"),
        ({"trim": "8 KiB"}, "trim", "less than 4178 B"),
    ],
)
def test_queues_hold_packets(ethernet: dict[str, Any], key: str, least: str) -> None:
    with pytest.raises(InputError) as fault:
        load_experiment(
            {
                "network": {"topology": "ring", "shape": [2], "ethernet": ethernet},
                "collective": {"kind": "all-reduce", "size": "1 KiB"},
            }
        )
    assert f"network.ethernet.{key}: " in str(fault.value)
    assert str(fault.value).endswith(f"allowed: {least}")


@pytest.mark.parametrize("classes", [[], [{"max_size": "1 B", "pfc": False}]])
def test_pfc_loses_nothing_with_short_queues(classes: list[dict[str, Any]]) -> None:
    """`buffer.queue` holds for classes without PFC only."""
    library.load_all()
    ethernet = {"transport": "none", "buffer": {"queue": "8 KiB"}, "classes": classes}
    clos = {"topology": "leaf-spine", "options": {"npus": 4, "leaves": 2, "spines": 2}, "bandwidth": "50 GB/s"}
    settings = Network.model_validate({**clos, "ethernet": ethernet})
    network = EthernetNetwork(network_of(settings, Path()), settings)
    assert len(network.warnings) == (not classes)
    assert all("network.ethernet.buffer.queue" in text for text in network.warnings)
    zeros = np.zeros(7, np.int64)
    network.send_many(np.arange(1, 8), zeros, np.full(7, 100_000), zeros, 0)
    while len(network.advance(None)[0]):
        pass
    assert network.engine.counts["dropped"] == 0
