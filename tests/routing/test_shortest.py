"""Shortest paths against networkx, on random graphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.routing import shortest_paths


@given(st.data())
def test_every_path_is_shortest_and_begins_with_the_first_listed_link(data: st.DataObject) -> None:
    routers = data.draw(st.integers(1, 8))
    npus = data.draw(st.integers(1, routers))
    node = st.integers(0, routers - 1)
    ends = data.draw(st.lists(st.tuples(node, node).filter(lambda e: e[0] != e[1]), max_size=30))
    src = np.array([a for a, _ in ends], np.int32)
    dst = np.array([b for _, b in ends], np.int32)
    table = shortest_paths(routers, npus, src, dst)

    graph = nx.DiGraph(ends)
    graph.add_nodes_from(range(routers))
    for goal in range(npus):
        away = nx.single_target_shortest_path_length(graph, goal)
        away = dict(away)
        for router in range(routers):
            fitting = [i for i, (a, b) in enumerate(ends) if a == router and away.get(b, -9) + 1 == away.get(router)]
            expected = min(fitting) if fitting and router != goal else -1
            assert table[router, goal] == expected
