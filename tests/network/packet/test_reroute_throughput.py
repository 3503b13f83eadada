"""Throughput around links that are down: within the minimum cut, and near the maximum flow over the same paths."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

import pyxsim
from pyxsim.errors import InputError
from pyxsim.routing.degraded import degraded
from pyxsim.runner.prepare import prepare
from pyxsim.settings import load_experiment
from validation.failed_links import (
    FLIT,
    LARGE,
    SMALL,
    UNEVEN,
    Tree,
    built,
    failed,
    permutation,
    permutation_of,
    tree_network,
)
from validation.max_flow import equal_rate, total_rate

WEIGHTED = {"select": "weighted"}


@pytest.mark.parametrize(("count", "seed"), [(1, 0), (3, 1), (5, 2)])
def test_no_cut_is_crossed(count: int, seed: int) -> None:
    tables = tree_network(Tree((4, 4), (4,)), **WEIGHTED if count == 3 else {})
    topology = built(tables)
    faults, routes = failed(topology, count, seed)
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
    message = [{"src": npu, "dst": npu + 8, "size": f"{size} B"} for npu in range(8)]
    result = pyxsim.run({"network": tables, "message": message, "faults": faults})
    assert 8 * size / FLIT / result.time_cycles <= cut
    for fault in faults:
        assert result.totals["flits"][list(result.links.name).index(fault["link"])] == 0


@pytest.mark.parametrize(("tree", "count", "seed"), [(SMALL, 8, 1), (UNEVEN, 4, 2)])
def test_each_pair_of_a_permutation_has_the_rate_of_the_maximum_flow(tree: Tree, count: int, seed: int) -> None:
    pytest.importorskip("scipy.optimize")
    rates = permutation(tree, count, seed, 1 << 18, "weighted, messages")
    assert rates.pairs.min() / rates.equal >= 0.98
    assert rates.pairs.max() / rates.equal <= 1.01  # NPUs send no faster


@pytest.mark.slow
@pytest.mark.parametrize("goal_seed", [3, 7, 11])
@pytest.mark.parametrize(("tree", "count"), [(SMALL, 1), (SMALL, 8), (UNEVEN, 4), (UNEVEN, 12), (LARGE, 64)])
def test_other_draws_have_it_too(tree: Tree, count: int, goal_seed: int) -> None:
    pytest.importorskip("scipy.optimize")
    topology, compared = built(tree_network(tree)), 0
    for seed in range(1, 2 if tree is LARGE else 6):
        draw = 10 * goal_seed + seed
        if not equal_rate(topology, failed(topology, count, draw)[1].allowed, permutation_of(topology.npus, goal_seed)):
            continue  # a pair is cut off
        rates = permutation(tree, count, draw, 1 << 18, "weighted, messages", goal_seed=goal_seed)
        assert rates.pairs.min() / rates.equal >= 0.98, draw
        compared += 1
    assert compared


def test_the_maximum_total_flow_counts_pairs_that_nothing_limits() -> None:
    pytest.importorskip("scipy.optimize")
    # Both leaves have one uplink of two left, for two of four NPUs; the others send within their leaf.
    topology = built(tree_network(Tree((4, 2), (2,))))
    link = topology.link_name.index("level1:(0)->(2)")
    allowed = degraded(topology.relation, np.array([link]), "least").allowed
    goal = [4, 5, 3, 2, 0, 1, 7, 6]
    assert equal_rate(topology, allowed, goal) == pytest.approx(1 / 2)
    assert total_rate(topology, allowed, goal) == pytest.approx((1 + 2) / 4)


def test_packets_follow_the_weights() -> None:
    # Leaf 0 loses one of four cables, in a tree of four leaves: to leaf 0 routers use three spines, else four.
    tables = tree_network(Tree((4, 4), (4,)), **WEIGHTED)
    topology = built(tables)
    fault = {"link": "level1:(0)->(4)", "down": True}
    size = 3 * 4 * 100 * 256  # 1200 packets
    result = pyxsim.run({"network": tables, "message": [{"src": 15, "dst": 0, "size": f"{size} B"}], "faults": [fault]})
    flits = {topology.link_name[n]: int(count) for n, count in enumerate(result.totals["flits"][: topology.links])}
    assert [flits[f"level1:(3)->({spine})"] for spine in (4, 5, 6, 7)] == [0, 1600, 1600, 1600]
    table = result.backend_tables["route_weights"].columns
    assert set(table["epoch"].tolist()) == {0}
    mine = (table["destination"] == 0) & (np.asarray(topology.link_src)[table["link"]] == 3)
    assert table["weight"][mine] == pytest.approx([1 / 3] * 3, abs=1e-4)
    assert sorted(topology.link_name[link] for link in table["link"][mine]) == [
        f"level1:(3)->({spine})" for spine in (5, 6, 7)
    ]


def test_weights_by_messages_follow_their_sizes() -> None:
    pytest.importorskip("scipy.optimize")
    # Two links are left to leaf 1. The maximum flow fills both, with half of the packets each.
    tables = tree_network(Tree((2, 2), (3,)), select="weighted", weights="messages")
    message = [{"src": 0, "dst": 2, "size": "512 KiB"}, {"src": 1, "dst": 3, "size": "256 KiB"}]
    fault = {"link": "level1:(1)->(4)", "down": True}
    result = pyxsim.run({"network": tables, "message": message, "faults": [fault]})
    topology = built(tables)
    flits = {topology.link_name[n]: int(count) for n, count in enumerate(result.totals["flits"][: topology.links])}
    parts = [flits[f"level1:({spine})->(1)"] for spine in (2, 3, 4)]
    assert sum(parts) == 768 * 1024 // FLIT
    assert sorted(parts)[0] == 0
    assert max(parts) - sorted(parts)[1] <= 8


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ({"network": {"reroute": {"weights": "capacity"}}}, "network.reroute.weights: has no effect"),
        ({"network": {"reroute": {"select": "wieghted"}}}, "did you mean 'weighted'"),
        ({"network": {"router": {"ordered": True}, "reroute": WEIGHTED}}, "network.reroute.select: packets that stay"),
        (
            {
                "network": {"reroute": {"select": "weighted", "weights": "messages"}},
                "message": [],
                "collective": {"kind": "all-reduce", "size": "1 KiB"},
            },
            "network.reroute.weights: there are no messages",
        ),
    ],
)
def test_what_weights_exclude(tables: dict[str, Any], problem: str) -> None:
    whole = {"message": [{"src": 0, "dst": 1, "size": "1 B"}], "faults": [{"link": "level1:(0)->(4)", "down": True}]}
    network = {"topology": "folded-clos", "options": {"children": [4, 4], "parents": [4]}, "latency": "20 ns"}
    whole |= {key: value for key, value in tables.items() if key != "network"}
    with pytest.raises(InputError, match=problem):
        prepare(load_experiment({**whole, "network": {"bandwidth": "64 GB/s", **network, **tables["network"]}}, ()))


def test_random_permutations_have_no_fixed_point() -> None:
    assert all(goal != npu for npu, goal in enumerate(permutation_of(8, 5)))
