"""Throughput around links that are down: within the minimum cut, and near the maximum flow over the same paths."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import pyxsim
from pyxsim.library import load_all
from pyxsim.routing.degraded import Degraded, degraded
from pyxsim.settings import load_experiment
from pyxsim.topology.build import network_of
from pyxsim.topology.topology import Topology
from validation.families.faults import permutation

FLIT = 64
SMALL, LARGE = ([4, 4, 4], [4, 4]), ([4, 4, 4, 4], [4, 4, 4])


def network(children: list[int], parents: list[int]) -> dict[str, Any]:
    return {
        "topology": "folded-clos",
        "options": {"children": children, "parents": parents},
        "bandwidth": "64 GB/s",  # a flit per cycle
        "latency": "20 ns",
        "flit": f"{FLIT} B",
        "packet": "256 B",
        "router": {"vcs": 16, "buffer": 64, "internal_speedup": 2},
        "reroute": {},
    }


def built(tables: dict[str, Any]) -> Topology:
    load_all()
    return network_of(
        load_experiment({"network": tables, "message": [{"src": 0, "dst": 1, "size": "1 B"}]}, ()).network
    )


def failed(topology: Topology, count: int, seed: int) -> tuple[list[str], Degraded]:
    """Names of cables that fail, and the routes around them."""
    cables = np.random.default_rng(seed).choice(topology.links // 2, count, replace=False) * 2
    down = np.concatenate([cables, cables + 1]).astype(np.int64)
    return [topology.link_name[link] for link in cables.tolist()], degraded(topology.relation, down, "least")


def run(tables: dict[str, Any], goal: list[int], size: int, names: list[str]) -> Any:
    message = [{"src": src, "dst": dst, "size": f"{size} B"} for src, dst in enumerate(goal) if src != dst]
    faults = [{"link": name, "down": True} for name in names]
    return pyxsim.run({"network": tables, "message": message, "faults": faults, "output": {"window": "500 ns"}})


@pytest.mark.parametrize(("count", "seed"), [(1, 0), (3, 1), (5, 2)])
def test_no_cut_is_crossed(count: int, seed: int) -> None:
    tables = network([4, 4], [4])
    topology = built(tables)
    names, routes = failed(topology, count, seed)
    up = routes.allowed.any(axis=1)
    left = nx.DiGraph()
    for link in np.flatnonzero(up).tolist():
        left.add_edge(int(topology.link_src[link]), int(topology.link_dst[link]), capacity=1)
    # The NPUs of leaves 0 and 1 send to those of leaves 2 and 3.
    for leaf in range(4):
        ends = ("source", leaf) if leaf < 2 else (leaf, "sink")
        left.add_edge(*ends, capacity=4)
    cut = nx.minimum_cut_value(left, "source", "sink")
    size = 64 * 1024
    result = run(tables, [npu + 8 if npu < 8 else npu for npu in range(16)], size, names)
    assert 8 * size / FLIT / result.time_cycles <= cut
    for name in names:
        assert result.totals["flits"][list(result.links.name).index(name)] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("tree", "count", "seed", "least"), [(SMALL, 1, 1, 98), (SMALL, 8, 2, 98), (LARGE, 64, 1, 98)])
def test_a_permutation_has_the_rate_of_the_maximum_flow(
    tree: tuple[list[int], list[int]], count: int, seed: int, least: float
) -> None:
    pytest.importorskip("scipy.optimize")
    load_all()
    steady, _, _ = permutation(*tree, count, 1 << (19 if tree is SMALL else 18), seed)
    assert least <= steady <= 100.1
