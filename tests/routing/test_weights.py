"""Weights of routes against closed forms, and against a linear program with a commodity for each NPU."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.routing import Graph, Relation, nca, up_down, weights
from pyxsim.routing.degraded import Degraded, degraded
from pyxsim.routing.graph import FAR
from pyxsim.routing.weights import ByCapacity, ByFlow, concurrent_flow, weights_of
from tests.examples import part_of

few = settings(max_examples=part_of(150), deadline=None)


def tree(leaves: int, spines: int, *more: tuple[int, int]) -> Relation:
    """Leaves with an NPU each below spines; `more`: further cables (leaf, spine)."""
    pairs = [(leaf, leaves + spine) for leaf in range(leaves) for spine in range(spines)]
    pairs += [(leaf, leaves + spine) for leaf, spine in more]
    links = [ends for a, b in pairs for ends in ((a, b), (b, a))]
    return nca(Graph.of(links, home=np.arange(leaves)), [0] * leaves + [1] * spines)


def three_levels() -> Relation:
    """Two pods of two leaves (0, 1; 2, 3) and two spines (4, 5; 6, 7), and two cores (8, 9) above all spines."""
    pairs = [(leaf, spine) for pod in (0, 2) for leaf in (pod, pod + 1) for spine in (pod + 4, pod + 5)]
    pairs += [(spine, core) for spine in (4, 5, 6, 7) for core in (8, 9)]
    links = [ends for a, b in pairs for ends in ((a, b), (b, a))]
    return nca(Graph.of(links, home=np.arange(4)), [0] * 4 + [1] * 4 + [2] * 2)


def shares(relation: Relation) -> dict[tuple[int, int, int], float]:
    """(router, next router, destination): the share of packets, added up over parallel links."""
    found: dict[tuple[int, int, int], float] = {}
    for link, goal, share in zip(*weights_of(relation), strict=True):
        key = int(relation.link_src[link]), int(relation.link_dst[link]), int(goal)
        found[key] = found.get(key, 0.0) + share
    return found


def around(relation: Relation, down: list[int], rule: Any = None) -> Degraded:
    rule = rule or ByCapacity(np.ones(relation.links))
    return degraded(relation, np.array(down, np.int64), "least", weights=rule)


def link_of(relation: Relation, src: int, dst: int) -> int:
    return int(np.flatnonzero((relation.link_src == src) & (relation.link_dst == dst))[0])


def test_a_spine_with_half_of_its_links_up_gets_half() -> None:
    relation = three_levels()
    # Spine 4 loses its cable to core 9: for pods 2 and 3 it has one uplink of two, spine 5 both.
    routes = around(relation, [link_of(relation, 4, 9)])
    found = shares(routes.relation)
    # To leaf 2: spines 6 and 7 have capacity 1, of which both cores and leaf 3 have a third each. So cores have 2/3;
    # 4 and 5 share that of core 8, 5 has all of core 9. So 4 has 1/3, 5 has 1, shared by two leaves: 1 to 3.
    assert found[0, 4, 2] == pytest.approx(1 / 4, abs=1e-4)
    assert found[0, 5, 2] == pytest.approx(3 / 4, abs=1e-4)
    assert found[5, 8, 2] == pytest.approx(1 / 3, abs=1e-4)
    # To leaf 1, spine 4 is shared by leaf 0 and core 8, spine 5 by leaf 0 and both cores: 1/2 to 1/3.
    assert found[0, 4, 1] == pytest.approx(3 / 5, abs=1e-4)


def test_weights_follow_bandwidth_and_parallel_links() -> None:
    # Leaf 2 loses its cable to spine 5; leaf 1 has two cables to spine 4, and one to spine 5 of a quarter.
    relation = tree(3, 3, (1, 1))
    bandwidth = np.ones(relation.links)
    slow = link_of(relation, 5, 1)
    bandwidth[slow] = 0.25
    routes = around(relation, [link_of(relation, 2, 5)], ByCapacity(bandwidth))
    found = shares(routes.relation)
    # To leaf 1: spine 3 has 1, which leaves 0 and 2 share; spine 4 has 2, likewise; spine 5 has 1/4, of leaf 0 only.
    assert found[0, 3, 1] == pytest.approx(0.5 / 1.75, abs=1e-4)
    assert found[0, 4, 1] == pytest.approx(1.0 / 1.75, abs=1e-4)
    assert found[0, 5, 1] == pytest.approx(0.25 / 1.75, abs=1e-4)
    assert found[2, 4, 1] == pytest.approx(1.0 / 1.5, abs=1e-4)
    assert (2, 5, 1) not in found


def test_sets_of_destinations_are_separate_and_begin_differently() -> None:
    relation = tree(4, 3)
    table = around(relation, [0]).relation
    several = np.asarray(table.link) <= -2
    numbers = np.asarray(table.link)[several]
    assert len(np.unique(numbers)) == len(numbers)
    first = table.set_link[table.set_start[:-1]]
    assert len(np.unique(first[relation.link_src[first] == 1])) > 1


def loads(routes: Degraded, demand: FloatArray) -> FloatArray:
    """float64[links]: flits per unit of demand if routers divide it by their weights."""
    table = routes.relation
    homes = np.unique(table.home)
    share = routes.allowed.astype(float)
    link, goal, part = weights_of(table)
    share[link, np.searchsorted(homes, goal)] = part
    load = np.zeros(table.links)
    for number, home in enumerate(homes.tolist()):
        inside = np.zeros(table.routers)
        inside[homes] = np.where(routes.hops[homes, number] < FAR, demand[:, number], 0)
        inside[home] = 0
        for router in np.argsort(-routes.hops[:, number], kind="stable").tolist():
            if router == home or not inside[router]:
                continue
            out = np.flatnonzero((table.link_src == router) & routes.allowed[:, number])
            flow = inside[router] * share[out, number]
            load[out] += flow
            np.add.at(inside, table.link_dst[out], flow)
    return load


@st.composite
def networks(draw: st.DrawFn) -> tuple[Relation, IntArray]:
    kind = draw(st.integers(0, 2))
    if kind == 0:
        relation = tree(draw(st.integers(2, 5)), draw(st.integers(2, 4)))
    elif kind == 1:
        relation = three_levels()
    else:
        graph = nx.gnp_random_graph(draw(st.integers(3, 8)), 0.5, seed=draw(st.integers(0, 99)))
        graph.add_edges_from(nx.path_graph(len(graph)).edges)
        relation = up_down(Graph.of([ends for a, b in graph.edges for ends in ((a, b), (b, a))]))
    down = draw(st.lists(st.integers(0, relation.links - 1), max_size=5, unique=True))
    return relation, np.array(down, np.int64)


@few
@given(networks(), st.integers(0, 99))
def test_shares_add_up(case: tuple[Relation, IntArray], seed: int) -> None:
    relation, down = case
    bandwidth = np.random.default_rng(seed).integers(1, 5, relation.links).astype(float)
    routes = degraded(relation, down, "least", weights=ByCapacity(bandwidth))
    link, goal, share = weights_of(routes.relation)
    assert (share > 0).all()
    sums: dict[tuple[int, int], float] = {}
    for router, home, part in zip(relation.link_src[link].tolist(), goal.tolist(), share.tolist(), strict=True):
        sums[router, home] = sums.get((router, home), 0.0) + part
    assert list(sums.values()) == pytest.approx([1.0] * len(sums))
    assert routes.allowed[link, np.searchsorted(np.unique(relation.home), goal)].all()
    # The blocks in which the table is computed change nothing.
    whole = weights._TOGETHER
    weights._TOGETHER = 1
    try:
        again = degraded(relation, down, "least", weights=ByCapacity(bandwidth))
    finally:
        weights._TOGETHER = whole
    assert again.relation.set_weight.tolist() == routes.relation.set_weight.tolist()


@few
@given(networks(), st.integers(0, 99))
def test_weights_by_flow_reach_the_maximum(case: tuple[Relation, IntArray], seed: int) -> None:
    pytest.importorskip("scipy.optimize")
    relation, down = case
    plain = degraded(relation, down, "least")
    homes = np.unique(relation.home)
    demand = np.random.default_rng(seed).integers(0, 3, (len(homes), len(homes))).astype(float)
    np.fill_diagonal(demand, 0)
    ones = np.ones(relation.links)
    rate, flow = concurrent_flow(relation, plain.allowed, plain.hops, ones, demand)
    wanted = np.where(plain.hops[homes] < FAR, demand, 0)
    if not wanted.any():
        assert rate == 0
        assert not flow.any()
        return
    assert not flow[~plain.allowed].any()
    assert flow.sum(axis=1).max() <= 1 + 1e-6
    routes = degraded(relation, down, "least", weights=ByFlow(ones, demand))
    # Weights are rounded to parts of 2^16.
    assert 1 / loads(routes, wanted).max() == pytest.approx(rate, rel=1e-3)


@few
@given(networks(), st.randoms(use_true_random=False))
def test_the_maximum_is_that_with_a_commodity_for_each_source(case: tuple[Relation, IntArray], random: Any) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    relation, down = case
    routes = degraded(relation, down, "least")
    homes = np.unique(relation.home)
    count = len(homes)
    goal = list(range(count))
    random.shuffle(goal)
    pairs = [(s, d) for s, d in enumerate(goal) if s != d and routes.hops[homes[s], d] < FAR]
    demand = np.zeros((count, count))
    for source, destination in pairs:
        demand[source, destination] = 1
    if not pairs:
        return
    rate, _ = concurrent_flow(relation, routes.allowed, routes.hops, np.ones(relation.links), demand)
    # Variables: the rate, then the flow of each pair on each link.
    size = 1 + len(pairs) * relation.links
    rows, load = [], np.zeros((relation.links, size))
    for number, (source, destination) in enumerate(pairs):
        first = 1 + number * relation.links
        load[np.arange(relation.links), first + np.arange(relation.links)] = 1
        for router in range(relation.routers):
            row = np.zeros(size)
            if router != homes[destination]:
                row[first + np.flatnonzero(relation.link_src == router)] += 1
                row[first + np.flatnonzero(relation.link_dst == router)] -= 1
                row[0] = -1 if router == homes[source] else 0
                rows.append(row)
    bounds = [(0, None)] + [
        (0, None if routes.allowed[link, destination] else 0)
        for _, destination in pairs
        for link in range(relation.links)
    ]
    cost = np.zeros(size)
    cost[0] = -1
    found = optimize.linprog(
        cost, A_ub=load, b_ub=np.ones(relation.links), A_eq=np.array(rows), b_eq=np.zeros(len(rows)), bounds=bounds
    )
    assert rate == pytest.approx(-found.fun, rel=1e-6)


def test_a_program_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy.optimize")
    relation = tree(4, 3)
    routes = degraded(relation, np.array([0]), "least")
    monkeypatch.setattr(weights, "MOST_VARIABLES", 5)
    demand = np.ones((4, 4))
    with pytest.raises(InputError, match="a linear program for the weights has"):
        concurrent_flow(relation, routes.allowed, routes.hops, np.ones(relation.links), demand)


def test_routers_without_demand_have_weights_by_capacity() -> None:
    pytest.importorskip("scipy.optimize")
    relation = three_levels()
    demand = np.zeros((4, 4))
    demand[0, 2] = 1
    ones = np.ones(relation.links)
    down = [link_of(relation, 4, 9)]
    found = shares(around(relation, down, ByFlow(ones, demand)).relation)
    by_capacity = shares(around(relation, down, ByCapacity(ones)).relation)
    assert found[1, 4, 3] == by_capacity[1, 4, 3]
    # A single demand fills both links of its leaf, and no spine may get more than its links pass.
    assert found[0, 4, 2] == pytest.approx(1 / 2, abs=1e-3)
