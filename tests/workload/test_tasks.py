"""The compiled parts by themselves: circles, covered cycles."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.workload.tasks import circle, covered

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14)


@given(edges=EDGES)
def test_a_circle_is_found_if_there_is_one(edges: list[tuple[int, int]]) -> None:
    """(a, b): a waits for b."""
    waits: list[list[int]] = [[b for a, b in edges if a == task] for task in range(8)]
    before_start = np.cumsum([0, *map(len, waits)])
    found = circle(before_start, np.array([b for row in waits for b in row], np.int64))
    graph = nx.MultiDiGraph(edges)
    assert bool(found) is not nx.is_directed_acyclic_graph(graph)
    for one, other in zip(found, [*found[1:], *found[:1]], strict=True):
        assert other in waits[one]
    assert len(set(found)) == len(found)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)), max_size=12))
def test_cycles_are_counted_once(stretches: list[tuple[int, int, int]]) -> None:
    rows = np.array([(line, begin, begin + long) for line, begin, long in sorted(stretches)], np.int64).reshape(-1, 3)
    sets: list[set[int]] = [set(), set(), set()]
    for line, begin, long in stretches:
        sets[line].update(range(begin, begin + long))
    line, begin, end = (np.ascontiguousarray(column) for column in rows.T)
    assert covered(line, begin, end, 3).tolist() == [len(each) for each in sets]
