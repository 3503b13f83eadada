"""Networks of routers and links: what stands where, routes as candidates, other routings, faults."""

from __future__ import annotations

import pickle
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim import registry
from pyxsim.errors import InputError, UnreachableError
from pyxsim.routing import EACH, LEAST, TWO, Relation, prove
from pyxsim.topology import Dimension, Queue, Topology, Wires, build, graph_network
from pyxsim.topology.routings import graph_routings
from tests.examples import part_of

# A square 0-1-2-3 with two NPUs at 0, one at 2, and none at 1 and 3.
HOME = [0, 0, 2]
SQUARE = [(0, 1), (1, 2), (2, 3), (3, 0)]


def square(**more: Any) -> Topology:
    return graph_network("square", HOME, SQUARE, {"minimal": graph_routings("minimal")["minimal"]}, **more)


def wires(net: Topology) -> Wires:
    return Wires(net.routers, net.home, net.link_src, net.link_dst, net.link_name)


def test_what_stands_where() -> None:
    net = square()
    assert (net.npus, net.routers, net.switches, net.links) == (3, 4, 2, 8)
    assert net.home.tolist() == HOME
    assert net.shape == (3,)
    assert net.dims == (Dimension("square", 3),)
    assert net.queues == ((Queue(-1, 1),),)
    assert net.link_name[:3] == ["link:(0)->(1)", "link:(1)->(0)", "link:(1)->(2)"]
    assert net.link_dim.tolist() == [0] * 8
    assert net.link_length.tolist() == [1] * 8
    assert (net.link_kinds, net.kind_dims, net.routing) == (("link",), (0,), "minimal")
    assert net.router_dim.tolist() == [-1, 0, -1, 0]
    assert repr(net) == "<Topology square 3: 3 NPUs, 2 switches, 8 links>"


def test_links_of_several_kinds() -> None:
    net = square(
        dims=[Dimension("a", 3), Dimension("b", 1)],
        kinds=["copper", "glass"],
        kind=[0, 1, 0, 1],
        kind_dims=[0, 0],
        length=[1, 2, 3, 4],
        bandwidth=["1 GB/s", None, None, None],
        latency=[None, "5 ns", None, None],
        router_names=list("pqrs"),
    )
    assert net.shape == (3, 1)
    assert net.link_dim.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert net.link_length.tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert net.link_bandwidth == ("1 GB/s", "1 GB/s", *[None] * 6)
    assert net.link_latency == (None, None, "5 ns", "5 ns", *[None] * 4)
    assert net.link_name[2] == "glass:q->r"


def test_parallel_links_have_names_of_their_own() -> None:
    net = graph_network("pair", [0, 1], [(0, 1), (0, 1)], graph_routings("minimal"))
    assert net.link_name == ["link:(0)->(1)", "link:(1)->(0)", "link#1:(0)->(1)", "link#1:(1)->(0)"]


def test_links_one_way() -> None:
    net = graph_network("circle", [0, 1, 2], [(0, 1), (1, 2), (2, 0)], graph_routings("table"), both_ways=False)
    assert net.links == 3
    assert len(net.relation.route(1, 0, -1)) == 2
    with pytest.raises(InputError, match="up-down requires links in both directions"):
        net.routed("up-down")


def test_candidates_of_a_hop() -> None:
    net = square()
    # From router 0 to home 2 there are two shortest ways: a set; from 1 there is one link.
    relation = net.relation
    assert relation.candidates(0 * 2 + 1) == [(0, 0), (7, 0)]
    assert relation.candidates(1 * 2 + 1) == [(2, 1)]
    assert relation.candidates(2 * 2 + 1) == []
    assert relation.digits.tolist() == [[0], [0], [1]]
    assert relation.link_classes.tolist() == [2] * 8
    assert [link for link, _ in relation.route(0, 2, -1)] == [0, 2]
    assert relation.route(0, 1, -1) == []


def test_a_relation_from_flags() -> None:
    w = wires(square())
    classes = np.arange(8)[:, None] % 2
    relation = w.relation(w.shortest(), classes, select="two", classes=2, group=np.arange(8))
    assert relation.plane_select.tolist() == [TWO]
    assert relation.candidates(1) == [(0, 0), (7, 1)]
    assert relation.link_group.tolist() == list(range(8))
    # Two planes: sets are numbered through.
    double = w.relation([w.shortest(), w.shortest()], [0, 1], select=["random", "least"], classes=2)
    assert (double.planes, double.plane_select.tolist()) == (2, [0, LEAST])
    entries = len(double.link) // 2
    assert double.candidates(1) == [(0, 0), (7, 0)]
    assert double.candidates(entries + 1) == [(0, 1), (7, 1)]
    with pytest.raises(InputError, match=r"routing_options\.select: unknown selection 'most'"):
        w.relation(w.shortest(), select="most")


def test_arrays_of_another_shape_are_refused() -> None:
    w = wires(square())
    with pytest.raises(InputError, match=r"allowed has shape \(2, 3\); expected \(8, 2\)"):
        w.relation(np.ones((2, 3), bool))
    with pytest.raises(InputError, match=r"allowed has shape \(8,\); expected \(8, 2\)"):
        w.relation([w.shortest(), np.ones(8, bool)], [0, 0])
    with pytest.raises(InputError, match=r"vc_class has shape \(8,\); expected \(8, 2\)"):
        w.relation(w.shortest(), np.zeros(8, int), classes=2)


