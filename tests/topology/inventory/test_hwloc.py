"""hwloc's XML becomes a tree of PCI devices, with NVLinks by its matrix of bandwidths."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyxsim import library
from pyxsim.errors import InputError
from pyxsim.topology.build import build
from pyxsim.topology.from_networkx import read_graph
from pyxsim.topology.inventory.parts import NOTES

library.load_all()

SAMPLE = Path("inputs/inventories/hwloc.xml").resolve()


def test_parts_and_rates() -> None:
    graph = read_graph(SAMPLE)
    links = {(*sorted((a, b)), data["kind"], data["bandwidth"]) for a, b, data in graph.edges(data=True)}
    bridge = "bridge.0000:10:00.0"
    assert links == {
        ("nvml0", "nvml1", "nvlink", "50 GB/s"),
        *((bridge, end, "pcie", "15.754 GB/s") for end in ("mlx5_0", "nvml0", "nvml1", "package.0")),
    }
    assert [name for name, kind in graph.nodes(data="kind") if kind == "npu"] == ["nvml0", "nvml1"]


def test_nodes_at_a_switch() -> None:
    net = build("graph", options={"file": str(SAMPLE), "nodes": 2, "rates": {"network": "100 Gb/s"}})
    kinds = [net.link_kinds[net.link_dim[link]] for link, _ in net.relation.route(0, 2)]
    assert kinds == ["pcie", "pcie", "network", "network", "pcie", "pcie"]
    assert "no bandwidth of links network" in read_graph(SAMPLE, nodes=2).graph[NOTES][0]


def test_switches_and_groups(tmp_path: Path) -> None:
    text = SAMPLE.read_text(encoding="utf-8").replace('<distances2 type="OSDev"', "<distances2hetero")
    text = text.replace("</distances2>", "</distances2hetero>").replace('nbobjs="2"', 'nbobjs="3"')
    text = text.replace("20 21 ", "OSDev:20 OSDev:21 PCIDev:15")
    values = "<u64values>0 0 25000</u64values><u64values>0 0 0</u64values><u64values>25000 0 0</u64values>"
    start, end = text.index("<u64values"), text.rindex("</u64values>") + len("</u64values>")
    path = tmp_path / "node.xml"
    path.write_text(text[:start] + values + text[end:], encoding="utf-8")
    graph = read_graph(path)
    assert graph.has_edge("nvml0", "nvswitch.0000:1f:00.0")
    assert graph.degree["nvswitch.0000:1f:00.0"] == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("20 21 ", "20 99 ", "node.xml:26: distances2: no object OSDev:99"),
        ("50000 1000000", "50000", "3 values for 2 objects; allowed: a square"),
        ("1000000 50000", "1000000 fast", "'fast' is not a bandwidth|is not a bandwidth"),
        ('pci_link_speed="15.753846"', 'pci_link_speed="x"', "pci_link_speed is 'x'"),
        ('name="nvml1"', 'name="nvml0"', "two devices are named 'nvml0'"),
        ('type="Package"', 'kind="Package"', "type is missing"),
        ("0302", "0400", "no NPU|two"),
        ('"hwloc2.dtd">', '"hwloc2.dtd" [<!ENTITY x SYSTEM "/etc/passwd">]>', "declares the entity 'x'"),
    ],
)
def test_faults(old: str, new: str, words: str, tmp_path: Path) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    assert old in text
    if old == "0302":
        text = text.replace("nvml", "card")
    (tmp_path / "node.xml").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read_graph(tmp_path / "node.xml")
