"""The matrix of `nvidia-smi topo -m` becomes a tree of PCIe switches and CPUs, with NVLinks."""

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

SAMPLE = Path("inputs/inventories/nvidia_smi.txt").resolve()


def network(path: Path = SAMPLE, **options: Any) -> Topology:
    return build("graph", options={"file": str(path), **options})


def kinds_on_the_way(net: Topology, src: int, dst: int) -> list[str]:
    return [net.link_kinds[net.link_dim[link]] for link, _ in net.relation.route(src, dst)]


def test_the_tree() -> None:
    graph = read_graph(SAMPLE)
    links = {(*sorted((a, b)), data["kind"], data["bandwidth"]) for a, b, data in graph.edges(data=True)}
    pcie, nvlink = ("pcie", "31.508 GB/s"), ("nvlink", "50 GB/s")
    assert links == {
        ("GPU0", "GPU1", *nvlink),
        ("GPU2", "GPU3", *nvlink),
        ("GPU0", "switch.0", *pcie),
        ("mlx5_0", "switch.0", *pcie),
        ("bridge.0", "switch.0", *pcie),
        ("GPU1", "bridge.0", *pcie),
        ("bridge.0", "cpu.0", *pcie),
        ("GPU2", "cpu.1", *pcie),
        ("GPU3", "cpu.1", *pcie),
        ("cpu.1", "mlx5_1", *pcie),
        ("cpu.0", "cpu.1", "sys", "16 GB/s"),
    }
    assert "nvlink 25 GB/s, pcie 31.508 GB/s, sys 16 GB/s" in graph.graph[NOTES][0]


def test_routes() -> None:
    net = network()
    prove(net.relation)
    assert kinds_on_the_way(net, 0, 1) == ["nvlink"]
    assert kinds_on_the_way(net, 0, 2) == ["pcie", "pcie", "pcie", "sys", "pcie"]
    assert network(nodes=2, rates={"network": "200 Gb/s"}).npus == 8


def test_many_nvlinks_are_a_switch(tmp_path: Path) -> None:
    names = [f"GPU{gpu}" for gpu in range(8)]
    rows = [[name, *("X" if name == other else "NV12" for other in names)] for name in names]
    lines = ["\x1b[4m" + "\t".join(["", *names, "CPU Affinity"]) + "\x1b[0m", *map("\t".join, rows)]
    (tmp_path / "topo.txt").write_text("\n".join(lines), encoding="utf-8")
    graph = read_graph(tmp_path / "topo.txt", rates={"nvlink": "50 GB/s"})
    assert graph.degree["nvswitch.0"] == 8
    assert graph.edges["GPU7", "nvswitch.0", 0]["bandwidth"] == "600 GB/s"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("PXB\tSYS\t0-31", "PXX\tSYS\t0-31", r"topo.txt:3: GPU1 to NIC0 is 'PXX'; allowed: X, NV and a number, PIX"),
        ("NIC0\tPIX\tPXB", "NIC0\tPIX\tPIX", "GPU1 to NIC0 is PXB and PIX in the other direction"),
        ("NIC1\tSYS\tSYS\tPHB\tNODE\tSYS\t X ", "", "'NIC' is not the next device; allowed: NIC1"),
        ("GPU1\tNV2", "GPU2\tNV2", "'GPU2' is not the next device; allowed: GPU1"),
        ("\tGPU0\tGPU1\tGPU2", "\tGPU0\tGPU0\tGPU2", "names two devices alike"),
        ("mlx5_1", "mlx5_0", "names two devices alike"),
        ("\tGPU0\tGPU1", "\tgpu0\tGPU1", "has .* rows for|names two|not the next|has no line"),
    ],
)
def test_faults(old: str, new: str, words: str, tmp_path: Path) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "topo.txt").write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=words):
        network(tmp_path / "topo.txt")
