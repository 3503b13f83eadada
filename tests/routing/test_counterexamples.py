"""Networks that are known to hang, refused with the cycle that they hang in; and what saves them, proved."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import networkx as nx
import numpy as np
import pytest

from pyxsim.errors import DeadlockError, UnreachableError
from pyxsim.routing import (
    Graph,
    Relation,
    Way,
    adaptive_up_down,
    balanced,
    minimal_adaptive,
    nca,
    prove,
    romm,
    tie_random,
    ugal,
    up_down,
    valiant,
)
from pyxsim.routing.graph import distances, shortest
from pyxsim.routing.planes import plane, rebuilt
from tests.garnet_networks import garnet_torus
from tests.routing.nets import grid
from tests.routing.slow import everything, verdict


def refused(relation: Relation, pairs: Any = None, *, whole: bool = False) -> list[str]:
    with pytest.raises(DeadlockError) as caught:
        prove(relation, pairs, whole=whole)
    assert len(set(caught.value.cycle)) == len(caught.value.cycle) > 1
    return caught.value.cycle


def dragonfly(p: int, a: int, h: int, g: int) -> tuple[Graph, np.ndarray[Any, Any]]:
    """Groups of `a` routers, all joined, and links to the other groups in order. Also: the group of each router."""
    assert g == a * h + 1
    group = np.repeat(np.arange(g), a)
    links = [(u, v) for u in range(a * g) for v in range(a * g) if u != v and group[u] == group[v]]
    for i in range(g):
        for j in range(g):
            if i != j:
                port, back = (j if j < i else j - 1), (i if i < j else i - 1)
                links.append((i * a + port // h, j * a + back // h))
    return Graph.of(links, np.repeat(np.arange(a * g), p)), group


def with_classes(graph: Graph, classes: list[np.ndarray[Any, Any]], number: int, ways: tuple[Way, ...]) -> Relation:
    """Minimal routes (local, global, local), a plane for each table [links, homes] of classes."""
    base = shortest(graph, "first")
    minimal = plane(base, 0)
    goal = minimal.entry % len(np.unique(graph.home))
    planes = [dataclasses.replace(minimal, vc_class=c[minimal.link, goal].astype(np.int32)) for c in classes]
    return rebuilt(base, planes, link_classes=np.full_like(base.link_classes, number), ways=ways, choose="least")


UGAL = (Way(last=1), Way(last=1, first=0, via="any"))


def test_dragonfly_ugal_with_the_classes_of_booksim2() -> None:
    # p = 2, a = 4, h = 2, g = 9, as BookSim2's dragonflynew with k = 2. Its ugal has VC = phase: 0 all the way to the
    # via, over local, global and local links; then 1 up to the global link; 2 on it and behind it.
    graph, group = dragonfly(2, 4, 2, 9)
    assert distances(graph).max() == 3
    to_group = group[np.unique(graph.home)]
    is_global = group[graph.src] != group[graph.dst]
    last = np.where(is_global[:, None] | (group[graph.src][:, None] == to_group[None, :]), 2, 1)
    booksim = with_classes(graph, [np.zeros_like(last), last], 3, UGAL)
    cycle = refused(booksim)
    # It hangs where its users saw it: in VC 0, over local and global links in turn.
    assert all(name.endswith("class 0") for name in cycle)
    hops = [re.findall(r"\d+", name)[:2] for name in cycle]
    crosses = [group[int(a)] != group[int(b)] for a, b in hops]
    assert True in crosses
    assert False in crosses
    # The same routes where a class never follows a higher one: 0, 0, 1 to the via and 2, 2, 3 from there.
    first = (~is_global[:, None] & (group[graph.src][:, None] == to_group[None, :])).astype(int)
    prove(with_classes(graph, [first, first + 2], 4, UGAL))
    # And what `ugal` makes of the minimal routes.
    minimal = with_classes(graph, [first], 2, (Way(0),))
    prove(minimal)
    prove(ugal(dataclasses.replace(minimal, choose="random")))


def test_a_small_dragonfly_is_refused_by_the_slow_proof_too() -> None:
    graph, group = dragonfly(1, 2, 1, 3)
    is_global = group[graph.src] != group[graph.dst]
    last = np.where(is_global[:, None] | (group[graph.src][:, None] == group[None, :]), 2, 1)
    booksim = with_classes(graph, [np.zeros_like(last), last], 3, UGAL)
    refused(booksim)
    assert verdict(booksim, everything(booksim), whole=False) == "deadlock"


@pytest.mark.parametrize("made", [valiant, romm])
def test_two_phases_on_a_mesh_that_share_their_vcs(made: Any) -> None:
    mesh = made(grid("mesh", [4, 4]))
    prove(mesh)
    shared = dataclasses.replace(
        mesh, vc_class=np.zeros_like(mesh.vc_class), link_classes=np.ones_like(mesh.link_classes)
    )
    # In one phase no packet turns from y to x; behind the via it does.
    cycle = refused(shared)
    assert {name[:2] for name in cycle} == {"d0", "d1"} if made is romm else cycle


def test_direct_messages_on_the_rings_of_garnet() -> None:
    # Rings of one direction without datelines: neighbours never hold what others wait for, direct messages do.
    net = garnet_torus(4, 2, 2, 1, 1, 1)
    local = [(base + i, base + (i + 1) % 4, 0) for base in range(0, 16, 4) for i in range(4)]
    prove(net.relation, local)
    direct = [(base + i, base + j, 0) for base in range(0, 16, 4) for i in range(4) for j in range(4) if i != j]
    assert len(refused(net.relation, direct)) == 4


def test_torus_without_datelines() -> None:
    torus = tie_random(grid("ring", [4, 4]))
    prove(torus)
    plain = dataclasses.replace(
        torus,
        vc_class=np.zeros_like(torus.vc_class),
        set_class=np.zeros_like(torus.set_class),
        link_classes=np.ones_like(torus.link_classes),
    )
    cycle = ["d0+:(0,0)->(1,0)", "d0+:(1,0)->(2,0)", "d0+:(2,0)->(3,0)", "d0+:(3,0)->(0,0)"]
    assert refused(plain) == cycle


def test_balanced_classes_that_are_drawn_again_at_every_hop() -> None:
    ring = balanced(grid("ring", [8]))
    prove(ring)
    refused(dataclasses.replace(ring, link_group=np.full_like(ring.link_group, -1)))


@pytest.mark.parametrize("kind", ["ring", "mesh"])
@pytest.mark.parametrize("sticky", [False, True])
def test_an_escape_needs_vcs_of_one_packet(kind: str, sticky: bool) -> None:
    relation = minimal_adaptive(grid(kind, [4, 4]), sticky=sticky)
    prove(relation, whole=True)
    with pytest.raises(DeadlockError, match="vc_reuse 'drained', or virtual cut-through and buffers of a whole packet"):
        prove(relation)


def test_an_adaptive_class_without_an_escape() -> None:
    torus = minimal_adaptive(grid("ring", [4, 4]))
    refused(dataclasses.replace(torus, plane_escape=np.full(2, -1, np.int32)), whole=True)


def test_an_escape_without_datelines() -> None:
    torus = minimal_adaptive(grid("ring", [5, 5]))
    escape = np.where(torus.vc_class == 1, 0, torus.vc_class).astype(np.int32)
    assert torus.sets == 0
    cycle = refused(dataclasses.replace(torus, vc_class=escape), whole=True)
    assert all(name.endswith("class 0") for name in cycle)


def test_who_leaves_up_down_may_not_come_back() -> None:
    graph = nx.random_regular_graph(3, 16, seed=3)
    links = [(a, b) for a, b in graph.edges] + [(b, a) for a, b in graph.edges]
    prove(adaptive_up_down(Graph.of(links)), whole=True)
    # An escape may lead away from the destination, and a shortest path back to where the packet was.
    with pytest.raises(UnreachableError, match="contains a cycle"):
        prove(adaptive_up_down(Graph.of(links), sticky=False), whole=True)


def test_shortest_paths_on_a_ring_of_routers() -> None:
    links = [(i, (i + s) % 6) for i in range(6) for s in (1, -1)]
    refused(shortest(Graph.of(links)))
    prove(up_down(Graph.of(links)))


def test_trees_need_no_classes() -> None:
    # Two leaves with two NPUs each below two spines, and links up of both.
    links = [(leaf, spine) for leaf in (0, 1) for spine in (2, 3)]
    graph = Graph.of([*links, *((b, a) for a, b in links)], [0, 0, 1, 1])
    for select in ("random", "two"):
        prove(nca(graph, [0, 0, 1, 1], select))  # type: ignore[arg-type]