@st.composite
def graphs(draw: st.DrawFn) -> nx.Graph:
    graph = nx.random_labeled_tree(draw(st.integers(2, 9)), seed=draw(st.integers(0, 99)))
    nodes = list(graph)
    for _ in range(draw(st.integers(0, 6))):
        a, b = draw(st.sampled_from(nodes)), draw(st.sampled_from(nodes))
        if a != b:
            graph.add_edge(a, b)
    return graph


@settings(max_examples=part_of(100))
@given(graphs(), st.data())
def test_minimal_routes_are_shortest_and_never_deadlock(graph: nx.Graph, data: st.DataObject) -> None:
    home = data.draw(st.lists(st.sampled_from(list(graph)), min_size=1, max_size=8))
    net = graph_network("random", home, list(graph.edges), graph_routings("minimal"), routers=len(graph))
    away = dict(nx.all_pairs_shortest_path_length(graph))
    for src in range(net.npus):
        for dst in range(net.npus):
            assert len(net.relation.route(src, dst, -1)) == away[home[src]][home[dst]]
    for name in ("minimal", "up-down", "valiant", "ugal"):
        prove(net.routed(name).relation)
    prove(net.routed("minimal-adaptive").relation, whole=True)


def test_other_routings() -> None:
    net = build("torus", [4, 4])
    assert net.routed() is net
    assert net.routed("dimension-order") is net
    other = net.routed("minimal-adaptive", {"adaptive_vcs": 2, "sticky": None})
    assert (other.routing, other.links) == ("minimal-adaptive", net.links)
    assert EACH in other.relation.plane_select
    assert other.relation.fixed_vcs[-1] == 2
    # Collectives keep their planes with the first routing only.
    assert net.queues[0] == (Queue(0, 1), Queue(1, -1))
    assert other.queues[0] == (Queue(-1, 1), Queue(-1, -1))
    assert other.routed("dimension-order").queues[0] == (Queue(-1, 1), Queue(-1, -1))


@pytest.mark.parametrize(
    ("name", "options", "key", "words"),
    [
        ("valiantt", {}, "network.router.routing", "did you mean 'valiant'?"),
        ("valiant", {"k": 1}, "network.router.routing_options.k", "allowed: early"),
        ("ugal", {"bias": "much"}, "network.router.routing_options.bias", "'much' is not a whole number"),
        ("minimal-adaptive", {"ties": "?"}, "network.router.routing_options.ties", "unknown value '?'"),
        ("dimension-order", {"x": 1}, "network.router.routing_options.x", "unknown option"),
    ],
)
def test_routings_that_are_refused(name: str, options: dict[str, object], key: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        build("torus", [4, 4]).routed(name, options)
    assert caught.value.key == key
    assert words in str(caught.value)


def test_a_users_routing_may_have_options() -> None:
    def mine(w: Wires, first: bool = True) -> Relation:
        return w.relation(w.shortest() if first else ~w.shortest() & False)

    net = graph_network("mine", HOME, SQUARE, {"mine": mine})
    assert net.routed("mine", {"first": True}).relation.links == 8
    with pytest.raises(UnreachableError):
        prove(net.routed("mine", {"first": False}).relation)


def test_pickles_keep_the_present_routing() -> None:
    net = build("dragonfly", options={"p": 1, "a": 2, "h": 1}).routed("valiant")
    copy = pickle.loads(pickle.dumps(net))
    assert list(copy.routings) == ["valiant"]
    assert copy.routed("valiant").relation.links == net.links


@pytest.mark.parametrize(
    ("home", "links", "words"),
    [
        ([], SQUARE, "0 NPUs"),
        ([0, 4], SQUARE, "an NPU is at router 4; allowed: routers 0 to 3"),
        ([0], [(0, 9)], "a link leads to router 9"),
        ([0], [(1, 1)], "a link leads from router 1 to itself"),
    ],
)
def test_faults(home: list[int], links: list[tuple[int, int]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        graph_network("wrong", home, links, graph_routings("minimal"), routers=4)


def test_parts_that_are_not_joined() -> None:
    for first in ("minimal", "up-down", "table"):
        with pytest.raises(UnreachableError, match="NPU 0 cannot reach NPU 1"):
            graph_network("apart", [0, 2], [(0, 1), (2, 3)], graph_routings(first))


def test_routings_of_a_library_are_offered_after_the_shipped_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in (registry.grid_routings, registry.graph_routings):
        monkeypatch.setattr(table, "_entries", dict(table._entries))
        monkeypatch.setattr(table, "_spellings", dict(table._spellings))
    shipped = list(graph_routings())
    registry.graph_routings.register("mine")(lambda wires: wires.relation(wires.shortest()))
    assert list(graph_routings()) == [*shipped, "mine"]
    on_lines = registry.grid_routings.register("on-lines", applies=lambda base, kinds: set(kinds) == {"line"})
    on_lines(lambda base, turns=1: base)
    assert list(build("mesh", [3, 3]).routings)[-1] == "on-lines"
    assert "on-lines" not in build("torus", [3, 3]).routings
    assert build("mesh", [3, 3]).routed("on-lines", {"turns": 2}).routing == "on-lines"
