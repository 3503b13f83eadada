"""Networks of the tests of synthesis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyxsim.settings import load_experiment
from pyxsim.synthesis.link_graph import LinkGraph, graph_of, graph_of_links
from pyxsim.topology.build import network_of


def graph(**network: Any) -> LinkGraph:
    """The graph of a [network]; by default links of 50 GB/s."""
    network = {"bandwidth": "50 GB/s", "latency": "500 ns", **network}
    experiment = load_experiment({"network": network, "collective": {"kind": "all-reduce", "size": "1 B"}})
    return graph_of(network_of(experiment.network), experiment.network)


def both_ways(edges: Iterable[tuple[Any, Any, int]]) -> list[tuple[Any, Any, int]]:
    return [way for a, b, rate in edges for way in ((a, b, rate), (b, a, rate))]


def ring(n: int) -> LinkGraph:
    return graph_of_links(both_ways((a, (a + 1) % n, 1) for a in range(n)), range(n))


def box_of_two() -> LinkGraph:
    """Two boxes of 4 NPUs: a switch in each of 12 per NPU, and one for all of 1 per NPU."""
    boxes = [(npu, f"box {npu // 4}", 12) for npu in range(8)]
    return graph_of_links(both_ways(boxes + [(npu, "all", 1) for npu in range(8)]), range(8))
