"""The concurrent flow: against a program with a flow for every pair, and closed forms."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.topology.capacity_graph import CapacityGraph
from pyxsim.topology.concurrent_flow import concurrent_flow, quick_time, time_of_lengths
from tests.examples import part_of

Link = tuple[int, int, int]


def graph_of(links: list[Link], nodes: int) -> CapacityGraph:
    src, dst, width = zip(*links, strict=True)
    return CapacityGraph.of(nodes, src, dst, width)


def by_all_pairs(graph: CapacityGraph, npus: int, demand: Any) -> float:
    """A flow for every pair of NPUs, in dense arrays: no source has its flows together, no symmetry is used."""
    from scipy.optimize import linprog

    pairs = [(a, b) for a in range(npus) for b in range(npus) if a != b]
    links = len(graph.width)
    count = len(pairs) * links + 1
    equal, wanted = [], []
    for number, (a, b) in enumerate(pairs):
        for node in range(graph.nodes):
            row = np.zeros(count)
            for link in range(links):
                row[number * links + link] += (graph.dst[link] == node) - float(graph.src[link] == node)
            equal.append(row)
            wanted.append(demand[a][b] * ((node == b) - (node == a)))
    below = np.zeros((links, count))
    for link in range(links):
        below[link, link : count - 1 : links] = 1
        below[link, -1] = -graph.width[link]
    cost = np.zeros(count)
    cost[-1] = 1
    return float(linprog(cost, below, np.zeros(links), np.array(equal), wanted).fun)


GRAPHS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 9)), max_size=10)


@given(GRAPHS, st.integers(2, 4), st.randoms(use_true_random=False))
@settings(max_examples=part_of(15))
def test_it_is_the_flow_of_all_pairs(links: list[Link], npus: int, random: Any) -> None:
    mine = [link for link in links if link[0] != link[1]] + [(node, (node + 1) % 5, 1) for node in range(5)]
    graph, members = graph_of(mine, 5), np.arange(npus)
    ones = 1 - np.eye(npus, dtype=np.int64)
    found = concurrent_flow(graph, members)
    assert found.exact
    assert float(found.time) == pytest.approx(by_all_pairs(graph, npus, ones), rel=1e-4)
    assert quick_time(graph, members) <= found.time * (1 + Fraction(1, 10**6))
    demand = np.array([[random.randrange(9) * (a != b) for b in range(npus)] for a in range(npus)])
    skewed = concurrent_flow(graph, members, demand)
    assert float(skewed.time) == pytest.approx(by_all_pairs(graph, npus, demand), rel=1e-4, abs=1e-9)


def both_ways(links: list[Link]) -> list[Link]:
    return [way for a, b, width in links for way in ((a, b, width), (b, a, width))]


@pytest.mark.parametrize(
    ("links", "npus", "time"),
    [
        # A ring of n: n^2 / 4 links for the blocks of an NPU, over its two links.
        (both_ways([(npu, (npu + 1) % 8, 1) for npu in range(8)]), 8, Fraction(8)),
        # A hypercube: n / 2 links in each of d dimensions, one of which it has in each.
        (both_ways([(a, a ^ bit, 1) for a in range(16) for bit in (1, 2, 4, 8) if a < a ^ bit]), 16, Fraction(8)),
        (both_ways([(a, b, 1) for a in range(6) for b in range(a)]), 6, Fraction(1)),
        (both_ways([(npu, 7, 2) for npu in range(7)]), 7, Fraction(6, 2)),
        # Two switches of four, and a link of 2 between them: 16 blocks each way.
        (both_ways([*((npu, 8 + npu // 4, 9) for npu in range(8)), (8, 9, 2)]), 8, Fraction(8)),
    ],
)
def test_closed_forms(links: list[Link], npus: int, time: Fraction) -> None:
    graph = graph_of(links, 1 + max(max(a, b) for a, b, _ in links))
    found = concurrent_flow(graph, np.arange(npus))
    assert found.exact
    assert found.time * graph.unit**-1 == time


@given(GRAPHS, st.integers(2, 5), st.data())
def test_any_lengths_are_a_bound(links: list[Link], npus: int, data: st.DataObject) -> None:
    mine = [link for link in links if link[0] != link[1]] + [(node, (node + 1) % 5, 1) for node in range(5)]
    graph = graph_of(mine, 5)
    lengths = data.draw(st.lists(st.integers(0, 9), min_size=len(graph.width), max_size=len(graph.width)))
    best = concurrent_flow(graph, np.arange(npus)).time
    assert time_of_lengths(graph, np.arange(npus), lengths) <= best * (1 + Fraction(1, 10**5))


def test_what_nothing_reaches() -> None:
    with pytest.raises(ValueError, match="nothing reaches node 1"):
        time_of_lengths(graph_of([(1, 0, 1)], 2), np.arange(2), [1])
