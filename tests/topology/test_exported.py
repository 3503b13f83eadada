"""Graphs that pyxsim writes read back as the same network, to the bit, or say what is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import pyxsim
from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.registry import topologies
from pyxsim.results.diff import diff
from pyxsim.settings import Network
from pyxsim.topology.build import network_of
from pyxsim.topology.exported import OWN, restored, write_graph

library.load_all()

# One small network of every topology of the shelf, with values per kind of links that differ from the defaults.
NETWORKS: dict[str, dict[str, Any]] = {
    "torus": {"shape": [4, 3], "bandwidth": ["25 GB/s", "50 GB/s"], "latency": ["300 ns", "1/3 us"]},
    "mesh": {"shape": [3, 2], "bandwidth": "25 GB/s", "latency": "7 cycles"},
    "ring": {"shape": [5], "options": {"bidirectional": False}, "clock": "0.7 GHz"},
    "switch": {"shape": [4], "router": {"vcs": 3}},
    "fully-connected": {"shape": [4], "flit": "64 B"},
    "twisted-torus": {"shape": [4, 2]},
    "concentrated-mesh": {"options": {"routers": [2, 2], "concentration": [2, 1], "floor_plan": True}},
    "hyperx": {"options": {"routers": [3, 2], "concentration": 2}},
    "k-ary-n-tree": {"options": {"k": 2, "n": 3}, "latency": ["100 ns", "1 us", "2 us"]},
    "folded-clos": {"options": {"children": [2, 3], "parents": [2]}},
    "leaf-spine": {"options": {"npus": 2, "leaves": 3, "spines": 2}, "bandwidth": ["50 GB/s", "100 GB/s"]},
    "dragonfly": {"options": {"p": 2, "a": 2, "h": 1}, "router": {"routing": "ugal"}},
    "slim-fly": {"options": {"q": 3}, "host_links": False},
    "random-regular": {"options": {"routers": 8, "degree": 3, "p": 2, "seed": 5}, "lanes": 2},
    "butterfly": {"options": {"k": 2, "n": 2}},
    "rail-optimized": {"options": {"servers": 4, "npus": 2, "pod": 2, "spines": 2, "planes": 2}},
    "tree4": {},
    "garnet-torus": {"shape": [2, 2, 2], "options": {"local_rings": 2}},
    "garnet-switch": {"shape": [2, 3], "options": {"links_per_tile": 2}},
    "graph": {"options": {"file": "hand.edges", "dims": [3, 2]}, "latency": "936.25 ns", "clock": "468.75 MHz"},
}
TORUS = Network(topology="torus", shape=(4, 4), bandwidth="25 GB/s", latency="300 ns")
GRAPH = Network(topology="graph", options={"file": "net.graphml"})
SYSTEMS = ("dgx-1", "dgx-h100", "tpu-v4-twisted", "conv-3d")
HAND = "a b {'length': 3, 'kind': 'glass'}\nb c {'latency': '10 ns'}\nc d\nd e\ne f\nf a {'bandwidth': '50 GB/s'}\n"
SAME = ("name", "npus", "shape", "queues", "link_kinds", "kind_dims", "routing", "confined", "hosts", "indirect")
ARRAYS = ("link_src", "link_dst", "link_dim", "link_length", "coords", "router_dim", "home")


def test_every_topology_is_tried() -> None:
    assert set(NETWORKS) == {entry.name for entry in topologies.entries if entry.module.startswith("pyxsim_library.")}


def experiment(network: dict[str, Any], kind: str = "all-to-all") -> dict[str, Any]:
    return {"network": network, "collective": {"kind": kind, "size": "3 KiB"}}


def run(network: dict[str, Any], backend: str = "packet") -> pyxsim.Result:
    return pyxsim.run(experiment(network, "all-reduce"), backend=backend, allow_deadlock=True)


@pytest.mark.parametrize(("name", "form"), [(name, form) for name in NETWORKS for form in OWN][:-1])
def test_there_and_back_to_the_bit(name: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hand.edges").write_text(HAND, encoding="utf-8")
    settings = Network(topology=name, **NETWORKS[name])
    before = network_of(settings)
    write_graph(before, settings, f"net.{form}")
    found, lost = restored(Network(topology="graph", options={"file": f"net.{form}"}))
    assert lost == []
    after = network_of(found)
    for what in SAME:
        assert getattr(after, what) == getattr(before, what), what
    for what in ARRAYS:
        assert getattr(after, what).tolist() == getattr(before, what).tolist(), what
    assert list(after.link_name) == list(before.link_name)
    assert list(after.router_name) == list(before.router_name)
    graph = {"topology": "graph", "options": {"file": f"net.{form}"}}
    for backend in ("packet", "analytical") if form == "graphml" else ():
        first, second = run(settings.tables(), backend), run(graph, backend)
        differences = [each.name for each in diff(first, second).differences]
        own = ["/@experiment: network.options.file", "/@sha256"]  # the name of the file is part of the experiment
        assert differences == (own if name == "graph" else []), backend


@pytest.mark.parametrize("name", SYSTEMS)
def test_named_systems(name: str, tmp_path: Path) -> None:
    file = str(tmp_path / "net.graphml")
    pyxsim.export_topology(name, file)
    assert pyxsim.describe_topology(pyxsim.Graph(file)) == pyxsim.describe_topology(name)


@pytest.fixture
def torus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nx.MultiDiGraph:
    """A torus, written to net.graphml in the current folder, as networkx reads it."""
    monkeypatch.chdir(tmp_path)
    write_graph(network_of(TORUS), TORUS, "net.graphml")
    return nx.read_graphml("net.graphml", force_multigraph=True)


def test_links_have_their_bandwidth_and_latency_with_units(torus: nx.MultiDiGraph) -> None:
    for _, _, data in torus.edges(data=True):
        assert (data["bandwidth"], data["latency"]) == ("25 GB/s", "300 ns")


def test_settings_of_the_experiment_override_those_of_the_graph(torus: nx.MultiDiGraph) -> None:
    found, lost = restored(GRAPH.model_copy(update={"bandwidth": TORUS.bandwidth * 2}))
    assert (found.topology, found.shape, found.bandwidth, lost) == ("torus", (4, 4), TORUS.bandwidth * 2, [])
    valiant = Network(topology="graph", options=GRAPH.options, router={"routing": "valiant"})
    assert restored(valiant)[0].router.routing == "valiant"
    assert restored(valiant)[0].latency == TORUS.latency


def test_an_experiment_with_a_written_graph_reads_back(torus: nx.MultiDiGraph) -> None:
    text = pyxsim.load_experiment(experiment(GRAPH.tables(defaults=False))).to_toml()
    assert (
        pyxsim.run(pyxsim.Experiment.from_toml(text)).time_cycles == pyxsim.run(experiment(TORUS.tables())).time_cycles
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda graph: graph.remove_edge("0", "1"), "has 63 edges, not the 64 of its settings"),
        (lambda graph: graph.remove_node("3"), "has other nodes than those of its settings"),
        (lambda graph: graph.add_edge("0", "5", link=64), "has 65 edges"),
        (lambda graph: graph.nodes["2"].update(npus=2), "has another npus of node 2"),
        (lambda graph: graph.edges["0", "1", 0].update(bandwidth="1 GB/s"), "has another bandwidth of the edge 0 -> 1"),
        (lambda graph: graph.edges["0", "1", 0].pop("latency"), "has another latency of the edge 0 -> 1"),
        (lambda graph: graph.edges["0", "1", 0].update(link=99), "has no edge 0 -> 1 with link = 0"),
        (lambda graph: graph.graph.update(pyxsim="{"), "has settings that cannot be used"),
        (lambda graph: graph.graph.update(pyxsim='{"topology": "no-such"}'), "unknown topology 'no-such'"),
    ],
)
def test_a_changed_graph_is_plain_and_says_what_is_lost(torus: nx.MultiDiGraph, change: Any, words: str) -> None:
    change(torus)
    nx.write_graphml(torus, "net.graphml")
    found, (line,) = restored(GRAPH)
    assert found == GRAPH
    assert words in line
    assert "is read as a plain graph, which loses [network] settings, dimensions, queues, routing, host links" in line


def test_a_plain_graph_keeps_bandwidth_and_latency(torus: nx.MultiDiGraph) -> None:
    torus.remove_edges_from([("0", "1"), ("1", "0")])
    nx.write_graphml(torus, "net.graphml")
    result = pyxsim.run(experiment(GRAPH.tables()))
    assert [line for line in result.warnings if "which loses" in line]
    assert set(result.links.bandwidth.tolist()) == {25e9}
    assert set(result.links.latency.tolist()) == {300}


def test_an_edge_list_loses_its_nodes(torus: nx.MultiDiGraph) -> None:
    write_graph(network_of(TORUS), TORUS, "net.edges")
    lines = Path("net.edges").read_text(encoding="utf-8").splitlines()
    changed = [line for line in lines if not line.startswith(("0 1 ", "1 0 "))]
    Path("net.edges").write_text("\n".join(changed), encoding="utf-8")
    with pytest.warns(RuntimeWarning, match="loses .* host links, names and NPUs of nodes"):
        pyxsim.describe_topology(pyxsim.Graph("net.edges"))
    with pytest.raises(InputError, match=r"an edge list does not keep the attributes of nodes; allowed: graphml"):
        pyxsim.export_topology("dgx-1", "net.edges")


def test_reading_with_another_shape_is_plain(torus: nx.MultiDiGraph) -> None:
    _, (line,) = restored(Network(topology="graph", options={"file": "net.graphml", "dims": [16]}))
    assert "is read with options.dims" in line


def test_a_torus_takes_as_long_as_before_its_export(torus: nx.MultiDiGraph) -> None:
    load = {"kind": "all-reduce", "size": "1 MiB"}
    graph = {"topology": "graph", "options": {"file": "net.graphml"}}
    times = [pyxsim.run({"network": each, "collective": load}).time_cycles for each in (TORUS.tables(), graph)]
    assert times[0] == times[1]
