"""NCCL's topologies of a node become networks of one node or of several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.routing import prove
from pyxsim.topology import Topology
from pyxsim.topology.build import build
from pyxsim.topology.from_networkx import read_graph
from pyxsim.topology.inventory.parts import NOTES

library.load_all()

SAMPLE = Path("inputs/inventories/nvlink_pairs.xml").resolve()


def network(path: Path = SAMPLE, **options: Any) -> Topology:
    return build("graph", options={"file": str(path), **options})


def kinds_on_the_way(net: Topology, src: int, dst: int) -> list[str]:
    return [net.link_kinds[net.link_dim[link]] for link, _ in net.relation.route(src, dst)]


def test_parts_and_rates() -> None:
    graph = read_graph(SAMPLE)
    assert [name for name, kind in graph.nodes(data="kind") if kind == "npu"] == [f"gpu.{dev}" for dev in range(4)]
    assert graph.edges["gpu.0", "gpu.3", 0] == {"kind": "nvlink", "bandwidth": "100 GB/s"}  # 4 of 25 GB/s
    assert graph.edges["gpu.0", "pci.0000:10:00.0", 0]["bandwidth"] == "31.508 GB/s"  # 16 GT/s x 16 x 128/130
    assert graph.edges["cpu.0", "cpu.1", 0] == {"kind": "sys", "bandwidth": "16 GB/s"}
    assert graph.edges["nic.0000:13:00.0", "net.mlx5_0", 0]["bandwidth"] == "25 GB/s"
    assert graph.graph[NOTES] == []


def test_nvlinks_within_the_node() -> None:
    net = network()
    prove(net.relation)
    assert all(kinds_on_the_way(net, a, b) == ["nvlink"] for a in range(4) for b in range(4) if a != b)


def test_nodes_at_a_switch() -> None:
    net = network(nodes=3, dims=[4, 3])
    prove(net.relation)
    assert net.router_name[net.home[5]] == "node1.gpu.1"
    assert kinds_on_the_way(net, 0, 4) == ["pcie", "pcie", "net", "network", "network", "net", "pcie", "pcie"]


def test_a_rate_is_that_of_one_of_the_bonded_links() -> None:
    graph = read_graph(SAMPLE, rates={"nvlink": "20 GB/s", "network": "10 GB/s"}, nodes=2)
    assert graph.edges["node1.gpu.0", "node1.gpu.3", 0]["bandwidth"] == "80 GB/s"
    assert graph.edges["node1.net.mlx5_0", "network", 0]["bandwidth"] == "10 GB/s"


def test_a_file_for_virtual_machines(tmp_path: Path) -> None:
    pci = '<pci busid="{}" class="{}" link_speed="16 GT/s" link_width="16"/>'
    inside = pci.format("0001:00:00.0", "0x030200") + pci.format("0101:00:00.0", "0x020700")
    bridge = '<pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">'
    text = f'<system version="1"><cpu numaid="0">{bridge}{inside}</pci></cpu></system>'
    (tmp_path / "vm.xml").write_text(text, encoding="utf-8")
    graph = read_graph(tmp_path / "vm.xml", nodes=2, rates={"network": "25 GB/s"})
    assert graph.has_edge("node1.gpu.0", "node1.pci.ffff:ff:01.0")
    assert graph.has_edge("node1.nic.0101:00:00.0", "network")
    assert "NVLinks between them are not in the file" in graph.graph[NOTES][0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('<gpu dev="0"', '<gpu dev="zero"', r"net.xml:6: gpu: dev is 'zero'"),
        ('busid="0000:12:00.0"', 'busid="0000:11:00.0"', "two GPUs have the busid 0000:11:00.0"),
        ('target="0000:22:00.0" count', 'target="0000:99:00.0" count', "target is 0000:99:00.0, which is no GPU"),
        ('count="4"', 'count="1000000000"', "count is '1000000000'"),
        ('count="4"', 'cuont="4"', r"nvlink: count is missing; did you mean 'cuont'\?"),
        ('count="4"', 'count="99999"', "count is 99999; allowed: 1 to 1024"),
        ("</system>", "", "not valid XML"),
        ("<system", "<sistem", "not valid XML"),
        ('<system version="1">', '<!DOCTYPE s [<!ENTITY a "b">]><system version="1">', "declares the entity 'a'"),
        ("<nic>", "<nik>", "not valid XML"),
    ],
)
def test_faults(old: str, new: str, words: str, tmp_path: Path) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "net.xml").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=words):
        network(tmp_path / "net.xml")


def test_nodes_without_ports(tmp_path: Path) -> None:
    text = SAMPLE.read_text(encoding="utf-8").replace("<net ", "<other ")
    (tmp_path / "net.xml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"options\.nodes: 2 nodes cannot be joined"):
        network(tmp_path / "net.xml", nodes=2)
    with pytest.raises(InputError, match=r"options\.nodes: 0 is not a number of nodes; allowed: 1 to 65536"):
        network(nodes=0)
    (tmp_path / "net.edges").write_text("a b\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"options\.nodes: .*net.edges is not an inventory"):
        network(tmp_path / "net.edges", nodes=2)


def test_other_xml(tmp_path: Path) -> None:
    (tmp_path / "net.xml").write_text("<algo/>", encoding="utf-8")
    with pytest.raises(InputError, match="algo: is not an inventory; allowed: system, topology"):
        network(tmp_path / "net.xml")
