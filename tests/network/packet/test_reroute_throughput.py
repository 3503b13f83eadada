"""Throughput around links that are down: within the minimum cut, and near the maximum flow over the same paths."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import pyxsim
from pyxsim.arrays import BoolArray
from pyxsim.library import load_all
from pyxsim.routing.degraded import Degraded, degraded
from pyxsim.settings import load_experiment
from pyxsim.topology.build import network_of
from pyxsim.topology.topology import Topology

FLIT = 64


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


def most_flits(topology: Topology, allowed: BoolArray, goal: list[int]) -> float:
    """Flits per cycle of the largest flow from each NPU to its goal over the links of the tables, in all."""
    optimize, sparse = pytest.importorskip("scipy.optimize"), pytest.importorskip("scipy.sparse")
    relation = topology.relation
    homes = np.unique(relation.home)
    columns: list[tuple[int, int]] = []  # (NPU, link)
    for src, dst in enumerate(goal):
        at, seen, end = [int(relation.home[src])], {int(relation.home[src])}, int(relation.home[dst])
        while at:
            router = at.pop()
            out = (relation.link_src == router) & allowed[:, np.searchsorted(homes, end)]
            for link in np.flatnonzero(out).tolist() if router != end else ():
                columns.append((src, link))
                if (following := int(relation.link_dst[link])) not in seen:
                    seen.add(following)
                    at.append(following)
    flows, size = len(goal), len(goal) + len(columns)
    balance: dict[tuple[int, int], int] = {}
    entries: list[tuple[int, int, int]] = []
    for number, (src, link) in enumerate(columns):
        for end, sign in ((int(relation.link_src[link]), 1), (int(relation.link_dst[link]), -1)):
            if end != relation.home[goal[src]]:
                entries.append((balance.setdefault((src, end), len(balance)), flows + number, sign))
    for src in range(flows):
        if (row := balance.get((src, int(relation.home[src])))) is not None:
            entries.append((row, src, -1))
    row, column, sign = np.array(entries).T
    links = [link for _, link in columns]
    load = sparse.coo_matrix((np.ones(len(links)), (links, flows + np.arange(len(links)))), (relation.links, size))
    kept = sparse.coo_matrix((sign, (row, column)), (len(balance), size))
    found = optimize.linprog(
        np.where(np.arange(size) < flows, -1.0, 0.0),
        A_ub=load,
        b_ub=np.ones(relation.links),
        A_eq=kept,
        b_eq=np.zeros(len(balance)),
        bounds=(0, 1),
    )
    return float(-found.fun)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "least"), [(1, 0.98), (8, 0.8)])
def test_a_permutation_is_near_the_maximum_flow(count: int, least: float) -> None:
    # With 8 of 128 cables down, packets that wait for a full link keep others back, in any router with shared VCs.
    tables = network([4, 4, 4], [4, 4])
    topology = built(tables)
    names, routes = failed(topology, count, 1)
    goal = np.random.default_rng(3).permutation(64)
    while (goal == np.arange(64)).any():
        goal = np.random.default_rng(int(goal[0])).permutation(64)
    size = 512 * 1024
    result = run(tables, goal.tolist(), size, names)
    most = most_flits(topology, routes.allowed, goal.tolist())
    windows = result.windows
    arriving = np.asarray(windows.counts["flits"])[:, topology.links + 64 :].sum(axis=1) / windows.length
    steady = arriving[4 : int(0.7 * size / FLIT / windows.length)].mean()
    assert least * most <= steady <= most * 1.001
