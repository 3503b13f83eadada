"""Algorithms of single nodes of traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.compat.astra.files import read_astra
from pyxsim.errors import InputError
from pyxsim.runner.lifecycle import run
from pyxsim.workload.node_algorithms import node_algorithms
from tests.compat.astra.system.test_custom import ring_files

FILES = Path(__file__).resolve().parents[2] / "inputs" / "astra"


def all_reduce(number: int, *before: int) -> Node:
    attributes = [Attribute("comm_type", "int64_val", 0), Attribute("comm_size", "int64_val", 2**20)]
    return Node(number, "sum", NodeType.COMM_COLL, data_deps=list(before), attr=attributes)


def test_measured_on_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of three all-reduces by a ring of its own: 170 061 ns at every NPU; 193 320 without that."""
    monkeypatch.chdir(tmp_path)
    ring_files(tmp_path, 8, 2**20, 0)
    for npu in range(8):
        chakra.write(tmp_path / f"t.{npu}.et", [all_reduce(3), all_reduce(7, 3), all_reduce(8, 7)])
    (tmp_path / "nodes.yml").write_text("# which\n7: ring\n", encoding="utf-8")
    system = json.loads((FILES / "ring_system.json").read_text(encoding="utf-8"))
    for own, time in (({"per-node-custom-implementation": "nodes.yml"}, 170_061), ({}, 193_320)):
        (tmp_path / "system.json").write_text(json.dumps(system | own), encoding="utf-8")
        read = read_astra(FILES / "ring_network.yml", tmp_path / "system.json", tmp_path / "t")
        assert run(read.experiment, backend=read.backend).time_ns == time


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ring: ring\n", "ring: is not a node number"),
        ("7: [a, b]\n", "7: lacks the prefix of its traces"),
        ("7: 8\n", "7: lacks the prefix of its traces"),
        ("7: a\n07: b\n", "07: is given twice"),
        ("", "is empty"),
    ],
)
def test_faults(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "nodes.yml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=problem):
        node_algorithms(tmp_path / "nodes.yml", tmp_path)


@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        ({"model": "resnet-50", "algorithms": "a.yml"}, "workload.algorithms: requires traces"),
        ({"file": "micro_all_reduce.txt", "algorithms": "a.yml"}, "workload.algorithms: the reader 'astra-sim-1'"),
        ({"file": "all_reduce_8npus/all_reduce", "algorithms": "a.yml"}, "a.yml"),
    ],
)
def test_where_there_are_no_nodes(monkeypatch: pytest.MonkeyPatch, workload: dict[str, Any], problem: str) -> None:
    monkeypatch.chdir(FILES)
    network = {"topology": "ring", "shape": [8], "bandwidth": "1 GB/s", "latency": "100 ns", "clock": "1 GHz"}
    with pytest.raises(InputError, match=problem):
        run({"network": network, "workload": workload}, backend="analytical")
