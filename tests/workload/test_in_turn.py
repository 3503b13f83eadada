"""Ends of one nanosecond: together, or, as in ASTRA-sim 2, one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyxsim import chakra
from pyxsim.chakra import Attribute, Node, NodeType
from pyxsim.settings import load_experiment
from pyxsim.study.prepare import Prepared, prepare
from pyxsim.study.run import simulate

CPU = [Attribute("is_cpu_op", "bool_val", True)]


def names_in_order(folder: Path, nodes: list[Node], compat: str | None) -> list[str]:
    """What the first NPU communicates, in the order in which it begins."""
    for npu in range(2):
        chakra.write(folder / f"w.{npu}.et", nodes)
    network = {"topology": "ring", "shape": [2], "bandwidth": "1 GB/s", "latency": "100 ns", "clock": "1 GHz"}
    system = {"endpoint_delay": "10 ns", **({"compat": compat} if compat else {})}
    experiment = load_experiment({"network": network, "system": system, "workload": {"file": str(folder / "w")}})
    prepared = prepare(experiment, backend="analytical")
    assert isinstance(prepared, Prepared)
    simulate(prepared, backend="analytical")
    began = sorted(prepared.job.asked, key=lambda asked: asked.start)
    return [asked.name for asked in began]


def coll(number: int, name: str, *before: int) -> Node:
    attributes = [Attribute("comm_type", "int64_val", 0), Attribute("comm_size", "int64_val", 64)]
    return Node(number, name, NodeType.COMM_COLL, data_deps=list(before), attr=attributes)


@pytest.mark.parametrize(("compat", "order"), [(None, ["2", "3"]), ("astra-sim-2", ["3", "2"])])
def test_the_first_end_lets_the_first_start(tmp_path: Path, compat: str | None, order: list[str]) -> None:
    """Nodes 0 and 1 end together, 0 first, as it began first; 3 waits for 0 alone."""
    nodes = [
        Node(0, "", NodeType.COMP, duration_micros=1, attr=CPU),
        Node(1, "", NodeType.COMP, duration_micros=1),
        coll(2, "2", 1),
        coll(3, "3", 0),
    ]
    assert names_in_order(tmp_path, nodes, compat) == order


@pytest.mark.parametrize("compat", [None, "astra-sim-2"])
def test_the_lowest_number_otherwise(tmp_path: Path, compat: str | None) -> None:
    """Both wait for the same end: the lower number is first."""
    nodes = [Node(0, "", NodeType.COMP, duration_micros=1), coll(2, "2", 0), coll(1, "1", 0)]
    assert names_in_order(tmp_path, nodes, compat) == ["1", "2"]
