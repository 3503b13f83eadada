"""Routes over graphs: shortest paths, up*/down*, nearest common ancestors; against networkx and paths written out."""

from __future__ import annotations

import time
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError, UnreachableError
from pyxsim.routing import (
    EACH,
    LEAST,
    RANDOM,
    TWO,
    Graph,
    Relation,
    adaptive_up_down,
    expected_hops,
    minimal_adaptive,
    nca,
    prove,
    tie_random,
    ugal,
    up_down,
    valiant,
)
from pyxsim.routing.graph import distances, shortest
from tests.examples import part_of
from tests.routing.nets import grid
from tests.routing.slow import Slow, State


@st.composite
def connected(draw: st.DrawFn) -> Graph:
    """Connected graphs with links both ways, some of them parallel, and NPUs anywhere."""
    routers = draw(st.integers(1, 9))
    router = st.integers(0, routers - 1)
    ends = [(draw(st.integers(0, i - 1)), i) for i in range(1, routers)]
    ends += draw(st.lists(st.tuples(router, router).map(sorted).map(tuple), max_size=8))
    links = [(a, b) for a, b in ends if a != b]
    home = draw(st.lists(router, min_size=1, max_size=6))
    return Graph.of([*links, *((b, a) for a, b in links)], home)


def nx_graph(graph: Graph) -> nx.MultiDiGraph:
    net = nx.MultiDiGraph()
    net.add_nodes_from(range(graph.routers))
    net.add_edges_from(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    return net


def paths(relation: Relation, src: int, dst: int, plane: int = 0) -> list[list[int]]:
    """The links of every path on a plane."""
    slow = Slow(relation, [], whole=False)
    found, front = [], [(State(int(relation.home[src]), None, plane, -1, dst, plane), [])]  # type: ignore[var-annotated]
    while front:
        state, links = front.pop()
        steps = slow.step(state)
        if not steps:
            found.append(links)
        front += [(after, [*links, channel[0]]) for channel, after in steps]
    return found


@settings(max_examples=part_of(60))
@given(connected())
def test_distances_are_those_of_networkx(graph: Graph) -> None:
    away, homes = distances(graph), np.unique(graph.home)
    net = nx_graph(graph)
    for column, home in enumerate(homes.tolist()):
        for router, hops in _away(net, home).items():
            assert away[router, column] == hops


def _away(net: nx.MultiDiGraph, home: int) -> dict[int, int]:
    return dict(nx.single_source_shortest_path_length(net.reverse(), home))


@settings(max_examples=part_of(60))
@given(connected())
def test_all_shortest_paths(graph: Graph) -> None:
    relation = shortest(graph)
    net = nx_graph(graph)
    for src in range(relation.npus):
        for dst in range(relation.npus):
            routers = {(int(graph.home[src]), *graph.dst[links].tolist()) for links in paths(relation, src, dst)}
            expected = nx.all_shortest_paths(nx.DiGraph(net), int(graph.home[src]), int(graph.home[dst]))
            assert routers == {tuple(path) for path in expected}


@settings(max_examples=part_of(100))
@given(connected(), st.data())
def test_up_and_then_down(graph: Graph, data: st.DataObject) -> None:
    root = data.draw(st.integers(-1, graph.routers - 1))
    relation = up_down(graph, root)
    prove(relation)
    net = nx_graph(graph)
    eccentricity = {r: max(_away(net, r).values()) for r in net}
    if root == -1:
        root = min(eccentricity, key=lambda r: (eccentricity[r], r))
    hops = _away(net, root)

    def goes_up(link: int) -> bool:
        a, b = int(graph.src[link]), int(graph.dst[link])
        return (hops[b], b) < (hops[a], a)

    down = nx.DiGraph()
    down.add_nodes_from(range(graph.routers))
    down.add_edges_from(
        (int(a), int(b)) for link, (a, b) in enumerate(zip(graph.src, graph.dst, strict=True)) if not goes_up(link)
    )
    assert nx.is_directed_acyclic_graph(down)
    for src in range(relation.npus):
        for dst in range(relation.npus):
            ends = int(graph.home[src]), int(graph.home[dst])
            found = paths(relation, src, dst)
            # All are equally long, none turns up again, and where there is a way down it is the shortest.
            assert len({len(links) for links in found}) == 1
            for links in found:
                ups = [goes_up(link) for link in links]
                assert ups == sorted(ups, reverse=True)
            if nx.has_path(down, *ends):
                assert len(found[0]) == nx.shortest_path_length(down, *ends)
    first = up_down(graph, root, "first")
    assert first.deterministic
    np.testing.assert_allclose(expected_hops(first), expected_hops(relation))


@settings(max_examples=part_of(30))
@given(st.integers(1, 12), st.integers(0, 2**32))
def test_in_a_tree_there_is_one_way(routers: int, seed: int) -> None:
    tree = nx.random_labeled_tree(routers, seed=seed)
    graph = Graph.of([*tree.edges, *((b, a) for a, b in tree.edges)], np.arange(routers))
    length = dict(nx.all_pairs_shortest_path_length(tree))
    expected = [[length[a][b] for b in range(routers)] for a in range(routers)]
    for relation in (up_down(graph), shortest(graph), adaptive_up_down(graph)):
        np.testing.assert_allclose(expected_hops(relation), expected)
    prove(shortest(graph))


@settings(max_examples=part_of(40))
@given(connected())
def test_what_is_made_of_graphs(graph: Graph) -> None:
    prove(adaptive_up_down(graph), whole=True)
    base = up_down(graph)
    assert tie_random(base) is base
    for made in (valiant, ugal):
        prove(made(base))


def test_choices() -> None:
    square = [(a, b) for a, b in [(0, 1), (1, 2), (2, 3), (3, 0)] for a, b in [(a, b), (b, a)]]
    graph = Graph.of(square)
    for word, number in (("random", RANDOM), ("least", LEAST), ("two", TWO)):
        relation = shortest(graph, word)  # type: ignore[arg-type]
        assert relation.plane_select.tolist() == [number]
        assert len(paths(relation, 0, 2)) == 2
    assert len(paths(shortest(graph, "first"), 0, 2)) == 1
    adaptive = adaptive_up_down(graph, adaptive_vcs=2, equal=True)
    assert adaptive.plane_select.tolist() == [EACH, RANDOM]
    assert adaptive.plane_equal.tolist() == [1, 0]
    assert adaptive.fixed_vcs == (1, 2)
    with pytest.raises(InputError, match="allowed: first, hash, random, least, two; did you mean 'random'"):
        up_down(graph, select="randm")  # type: ignore[arg-type]


def test_hashed_ways_are_always_the_same_and_spread() -> None:
    """A leaf with 16 links up, and 64 destinations elsewhere: one link for each; how many get which is as if drawn."""
    leaves, tops, level = range(65), range(65, 81), [0] * 65 + [1] * 16
    graph = Graph.of([pair for a in leaves for b in tops for pair in [(a, b), (b, a)]], home=leaves)
    ways = {}
    for seed in (0, 1, 2):
        relation = nca(graph, level, "hash", seed)
        taken = [paths(relation, 0, goal) for goal in range(1, 65)]
        assert all(len(each) == 1 for each in taken), "no packet has a choice"
        ways[seed] = [next(iter(each))[0] for each in taken]
        counts = np.bincount(np.unique(ways[seed], return_inverse=True)[1])
        # 64 balls in 16 boxes: no box with more than 14 but once in 10 000 times, and some are not alike.
        assert counts.max() <= 14
        assert len(counts) >= 12
        assert counts.std() > 0.5
        prove(relation)
    assert ways[0] != ways[1] != ways[2]
    again = nca(graph, level, "hash", 1)
    assert [next(iter(paths(again, 0, goal)))[0] for goal in range(1, 65)] == ways[1]


def test_only_the_first_link_up() -> None:
    """Two leaves below two switches: one route each instead of two; links down are not affected."""
    graph = Graph.of([(a, b) for a, b in ((0, 2), (0, 3), (1, 2), (1, 3)) for a, b in ((a, b), (b, a))], home=[0, 1])
    level = [0, 0, 1, 1]
    assert len(paths(nca(graph, level), 0, 1)) == 2
    relation = nca(graph, level, only_first_up=True)
    assert [graph.name[link] for link in next(iter(paths(relation, 0, 1)))] == ["(0)->(2)", "(2)->(1)"]
    assert len(paths(relation, 0, 1)) == 1
    prove(relation)


def test_npus_share_routers_and_switches_have_none() -> None:
    # Two leaves below a switch without an NPU.
    graph = Graph.of([(0, 2), (2, 0), (1, 2), (2, 1)], [0, 0, 1, 1])
    relation = up_down(graph, root=2)
    assert relation.npus == 4
    assert relation.digits.ravel().tolist() == [0, 0, 1, 1]
    assert relation.route(0, 1) == []
    assert [relation.link_name[link] for link, _ in relation.route(0, 3)] == ["(0)->(2)", "(2)->(1)"]
    prove(relation)
    prove(valiant(relation))


@pytest.mark.parametrize(
    ("links", "made", "words"),
    [
        ([(0, 1), (1, 2), (2, 0)], up_down, r"\(0\)->\(1\) has no opposite link"),
        ([(0, 1), (1, 0)], lambda g: up_down(g, root=5), r"unknown router 5; allowed: 0 to 1, or -1"),
        ([(0, 1), (1, 0)], lambda g: nca(g, [0, 0]), r"link \(0\)->\(1\) connects two routers of one level"),
    ],
)
def test_graphs_that_do_not_fit(links: list[tuple[int, int]], made: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        made(Graph.of(links))


@pytest.mark.parametrize("made", [up_down, shortest, adaptive_up_down])
def test_graphs_in_two_parts(made: Any) -> None:
    with pytest.raises(UnreachableError, match="NPU 0 cannot reach NPU 2"):
        made(Graph.of([(0, 1), (1, 0), (2, 3), (3, 2)]))


def test_a_graph_without_links() -> None:
    relation = up_down(Graph.of([], [0, 0]))
    assert relation.route(0, 1) == []
    prove(relation)


def random_regular(routers: int, degree: int) -> Graph:
    edges = list(nx.random_regular_graph(degree, routers, seed=1).edges)
    return Graph.of([*edges, *((b, a) for a, b in edges)])


@pytest.mark.slow
def test_1024_routers_take_seconds() -> None:
    def seconds(work: Any) -> float:
        begin = time.process_time()
        work()
        return time.process_time() - begin

    graph = random_regular(1024, 8)
    made: list[Relation] = []
    assert seconds(lambda: made.append(up_down(graph))) < 3
    assert seconds(lambda: prove(made[0])) < 3
    assert seconds(lambda: made.append(adaptive_up_down(graph))) < 6
    assert seconds(lambda: prove(made[1], whole=True)) < 8
    torus = grid("ring", [32, 32])
    for relation in (tie_random(torus), valiant(torus)):
        assert seconds(lambda r=relation: prove(r)) < 1
    assert seconds(lambda: prove(minimal_adaptive(torus), whole=True)) < 6
