"""Routes around links that are down, against graphs of networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.arrays import BoolArray
from pyxsim.core.engine_options import Routes
from pyxsim.routing import Graph, Relation, dependencies, nca, up_down
from pyxsim.routing.degraded import (
    BY_RANKS,
    FROM_CENTER,
    allowed_by,
    degraded,
    discarding,
    mixed_cycle,
    prove_degraded,
    usable,
    without,
)
from pyxsim.routing.graph import FAR
from tests.examples import part_of

few = settings(max_examples=part_of(60), deadline=None)


def tree(leaves: int, spines: int) -> Relation:
    """Leaves with an NPU each below spines."""
    pairs = [(leaf, leaves + spine) for leaf in range(leaves) for spine in range(spines)]
    links = [ends for a, b in pairs for ends in ((a, b), (b, a))]
    graph = Graph.of(links, home=np.arange(leaves))
    return nca(graph, [0] * leaves + [1] * spines)


@st.composite
def relations(draw: st.DrawFn) -> Relation:
    if draw(st.booleans()):
        return tree(draw(st.integers(2, 5)), draw(st.integers(1, 4)))
    size, seed = draw(st.integers(3, 9)), draw(st.integers(0, 99))
    graph = nx.gnp_random_graph(size, 0.5, seed=seed)
    graph.add_edges_from(nx.path_graph(size).edges)
    return up_down(Graph.of([ends for a, b in graph.edges for ends in ((a, b), (b, a))]))


cases = relations().flatmap(
    lambda r: st.tuples(st.just(r), st.lists(st.integers(0, r.links - 1), max_size=6, unique=True))
)


def channels(relation: Relation, tables: list[BoolArray]) -> nx.DiGraph:
    """Every dependency of packets that follow any of the tables at each hop, link by link."""
    graph = nx.DiGraph()
    together = np.logical_or.reduce(tables)
    for a in range(relation.links):
        for b in np.flatnonzero(relation.link_src == relation.link_dst[a]).tolist():
            if (together[a] & together[b]).any():
                graph.add_edge(a, b)
    return graph


@few
@given(cases)
def test_connected_pairs_have_routes_that_cannot_deadlock(case: tuple[Relation, list[int]]) -> None:
    relation, down = case
    routes = degraded(relation, np.array(down, np.int64), "random")
    up = usable(relation, np.array(down, np.int64))
    left = nx.Graph()
    left.add_nodes_from(range(relation.routers))
    left.add_edges_from(zip(relation.link_src[up].tolist(), relation.link_dst[up].tolist(), strict=True))
    homes = np.unique(relation.home).tolist()
    for i, src in enumerate(homes):
        for j, dst in enumerate(homes):
            assert (routes.hops[src, j] < FAR) == nx.has_path(left, src, dst), (src, dst)
            # Every way that the table allows ends at the destination, over links that are up.
            routers, hops = {src}, 0
            while routers - {dst} and routes.hops[src, j] < FAR:
                taken = [link for link in range(relation.links) if routes.allowed[link, j] and up[link]]
                routers = {int(relation.link_dst[k]) for k in taken if relation.link_src[k] in routers - {dst}}
                hops += 1
                assert hops <= routes.hops[src, j]
            assert i != j or hops == 0
    assert not routes.allowed[~up].any()
    assert nx.is_directed_acyclic_graph(channels(relation, [routes.allowed]))
    prove_degraded(routes)


@few
@given(cases)
def test_mixed_cycles_are_those_of_the_graph(case: tuple[Relation, list[int]]) -> None:
    relation, down = case
    before = allowed_by(relation)
    assert before is not None
    for order in (relation, Relation(**{**vars(relation), "ranks": np.zeros(0, np.int32)})):
        after = degraded(order, np.array(down, np.int64), "random").allowed
        expected = not nx.is_directed_acyclic_graph(channels(relation, [before, after]))
        assert mixed_cycle(relation, [before, after]) == expected


def test_the_table_of_a_relation_has_its_dependencies() -> None:
    relation = tree(4, 3)
    table = allowed_by(relation)
    assert table is not None
    mine = set(channels(relation, [table]).edges)
    proved = {(a[0], b[0]) for a, b in dependencies(relation).edges()}
    # The table includes routers that no packet visits.
    assert proved <= mine


def test_ranks_keep_a_tree_a_tree_while_they_can() -> None:
    relation = tree(3, 2)  # links 4 leaf + 2 spine up, and the next one down
    assert degraded(relation, np.array([0]), "random").routing == BY_RANKS
    # Leaf 0 loses spine 3 and leaf 1 loses spine 4: both still reach each other, by leaf 2 only.
    routes = degraded(relation, np.array([0, 6]), "random")
    assert routes.routing == FROM_CENTER
    assert routes.hops[0, 1] == 4


def test_npus_that_are_cut_off() -> None:
    routes = degraded(tree(4, 2), np.array([0, 2]), "random")
    assert routes.cut_off.tolist() == [0]
    assert int((routes.hops[:4] >= FAR).sum()) == 6


@pytest.mark.parametrize("select", ["least", "first"])
def test_packets_without_a_way_are_discarded(select: str) -> None:
    relation = tree(3, 2)
    routes = degraded(relation, np.array([0, 2]), select)  # type: ignore[arg-type]
    table = discarding(relation=routes.relation, discard=np.arange(100, 105, dtype=np.int32))
    entry = routes.relation.offset[:, 0][:, None] + np.arange(3)
    # No one reaches leaf 0, it reaches no one, and no packet for itself is routed there.
    assert table[entry[1:, 0]].tolist() == [101, 102, 103, 104]
    assert table[entry[0, 1:]].tolist() == [100, 100]


def test_broken_links_leave_sets_and_sinks() -> None:
    relation = tree(2, 3)
    routes = Routes(
        home=relation.home,
        digits=relation.digits,
        own=relation.own,
        offset=relation.offset,
        link=relation.link,
        vc_class=relation.vc_class,
        set_start=relation.set_start,
        set_link=relation.set_link,
        set_class=relation.set_class,
        plane_select=relation.plane_select,
        plane_escape=relation.plane_escape,
    )
    sinks = np.arange(50, 55, dtype=np.int32)
    up = np.flatnonzero((relation.link_src == 0) & (relation.link_dst >= 2))
    fewer = without(relation.routers, routes, up[:1], sinks)
    assert sorted(fewer.set_link.tolist()) == sorted(set(relation.set_link.tolist()) - {int(up[0])})
    none = without(relation.routers, routes, up, sinks)
    assert none.link[relation.offset[0, 0] + 1] == 50
    assert none.vc_class[relation.offset[0, 0] + 1] == 0
    # A spine has one link to each leaf.
    down = np.flatnonzero((relation.link_src == 3) & (relation.link_dst == 1))
    assert without(relation.routers, routes, down, sinks).link[relation.offset[3, 0] + 1] == 53
