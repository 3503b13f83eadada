"""What is written as InfraGraph, NCCL XML or HPCC's text reads back as the same network."""

from __future__ import annotations

import warnings
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.settings import Network
from pyxsim.topology.build import network_of
from pyxsim.topology.exported import graph_text
from pyxsim.topology.from_networkx import read_graph
from pyxsim.topology.inventory.plain import PlainLink, PlainNetwork
from pyxsim.topology.inventory.write_infragraph import infragraph_text
from pyxsim.units import parse_bandwidth
from tests.examples import part_of

library.load_all()

FOLDER = Path("inputs/inventories").resolve()
PROPERTY = settings(
    max_examples=part_of(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def links(graph: Any) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for a, b, data in graph.edges(data=True):
        found[(frozenset((a, b)), data["kind"], parse_bandwidth(data["bandwidth"]), data.get("latency"))] += 1
    return found


def npus(graph: Any) -> list[str]:
    return [name for name, kind in graph.nodes(data="kind") if kind == "npu"]


def again(path: Path, form: str, folder: Path, **options: Any) -> Any:
    network = Network(topology="graph", options={"file": str(path), **options})
    target = folder / f"again{ {'infragraph': '.yaml', 'nccl': '.xml', 'hpcc': '.txt'}[form] }"
    target.write_text(graph_text(network_of(network), network, form), encoding="utf-8")
    return read_graph(target)


@st.composite
def inventories(draw: st.DrawFn) -> PlainNetwork:
    """Instances of devices of components, with any links between any of them."""
    found = PlainNetwork()
    for name in draw(st.lists(st.sampled_from(["host", "leaf 1", "a-b", "ü"]), min_size=1, max_size=3, unique=True)):
        shape = draw(st.lists(st.tuples(st.booleans(), st.integers(1, 3)), min_size=1, max_size=3))
        for index in range(draw(st.integers(1, 3))):
            for component, (npu, count) in enumerate(shape):
                for number in range(count):
                    if npu:
                        found.npus.append(len(found.names))
                    found.names.append(f"{name}.{index}.part{component}.{number}")
    pairs = st.tuples(*[st.integers(0, len(found.names) - 1)] * 2).filter(lambda pair: pair[0] != pair[1])
    kinds = {"eth": (Fraction(50 * 10**9), Fraction(1, 10**6)), "pcie": (Fraction(315 * 10**8), Fraction(3, 10**9))}
    if len(found.names) > 1:
        chosen = st.tuples(pairs, st.sampled_from(sorted(kinds)))
        for (a, b), kind in draw(st.lists(chosen, max_size=12, unique_by=lambda x: (frozenset(x[0]), x[1]))):
            found.links.append(PlainLink(a, b, kind, *kinds[kind]))
    return found


@given(network=inventories().filter(lambda network: network.npus))
@PROPERTY
def test_infragraph(network: PlainNetwork, tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(infragraph_text(network), encoding="utf-8")
    graph = read_graph(path)
    assert npus(graph) == [network.names[part] for part in network.npus]
    assert set(graph) == set(network.names)
    latency = {Fraction(1, 10**6): "1000 ns", Fraction(3, 10**9): "3 ns"}
    ends = [(frozenset((network.names[link.a], network.names[link.b])), link) for link in network.links]
    assert links(graph) == Counter((pair, link.kind, link.rate, latency[link.latency]) for pair, link in ends)


@st.composite
def nodes(draw: st.DrawFn) -> str:
    """A topology of NCCL: trees of bridges, GPUs and NICs below CPUs, NVLinks to each other or to switches."""
    count = iter(range(10**6))
    gpus: list[str] = []
    sm = draw(st.sampled_from([60, 70, 80, 86, 90, 100]))

    def pci(depth: int) -> str:
        bus = f"0000:{next(count):02x}:00.0"
        gen, lanes = draw(st.sampled_from(["5.0", "8.0", "16.0", "32.0"])), draw(st.sampled_from([4, 8, 16]))
        what = draw(st.sampled_from(["gpu", "nic", "bridge"])) if depth < 3 else "gpu"
        if what == "gpu":
            gpus.append(bus)
            inner = f'<gpu dev="{len(gpus) - 1}" sm="{sm}" rank="{len(gpus) - 1}">LINKS{bus}</gpu>'
        elif what == "nic":
            inner = f'<nic><net name="n{bus[5:7]}" dev="0" speed="{draw(st.sampled_from([100000, 400000]))}"/></nic>'
        else:
            inner = "".join(pci(depth + 1) for _ in range(draw(st.integers(0, 3))))
        return f'<pci busid="{bus}" link_speed="{gen} GT/s PCIe" link_width="{lanes}">{inner}</pci>'

    vendor = draw(st.sampled_from(["AuthenticAMD", "GenuineIntel", ""]))
    cpus = [
        f'<cpu numaid="{cpu}" vendor="{vendor}">{pci(2)}{pci(0)}{pci(3)}</cpu>'
        for cpu in range(draw(st.integers(1, 3)))
    ]
    text = f'<system version="1">{"".join(cpus)}</system>'
    switches = draw(st.booleans())
    for bus in gpus:
        targets = [f"0000:f{i}:00.0" for i in range(3)] if switches else [other for other in gpus if other != bus]
        links = (f'<nvlink target="{t}" count="2" tclass="0x0{68000 if switches else 30200}"/>' for t in targets)
        text = text.replace(f"LINKS{bus}", "".join(links))
    return text


@given(text=nodes())
@PROPERTY
def test_nccl(text: str, tmp_path: Path) -> None:
    path = tmp_path / "node.xml"
    path.write_text(text, encoding="utf-8")
    before = read_graph(path)
    with warnings.catch_warnings(action="ignore"):
        after = again(path, "nccl", tmp_path)
    assert npus(after) == npus(before)
    assert set(after) == set(before)
    assert links(after) == links(before)


@pytest.mark.parametrize("name", ["two_servers.yaml", "nvlink_pairs.xml", "hwloc.xml", "nvidia_smi.txt"])
def test_hpcc(name: str, tmp_path: Path) -> None:
    before = read_graph(FOLDER / name)
    with pytest.warns(RuntimeWarning, match="hpcc cannot say names, kinds of links and routes"):
        after = again(FOLDER / name, "hpcc", tmp_path)
    order = [*npus(before), *(part for part in before if part not in npus(before))]
    number = {part: i for i, part in enumerate(order)}
    pairs = {frozenset((number[a], number[b])): data["bandwidth"] for a, b, data in before.edges(data=True)}
    assert {frozenset(edge[:2]): parse_bandwidth(edge[2]) for edge in after.edges(data="bandwidth")} == {
        pair: parse_bandwidth(rate) for pair, rate in pairs.items()
    }


def test_a_network_of_the_shelf_as_infragraph(tmp_path: Path) -> None:
    network = Network(topology="leaf-spine", options={"npus": 2, "leaves": 2, "spines": 2}, bandwidth="50 GB/s")
    with pytest.warns(RuntimeWarning, match="infragraph cannot say the names of this network"):
        text = graph_text(network_of(network), network, "infragraph")
    (tmp_path / "net.yaml").write_text(text, encoding="utf-8")
    graph = read_graph(tmp_path / "net.yaml")
    assert (len(npus(graph)), graph.number_of_nodes(), graph.number_of_edges()) == (4, 8, 8)


@pytest.mark.parametrize(
    ("network", "form", "words"),
    [
        (Network(topology="ring", shape=(4,), options={"bidirectional": False}), "hpcc", "has no equal one back"),
        (Network(topology="ring", shape=(4,)), "nccl", r"nccl cannot say the part '\(0\)'"),
        (Network(topology="dragonfly", options={"p": 2, "a": 2, "h": 1}, host_links=False), "hpcc", "has no lanes"),
    ],
)
def test_what_cannot_be_said(network: Network, form: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        graph_text(network_of(network), network, form)


def test_nvswitches_of_simai(tmp_path: Path) -> None:
    lines = ["0 2 900Gbps 25ns 0", "1 2 900Gbps 25ns 0", "0 3 1Gbps 1us 0", "1 4 1Gbps 1us 0"]
    (tmp_path / "topo").write_text("\n".join(["5 2 1 2 4 H20", "2 3 4", *lines]), encoding="utf-8")
    graph = read_graph(tmp_path / "topo")
    assert graph.nodes[2] == {"kind": "switch", "label": "nvswitch.2"}
    assert graph.edges[0, 2]["kind"] == "nvlink"
    assert "kind" not in graph.edges[0, 3]


def test_the_first_line_of_powertcp(tmp_path: Path) -> None:
    """It has the number of switches with hosts before that of links; a rate without a unit is in bit/s, as in ns-3."""
    links = ["0 2 25000000000.0 1us 0", "1 3 25000000000.0 1us 0", "2 3 100000000000.0 1us 0"]
    (tmp_path / "topo").write_text("\n".join(["4 2 2 3", "2 3", *links]), encoding="utf-8")
    graph = read_graph(tmp_path / "topo")
    assert [graph.nodes[node]["kind"] for node in range(4)] == ["npu", "npu", "switch", "switch"]
    assert {frozenset(ends): data["bandwidth"] for *ends, data in graph.edges(data=True)} == {
        frozenset({0, 2}): "25000000000.0bps",
        frozenset({1, 3}): "25000000000.0bps",
        frozenset({2, 3}): "100000000000.0bps",
    }
