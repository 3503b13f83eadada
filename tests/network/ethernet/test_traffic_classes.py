"""Traffic classes: which message is in which class, shares of ports, and PFC and ECN of single classes."""

from __future__ import annotations

import pickle
from fnmatch import fnmatchcase
from typing import Any

import networkx as nx
import numpy as np
import pytest

import pyxsim
from pyxsim import library
from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.network.ethernet.ethernet_network import EthernetNetwork
from pyxsim.network.ethernet.traffic_classes import TrafficClasses
from pyxsim.settings import Network
from pyxsim.settings.ethernet import TrafficClass
from pyxsim.topology.from_networkx import from_networkx

PACKET = 84  # ns of 1050 bytes at 100 Gb/s
NAMES = ["job 1: gradients", "job 2: tokens", "other"]


def star(hosts: int, scheduling: str, *classes: dict[str, Any], **ethernet: Any) -> EthernetNetwork:
    """Hosts at one switch with links of 100 Gb/s and 500 ns; no congestion control, and no losses by default."""
    library.load_all()
    graph = nx.Graph()
    graph.add_nodes_from(range(hosts), npus=1)
    graph.add_node(hosts, npus=0)
    graph.add_edges_from(((host, hosts) for host in range(hosts)), bandwidth="100 Gb/s", latency="500 ns")
    settings = {
        "transport": "none",
        "transport_options": {"window": False},
        "mtu": "1000 B",
        "header": "50 B",
        "pfc": {"enabled": False},
        "ecn": {"enabled": False},
        "timeout": "10 ms",
        "scheduling": scheduling,
        "classes": list(classes),
        **ethernet,
    }
    network = Network(topology="graph", options={"file": "star"}, ethernet=settings, clock="1 GHz")
    made = EthernetNetwork(from_networkx(graph), network)
    made.traffic_names = NAMES
    return made


def send(network: EthernetNetwork, *messages: tuple[int, int, int, int]) -> None:
    """Send messages (source, destination, bytes, tag) now."""
    src, dst, nbytes, tag = np.array(messages).T.copy()
    network.send_many(src, dst, nbytes, np.zeros_like(src), network.now, tag)


def finish(network: EthernetNetwork) -> dict[str, IntArray]:
    while len(network.advance(None)[0]):
        pass
    return network.engine.flow_table()


def test_the_first_class_that_applies() -> None:
    rows: list[dict[str, Any]] = [
        {"traffic": "job 1*", "max_size": "1 KiB"},
        {"npus": [0, 3]},
        {"traffic": "*[tokens]*"},
        {"traffic": "*: *", "min_size": "500 B"},
    ]
    entries = [TrafficClass.model_validate(row) for row in rows]
    names = [*NAMES, "a [tokens]", ""]
    random = np.random.default_rng(1)
    src, size = random.integers(0, 6, 400), random.choice([1, 499, 500, 1024, 1025, 9999], 400)
    tag = random.integers(0, len(names), 400)
    found = TrafficClasses(entries, 6).select(src, size, tag, names[:-1])
    for row in range(400):
        fits = [
            fnmatchcase(names[tag[row]], entry.traffic.replace("[", "[[]"))
            and (entry.npus is None or src[row] in entry.npus)
            and entry.min_size <= size[row] <= (entry.max_size or 1 << 60)
            for entry in entries
        ]
        assert found[row] == 1 + [*fits, True].index(True)
    assert set(found.tolist()) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("weights", [(1, 1), (3, 1), (2, 5)])
@pytest.mark.parametrize("at", ["switch", "NIC"])
def test_weighted_shares(weights: tuple[int, int], at: str) -> None:
    """At any time, two classes have sent their shares but for one turn of each; together they fill the link."""
    classes = [{"traffic": name, "weight": weight} for name, weight in zip(("job 1*", "job 2*"), weights, strict=True)]
    network = star(3, "weighted", *classes)
    messages = [(0, 2, 10**6, 0), (1, 2, 10**6, 1)] if at == "switch" else [(2, 0, 10**6, 0), (2, 1, 10**6, 1)]
    send(network, *messages)
    for until in (10_000, 20_000, 47_001):
        while network.now < until:
            network.advance(until)
        first, second = network.engine.flow_table()["delivered"].tolist()
        assert abs(first / weights[0] - second / weights[1]) <= 1
        assert first + second == (until - 1000 - PACKET) // PACKET
    assert network.engine.flow_table()["traffic_class"].tolist() == [1, 2]


@pytest.mark.parametrize("at", ["switch", "NIC"])
def test_strict_priority(at: str) -> None:
    """The message of the first class waits for a packet in transmission at most, the others wait for it."""
    network = star(3, "strict", {"traffic": "job 1*"})
    low, high = [(0, 2, 10**5, 2), (1, 2, 10**5, 0)] if at == "switch" else [(2, 0, 10**5, 2), (2, 1, 10**5, 0)]
    send(network, low)
    network.advance(2000)
    send(network, high)
    flows = finish(network)
    alone = 100 * PACKET + PACKET + 1000
    assert alone <= (flows["end"][1] - flows["start"][1]) / 1000 <= alone + PACKET
    assert flows["end"][0] / 1000 == pytest.approx(200 * PACKET + PACKET + 1000, abs=PACKET)
    assert flows["traffic_class"].tolist() == [2, 1]


