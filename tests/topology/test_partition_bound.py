"""The partition bound: against all partitions, one by one, closed forms, and the schedules of few NPUs, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.topology.capacity_graph import CapacityGraph
from pyxsim.topology.cut_bound import bottleneck
from pyxsim.topology.partition_bound import known_partition, least_partition, singles

Link = tuple[int, int, int]


def partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, *rest = items
    for partition in partitions(rest):
        yield [[first], *partition]
        for number, group in enumerate(partition):
            yield [*partition[:number], [first, *group], *partition[number + 1 :]]


def egress(links: list[Link], group: list[int], npus: int, nodes: int) -> int:
    """The least width out of a group, over all ways to put switches on its side."""
    switches = range(npus, nodes)
    widths = []
    for count in range(len(switches) + 1):
        for chosen in combinations(switches, count):
            inside = {*group, *chosen}
            widths.append(sum(width for a, b, width in links if a in inside and b not in inside))
    return min(widths)


def by_all_partitions(links: list[Link], npus: int, nodes: int) -> Fraction:
    return min(
        Fraction(sum(egress(links, group, npus, nodes) for group in partition), 2 * (len(partition) - 1))
        for partition in partitions(list(range(npus)))
        if len(partition) > 1
    )


def graph_of(links: list[Link], nodes: int) -> CapacityGraph:
    src, dst, width = zip(*links, strict=True)
    return CapacityGraph.of(nodes, src, dst, width)


@given(
    st.integers(2, 6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), max_size=14),
)
def test_it_is_the_least_of_all_partitions(npus: int, links: list[Link]) -> None:
    mine = [link for link in links if link[0] != link[1]] + [(node, (node + 1) % 6, 1) for node in range(6)]
    graph = graph_of(mine, 6)
    wanted = by_all_partitions(mine, npus, 6)
    assert least_partition(graph, np.arange(npus)).rate * graph.unit == wanted
    known = known_partition(graph, np.arange(npus), bottleneck(graph, np.arange(npus)))
    assert known.rate * graph.unit >= wanted


@pytest.mark.parametrize("n", [2, 3, 8])
def test_closed_forms(n: int) -> None:
    """Ring and complete graph: 2 (n-1) M over n times the width of an NPU. A mesh: its 4 k (k-1) links together."""
    ring = [way for npu in range(n) for way in ((npu, (npu + 1) % n, 10), ((npu + 1) % n, npu, 10))]
    graph = graph_of(ring, n)
    assert least_partition(graph, np.arange(n)).rate * graph.unit == Fraction(20 * n, 2 * (n - 1))
    complete = [(a, b, 7) for a in range(n) for b in range(n) if a != b]
    graph = graph_of(complete, n)
    assert singles(graph, np.arange(n)).rate * graph.unit == Fraction(7 * (n - 1) * n, 2 * (n - 1))
    assert least_partition(graph, np.arange(n)).rate == singles(graph, np.arange(n)).rate
    mesh = [
        way
        for x in range(n)
        for y in range(n)
        for step in (1, n)
        if (x if step == 1 else y) < n - 1
        for way in ((x + n * y, x + n * y + step, 1), (x + n * y + step, x + n * y, 1))
    ]
    graph = graph_of(mesh, n * n)
    assert least_partition(graph, np.arange(n * n)).rate == Fraction(4 * n * (n - 1), 2 * (n * n - 1))


def test_islands_count_as_groups() -> None:
    """Two pairs: 100 within, 1 between. Two groups must each send M out over a width of 1."""
    links = [way for a, b, w in ((0, 1, 100), (2, 3, 100), (0, 2, 1)) for way in ((a, b, w), (b, a, w))]
    found = least_partition(graph_of(links, 4), np.arange(4))
    assert (found.count, found.rate) == (2, 1)


def fewest_messages(n: int, wires: set[tuple[int, int]]) -> int:
    """Of one element, by trying all sequences of messages: the fewest until all NPUs have all contributions.

    A message adds what its sender has to what its receiver has; overlaps are no error here, so that this is a bound
    for every algorithm that adds in NPUs.
    """
    everything = (1 << n) - 1
    front = {tuple(1 << npu for npu in range(n))}
    sent = 0
    while not any(all(have == everything for have in state) for state in front):
        front = {
            tuple(have | state[a] if npu == b else have for npu, have in enumerate(state))
            for state in front
            for a, b in wires
        }
        sent += 1
    return sent


@pytest.mark.parametrize("n", [2, 3, 4])
def test_no_algorithm_sends_fewer_messages(n: int) -> None:
    assert fewest_messages(n, {(a, b) for a in range(n) for b in range(n) if a != b}) == 2 * (n - 1)
