"""Graphs of capacities, and their symmetries."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.topology.capacity_graph import CapacityGraph, Classes, symmetries
from pyxsim.topology.max_flow import FlowGraph

Link = tuple[int, int, int]
LINKS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 9)), min_size=1, max_size=24)


def graph_of(links: list[Link], nodes: int) -> CapacityGraph:
    src, dst, width = zip(*links, strict=True)
    return CapacityGraph.of(nodes, src, dst, width)


def classes(graph: CapacityGraph, npus: int, shape: tuple[int, ...] = ()) -> int:
    found = Classes(npus)
    for mapping in symmetries(graph, np.arange(npus), shape):
        found.join(mapping[:npus])
    return found.count


def test_parallel_links_add_up_and_widths_are_exact() -> None:
    graph = CapacityGraph.of(3, [0, 0, 1, 2, 1], [1, 1, 2, 2, 0], [Fraction(1, 3), Fraction(1, 2), 5, 7, 0])
    assert list(zip(graph.src.tolist(), graph.dst.tolist(), strict=True)) == [(0, 1), (1, 2)]
    assert [width * graph.unit for width in graph.width] == [Fraction(5, 6), 5]
    assert [value * graph.unit for value in graph.into] == [0, Fraction(5, 6), 5]


def test_widths_beyond_64_bits() -> None:
    graph = CapacityGraph.of(2, [0, 0, 1], [1, 1, 0], [2**63, 1, 3])
    assert [int(width * graph.unit) for width in graph.width] == [2**63 + 1, 3]


@given(LINKS)
def test_reversed_links(links: list[Link]) -> None:
    graph = graph_of(links, 8)
    both = graph_of([*links, *((b, a, width) for a, b, width in links)], 8)
    assert both.reverse is both
    assert graph.reverse.into == [
        sum(width for (a, b), width in _sums(links).items() if a == node) // graph.unit for node in range(8)
    ]


def _sums(links: list[Link]) -> dict[tuple[int, int], int]:
    sums: dict[tuple[int, int], int] = {}
    for a, b, width in links:
        if a != b:
            sums[a, b] = sums.get((a, b), 0) + width
    return sums


@given(LINKS, st.integers(2, 8))
def test_what_is_found_is_a_symmetry(links: list[Link], npus: int) -> None:
    ring = [(node, (node + 1) % 8, 1) for node in range(8)]
    graph = graph_of([*links, *ring], 8)
    known = {(a, b): width for a, b, width in zip(graph.src.tolist(), graph.dst.tolist(), graph.width, strict=True)}
    for mapping in symmetries(graph, np.arange(npus)):
        assert sorted(mapping.tolist()) == list(range(8))
        assert sorted(mapping[:npus].tolist()) == list(range(npus))
        assert {(int(mapping[a]), int(mapping[b])): width for (a, b), width in known.items()} == known


def both_ways(links: list[Link]) -> list[Link]:
    return [way for a, b, width in links for way in ((a, b, width), (b, a, width))]


def test_networks_whose_npus_are_all_alike() -> None:
    ring = both_ways([(npu, (npu + 1) % 12, 1) for npu in range(12)])
    assert classes(graph_of(ring, 12), 12) == 1
    # Two switches of six NPUs, each with a link to two spines.
    tree = both_ways(
        [*((npu, 12 + npu // 6, 4) for npu in range(12)), *((12 + a, 14 + b, 9) for a in (0, 1) for b in (0, 1))]
    )
    assert classes(graph_of(tree, 16), 12) == 1
    # With a narrow link, its NPU is alone, and those behind the same switch are not like the others.
    narrow = both_ways([(0, 12, 1)])
    slow = [link for link in tree if link not in both_ways([(0, 12, 4)])] + narrow
    assert classes(graph_of(slow, 16), 12) > 2
    torus = both_ways([(x + 4 * y, (x + 1) % 4 + 4 * y, 1) for x in range(4) for y in range(3)])
    torus += both_ways([(x + 4 * y, x + 4 * ((y + 1) % 3), 2) for x in range(4) for y in range(3)])
    assert classes(graph_of(torus, 12), 12, (4, 3)) == 1


@pytest.mark.parametrize("few", [0, 10**6])
@given(LINKS, st.integers(0, 7), st.integers(0, 7))
def test_the_maximum_flow(few: int, links: list[Link], source: int, sink: int) -> None:
    """Of networkx, with SciPy and without; what is behind the cut is the smallest such set."""
    if source == sink:
        return
    graph = graph_of(links, 8)
    peer = nx.DiGraph()
    peer.add_nodes_from(range(8))
    for a, b, width in zip(graph.src.tolist(), graph.dst.tolist(), graph.width, strict=True):
        peer.add_edge(a, b, capacity=width)
    flows = FlowGraph(8, graph.src, graph.dst)
    by = flows._by_search if few else flows._by_scipy
    value, behind = by(graph.width, source, sink)
    wanted, _ = nx.minimum_cut(peer, source, sink)
    assert value == wanted == graph.width_into(behind)
    assert behind[sink]
    assert not behind[source]
    assert behind.tolist() == flows._by_search(graph.width, source, sink)[1].tolist()