def test_flows_of_a_class_take_turns() -> None:
    """Two flows of one class share what a flow of another class leaves, although their slots alternate with it."""
    network = star(4, "round-robin", {"traffic": "job 1*"})
    send(network, (0, 1, 10**6, 0), (0, 2, 10**6, 0), (0, 3, 10**6, 1))
    network.advance(50_000)
    sent = network.engine.flow_table()["sent"]
    assert abs(int(sent[0] - sent[1])) <= 1
    assert abs(int(sent[0] + sent[1] - sent[2])) <= 1


def test_one_class_drops_and_another_pauses() -> None:
    """A pair of incasts through one port: only the lossless class is paused, only the other one loses packets."""
    lossy = {"traffic": "job 2*", "pfc": False}
    options: dict[str, Any] = {"pfc": {"enabled": True}, "buffer": {"capacity": "400 kB"}, "reliability": "selective"}
    network = star(6, "round-robin", lossy, **options)
    send(network, *((src, 5, 300_000, src % 2) for src in range(5)))
    flows = finish(network)
    dropped, classes = flows["dropped"], flows["traffic_class"]
    assert classes.tolist() == [2, 1, 2, 1, 2]
    assert dropped[classes == 1].sum() > 0
    assert dropped[classes == 2].sum() == 0
    assert network.engine.port_counters()["pauses"].sum() > 0
    assert (flows["end"] > 0).all()


def test_one_class_is_not_marked() -> None:
    options: dict[str, Any] = {"ecn": {"kmin": "2 kB", "kmax": "4 kB"}}
    network = star(5, "round-robin", {"traffic": "job 1*", "ecn": False}, **options)
    send(network, *((src, 4, 100_000, src % 2) for src in range(4)))
    marked = finish(network)["marked"]
    assert marked[::2].sum() == 0
    assert (marked[1::2] > 0).all()


def test_a_pickled_network_continues_to_the_bit() -> None:
    def make() -> EthernetNetwork:
        network = star(4, "weighted", {"traffic": "job 1*", "weight": 3}, {"traffic": "job 2*", "weight": 2})
        send(network, *((src, dst, 100_000, (src + dst) % 3) for src in range(4) for dst in range(4) if src != dst))
        return network

    whole, parts = finish(make()), make()
    while parts.engine.pending:
        parts.advance(parts.now + 20_001)
        parts = pickle.loads(pickle.dumps(parts))
    for name, column in whole.items():
        assert np.array_equal(column, parts.engine.flow_table()[name]), name


def two_jobs(**ethernet: Any) -> dict[str, Any]:
    """Two jobs of NPUs 0, 2 and 1, 3 below two leaves, whose all-reduces share the only spine."""
    return {
        "network": {
            "topology": "leaf-spine",
            "options": {"npus": 2, "leaves": 2, "spines": 1},
            "bandwidth": "12.5 GB/s",
            "ethernet": {"transport": "none", **ethernet},
        },
        "collective": [
            {"name": f"job {job}", "kind": "all-reduce", "size": "1 MiB", "npus": [job, job + 2]} for job in (0, 1)
        ],
    }


@pytest.mark.parametrize("select", [{"traffic": "job 1"}, {"npus": [1, 3]}])
def test_the_class_of_a_job(select: dict[str, Any]) -> None:
    """With strict priority, job 1 takes as long as alone."""
    result = pyxsim.run(two_jobs(scheduling="strict", classes=[select]), backend="ethernet")
    alone = two_jobs()
    alone["collective"] = alone["collective"][1]
    expected = pyxsim.run(alone, backend="ethernet").time_ns
    flows = result.flows
    assert set(flows["traffic_class"][np.isin(flows["src"], [1, 3])]) == {1}
    assert set(flows["traffic_class"][np.isin(flows["src"], [0, 2])]) == {2}
    ends = result.collectives.to_pandas()["end"]
    assert ends[1] == pytest.approx(expected, rel=0.05)
    assert ends[0] > 1.5 * ends[1]


@pytest.mark.parametrize(
    ("classes", "problem"),
    [
        ([{}] * 7, r"ethernet\.classes: 7 traffic classes; allowed: at most 6"),
        ([{"weight": 0}], r"classes\[0\]\.weight: 0 is too small"),
        ([{"min_size": "2 KiB", "max_size": "1 KiB"}], r"classes\[0\]\.max_size: max_size is smaller than min_size"),
        ([{"npus": [7]}], r"classes\[0\]\.npus: there is no NPU 7; allowed: 0 to 3"),
    ],
)
def test_faulty_classes(classes: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        pyxsim.run(two_jobs(classes=classes), backend="ethernet")


def test_ultra_ethernet_has_one_class() -> None:
    with pytest.raises(InputError, match=r"classes: the transport 'nscc' has one class of data; allowed: none, or "):
        pyxsim.run(two_jobs(classes=[{}], transport="nscc"), backend="ethernet")


def test_a_class_without_messages_is_a_warning() -> None:
    classes = [{"traffic": "*gradients*"}, {"max_size": "1 MB"}]
    clos = {"topology": "leaf-spine", "options": {"npus": 2, "leaves": 2, "spines": 1}, "bandwidth": "50 GB/s"}
    tables = {
        "network": {**clos, "ethernet": {"classes": classes}},
        "collective": {"kind": "all-to-all", "size": "1 KiB"},
    }
    assert pyxsim.run(tables, backend="ethernet").warnings == [
        'network.ethernet.classes[0]: no message is in this class (traffic = "*gradients*"); the traffic of this run '
        "is all-to-all"
    ]
