"""The compiled parts by themselves: cycles."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.workload.tasks import find_cycle

EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14)


@given(edges=EDGES)
def test_a_circle_is_found_if_there_is_one(edges: list[tuple[int, int]]) -> None:
    """(a, b): a waits for b."""
    waits: list[list[int]] = [[b for a, b in edges if a == task] for task in range(8)]
    before_start = np.cumsum([0, *map(len, waits)])
    found = find_cycle(before_start, np.array([b for row in waits for b in row], np.int64))
    graph = nx.MultiDiGraph(edges)
    assert bool(found) is not nx.is_directed_acyclic_graph(graph)
    for one, other in zip(found, [*found[1:], *found[:1]], strict=True):
        assert other in waits[one]
    assert len(set(found)) == len(found)
