"""The deadlock proof against a slow one, against known truths of rings, and by the text of its refusals."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import DeadlockError, InputError
from pyxsim.routing import Relation, dependencies, prove
from pyxsim.topology import Block, product
from tests.examples import part_of
from tests.routing.nets import grid, grids
from tests.topology.nets import dependency_graph


def one_class(relation: Relation) -> Relation:
    """The same routes with no VC classes."""
    return dataclasses.replace(
        relation, vc_class=np.zeros_like(relation.vc_class), link_classes=np.ones_like(relation.link_classes)
    )


def edges(relation: Relation, pairs: Any = None) -> set[Any]:
    return set(dependencies(relation, pairs).to_networkx().edges)


@settings(max_examples=part_of(60))
@given(grids(most=48))
def test_products_of_any_blocks_are_deadlock_free(relation: Relation) -> None:
    prove(relation)
    graph = dependency_graph(relation)
    assert nx.is_directed_acyclic_graph(graph)
    assert edges(relation) == set(graph.edges)
    # The proof by dimensions and the one by pairs see the same dependencies.
    assert edges(dataclasses.replace(relation, separable=False)) == set(graph.edges)


@settings(max_examples=part_of(60))
@given(grids(most=24), st.booleans())
def test_without_classes_the_verdict_is_that_of_networkx(net: Relation, separable: bool) -> None:
    relation = dataclasses.replace(one_class(net), separable=separable)
    graph = dependency_graph(relation)
    assert edges(relation) == set(graph.edges)
    if nx.is_directed_acyclic_graph(graph):
        prove(relation)
        return
    found = dependencies(relation)
    cycle = [found.channel(number) for number in found.cycle()]
    assert len(set(cycle)) == len(cycle)
    for before, after in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        assert graph.has_edge(before, after)
    with pytest.raises(DeadlockError):
        prove(relation)


@pytest.mark.parametrize("npus", range(2, 10))
def test_rings_need_their_classes_from_four_on(npus: int) -> None:
    # Up to three NPUs every way is one link long, so nothing is held while something else is asked for. From four on,
    # ways of two links by + from every NPU close the circle: 0->1->2, 1->2->3, 2->3->0, 3->0->1.
    ring = grid("ring", [npus])
    prove(ring)
    if npus < 4:
        prove(one_class(ring))
        return
    with pytest.raises(DeadlockError) as caught:
        prove(one_class(ring))
    assert len(caught.value.cycle) == npus
    assert {name.split(":")[0] for name in caught.value.cycle} in ({"d0+"}, {"d0-"})


@pytest.mark.parametrize("npus", range(2, 10))
def test_unidirectional_rings_need_two_classes_and_must_not_keep_them(npus: int) -> None:
    ring = grid("ring", [npus], bidirectional=False)
    prove(ring)
    kept = dataclasses.replace(ring, link_group=np.zeros_like(ring.link_group))
    # A packet that crosses may go npus - 1 links. Kept in class 1 from 2 -> 1, 3 -> 2 and 1 -> 0 in a ring of four,
    # they hold 2-3-0, 3-0-1, 1-2-3: a circle in class 1. In a ring of three no packet goes straight on at 1 in class 1.
    for relation, smallest in ((one_class(ring), 3), (kept, 4)):
        if npus < smallest:
            prove(relation)
        else:
            with pytest.raises(DeadlockError):
                prove(relation)


def test_bidirectional_rings_may_also_change_the_class_where_they_cross() -> None:
    ring = grid("ring", [8])
    prove(dataclasses.replace(ring, link_group=np.full_like(ring.link_group, -1)))


def test_the_cycle_is_named_by_links() -> None:
    torus = one_class(grid("ring", [4, 4]))
    with pytest.raises(DeadlockError) as caught:
        prove(torus)
    cycle = ["d0+:(0,0)->(1,0)", "d0+:(1,0)->(2,0)", "d0+:(2,0)->(3,0)", "d0+:(3,0)->(0,0)"]
    assert caught.value.cycle == cycle
    assert str(caught.value) == (
        "the routes can deadlock: 4 channels can form a cycle: "
        "d0+:(0,0)->(1,0) -> d0+:(1,0)->(2,0) -> d0+:(2,0)->(3,0) -> d0+:(3,0)->(0,0) -> d0+:(0,0)->(1,0)"
    )
    assert caught.value.exit_code == 3


def test_classes_are_named_where_there_are_several_and_long_cycles_are_cut_short() -> None:
    ring = grid("ring", [12])
    with pytest.raises(DeadlockError) as caught:
        prove(dataclasses.replace(ring, vc_class=np.zeros_like(ring.vc_class)))
    assert len(caught.value.cycle) == 12
    assert caught.value.cycle[0] == "d0+:(0)->(1) class 0"
    assert "d0+:(7)->(8) class 0 -> 4 more -> d0+:(0)->(1) class 0" in str(caught.value)


def test_only_the_pairs_that_are_used_count() -> None:
    ring = one_class(grid("ring", [6]))
    neighbours = [(i, (i + 1) % 6) for i in range(6)]
    prove(ring, neighbours)
    assert not len(dependencies(ring, neighbours).src)
    two = [(i, (i + 2) % 6) for i in range(6)]
    with pytest.raises(DeadlockError):
        prove(ring, two)
    prove(ring, two[:-1])
    # Opposite NPUs: three links each way. Plane 0 goes by +, so does the circle; on plane 1 it goes by -.
    opposite = np.array([(i, (i + 3) % 6, 1) for i in range(6)])
    with pytest.raises(DeadlockError, match="d0-:"):
        prove(ring, opposite)
    prove(ring, [])
    prove(ring, np.zeros((0, 2), int))


def test_planes_share_their_channels() -> None:
    # Half of the circle is closed by plane 0, half by plane 1: neither alone can deadlock.
    square = [(0, 1), (1, 2), (2, 3), (3, 0)]
    src, dst = (np.array([end[i] for end in square]) for i in (0, 1))
    ring = Block(name="turn", npus=4, src=src, dst=dst)
    both = np.concatenate([ring.next, ring.next])
    net = product("turn", [Block(name="turn", npus=4, src=src, dst=dst, next=both)]).relation
    half = [(0, 2, 0), (1, 3, 0)], [(2, 0, 1), (3, 1, 1)]
    prove(net, half[0])
    prove(net, half[1])
    with pytest.raises(DeadlockError):
        prove(net, half[0] + half[1])


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([(0, 1, 2, 3)], "rows"),
        ([(0.5, 1.0)], "rows"),
        ([(0, 4)], "outside the network; allowed: NPUs 0 to 3, planes 0 to 1, or -1 for the route options"),
        ([(0, 1, 2)], "outside"),
        ([(-1, 0)], "outside"),
        ([(0, 1, -2)], "outside"),
    ],
)
def test_pairs_that_are_none(pairs: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        prove(grid("ring", [4]), pairs)


def test_512_nodes_are_proved_in_seconds_and_64_at_once() -> None:
    def seconds(relation: Relation) -> float:
        begin = time.process_time()
        prove(relation)
        return time.process_time() - begin

    small, large = (grid("ring", [k] * 3) for k in (4, 8))
    prove(small)
    assert seconds(small) < 0.2
    assert seconds(large) < 1
    # The same pair by pair, as for a network of any other shape.
    assert seconds(dataclasses.replace(small, separable=False)) < 0.2
    assert seconds(dataclasses.replace(large, separable=False)) < 4
