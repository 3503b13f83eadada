"""Networks from graphs and files: attributes, numbering, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.topology import Topology, build
from pyxsim.topology.from_networkx import from_networkx

library.load_all()

SAME = ("link_src", "link_dst", "link_dim", "link_length", "home")


def written(net: Topology, file: Path) -> Path:
    file.write_text("\n".join(nx.generate_graphml(net.to_networkx())), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("torus", [4, 3], {}),
        ("ring", [2], {}),
        ("switch", [5], {}),
        ("concentrated-mesh", None, {"routers": [3, 3], "concentration": [2, 2], "floor_plan": True}),
        ("k-ary-n-tree", None, {"k": 2, "n": 3}),
        ("dragonfly", None, {"p": 2, "a": 4, "h": 2, "g": 5}),
        ("slim-fly", None, {"q": 3}),
    ],
)
def test_there_and_back(name: str, shape: list[int] | None, options: dict[str, Any], tmp_path: Path) -> None:
    net = build(name, shape, options=options)
    written(net, tmp_path / "net.graphml")
    back = build("graph", options={"file": "net.graphml"}, folder=tmp_path)
    for what in SAME:
        assert getattr(back, what).tolist() == getattr(net, what).tolist(), what
    assert back.link_kinds == net.link_kinds
    assert list(back.router_name) == list(net.router_name)


def test_widths_and_latencies_there_and_back(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", bandwidth="50 GB/s", latency="10 ns", length=3, kind="glass")
    graph.add_edge("b", "c")
    net = from_networkx(graph, npus=2)
    assert (net.npus, net.link_kinds, net.link_length.tolist()) == (6, ("glass", "link"), [3, 3, 1, 1])
    assert net.link_bandwidth == ("50 GB/s", "50 GB/s", None, None)
    again = build("graph", options={"file": written(net, tmp_path / "g.graphml").name}, folder=tmp_path)
    assert (again.link_bandwidth, again.link_latency) == (net.link_bandwidth, net.link_latency)
    assert again.npus == 6


def test_marked_nodes() -> None:
    graph = nx.star_graph(3)
    nx.set_node_attributes(graph, {0: "switch", 1: "npu", 2: "npu", 3: "npu"}, "kind")
    net = from_networkx(graph)
    assert (net.npus, net.switches, net.home.tolist()) == (3, 1, [1, 2, 3])
    counted = nx.path_graph(3)
    counted.nodes[0]["npus"] = 4
    counted.nodes[2]["npus"] = True
    assert from_networkx(counted).home.tolist() == [0, 0, 0, 0, 2]


def test_numbers_are_in_order_and_names_as_in_the_file() -> None:
    graph = nx.Graph([("10", "9"), ("9", "2")])
    assert from_networkx(graph).router_name == ["(2)", "(9)", "(10)"]
    assert from_networkx(nx.Graph([("x", "b"), ("b", "a")])).router_name == ["(x)", "(b)", "(a)"]


def test_attributes_of_other_programs_are_theirs() -> None:
    graph = nx.cycle_graph(3)
    graph.nodes[0].update(Latitude=47.4, type="router", Country="CH")
    graph.edges[0, 1].update(LinkType="fibre", weight=2.0, LinkLabel="10G", id=7)
    assert from_networkx(graph).npus == 3


def test_a_piece_without_npus_may_stand_alone() -> None:
    graph = nx.Graph([("a", "b"), ("s", "t")])
    nx.set_node_attributes(graph, {"a": 1, "b": 1, "s": 0, "t": 0}, "npus")
    with pytest.raises(InputError, match="not connected"):
        from_networkx(nx.Graph([("a", "b"), ("s", "t")]))
    assert from_networkx(graph).npus == 2


def test_directed_graphs() -> None:
    net = from_networkx(nx.cycle_graph(4).to_directed())
    assert net.links == 8


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("net.edges", "0 1 {'bandwidth': '25 GB/s'}\n1 2\n2 0\n"),
        ("net.txt", "# three routers\n0 1 {'bandwidth': '25 GB/s'}\n1 2\n2 0\n"),
        (
            "net.gml",
            'graph [ node [ id 0 ] node [ id 1 ] node [ id 2 ] edge [ source 0 target 1 bandwidth "25 GB/s" ]'
            " edge [ source 1 target 2 ] edge [ source 2 target 0 ] ]",
        ),
    ],
)
def test_formats(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    net = build("graph", options={"file": name, "npus": 3, "dims": [3, 3]}, folder=tmp_path)
    assert (net.shape, net.links) == ((3, 3), 6)
    assert net.link_bandwidth is not None
    assert sorted(filter(None, net.link_bandwidth)) == ["25 GB/s"] * 2


@pytest.mark.parametrize(
    ("attributes", "options", "words"),
    [
        ({"edge": {"bandwidth": "25"}}, {}, "the edge from 0 to 1: .*25"),
        ({"edge": {"latency": 5}}, {}, "the edge from 0 to 1"),
        ({"edge": {"length": 0}}, {}, "length = 0; allowed: a whole number from 1"),
        ({"node": {"npus": -1}}, {}, "node 0 has npus = -1"),
        ({"node": {"npus": "two"}}, {}, "node 0 has npus = 'two'"),
        ({"node": {"npu_ids": "0 1"}}, {}, "npu_ids do not contain each NPU exactly once"),
        (
            {"edge": {"bandwith": "25 GB/s"}},
            {},
            "the edge from 0 to 1 has the unknown attribute 'bandwith'; .*'bandwidth'",
        ),
        ({"edge": {"Latency": "5 ns"}}, {}, "unknown attribute 'Latency'; .*; did you mean 'latency'"),
        ({"node": {"npu": 2}}, {}, "node 0 has the unknown attribute 'npu'; allowed: npus, .*; did you mean 'npus'"),
        ({"node": {"kind": "swich"}}, {}, "node 0 has kind = 'swich'; allowed: npu, switch; did you mean 'switch'"),
        ({"node": {"kind": "switch"}}, {}, "no node has an NPU"),
        ({}, {"dims": [2, 2]}, r"\(2, 2\) is not a shape of 3 NPUs"),
    ],
)
def test_faults(attributes: dict[str, dict[str, object]], options: dict[str, Any], words: str) -> None:
    graph = nx.cycle_graph(3)
    graph.edges[0, 1].update(attributes.get("edge", {}))
    graph.nodes[0].update(attributes.get("node", {}))
    with pytest.raises(InputError, match=words):
        from_networkx(graph, **options)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("none.graphml", None, r"network.options.file: .*none\.graphml: no such file"),
        ("bad.graphml", "<graphml", "networkx cannot read this graph"),
        ("bad.edges", "0 1 x y\n", "bad.edges:1: .*invalid attributes 'x y'; allowed: a table such as"),
        ("bad.edges", "0 1 [1]\n", "bad.edges:1: .*invalid attributes"),
        (
            "bad.edges",
            "# ends\n0 1\n\n2\n",
            r"network.options.file: .*bad.edges:4: '2' is not a link; allowed: one line",
        ),
        ("bad.edges", "0 1\n1 2 {'bandwith': '5 GB/s'}\n", "bad.edges:2: .*from 1 to 2 has .*'bandwith'.*'bandwidth'"),
        ("none.edges", None, "no such file"),
        ("net.json", "{}\n", "unknown format '.json' of a graph; allowed: .graphml, .gml, an edge list"),
        ("self.edges", "a b\nb b\n", r"a link leads from \(b\) to itself"),
        ("two.edges", "a b\nc d\n", r"the graph is not connected: no path leads from \(a\) to \(c\)"),
        ("empty.edges", "", "the graph has no nodes"),
    ],
)
def test_files_with_faults(name: str, text: str | None, words: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words) as caught:
        build("graph", options={"file": name}, folder=tmp_path)
    assert caught.value.key == "network.options.file"
    assert str(tmp_path / name) in str(caught.value)


def test_links_of_one_way_are_routed_minimally() -> None:
    """`up-down` needs an opposite of each link, so it is not the default, and says so if it is chosen."""
    ring = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")])
    nx.set_node_attributes(ring, "npu", "kind")
    topology = from_networkx(ring)
    assert topology.routing == "minimal"
    with pytest.raises(InputError, match="up-down requires links in both directions"):
        topology.routed("up-down")
    assert from_networkx(ring.to_undirected()).routing == "up-down"
