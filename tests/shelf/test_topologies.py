"""What stands on the shelf `topologies`: wiring, algorithms and directions of each."""

from __future__ import annotations

import itertools
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

from pyxsim import library, run
from pyxsim.errors import DeadlockError, InputError
from pyxsim.registry import blocks, topologies
from pyxsim.routing import LEAST, RANDOM, TWO, prove
from pyxsim.topology import Block, Queue, build
from pyxsim.topology.bounds import hop_counts
from tests.topology.nets import block

library.load_all()


def ends(made: Block) -> list[tuple[str, int, int]]:
    return list(zip(made.link_names, made.src.tolist(), made.dst.tolist(), strict=True))


def test_names() -> None:
    assert {"ring", "mesh", "switch", "fully-connected", "torus"} <= set(topologies.names())
    assert {"ring", "mesh", "switch", "fully-connected"} <= set(blocks.names())


@pytest.mark.parametrize("name", ["ring", "mesh", "switch", "fully-connected", "torus"])
@pytest.mark.parametrize("npus", [1, 2, 3, 8])
def test_one_dimension_of_each(name: str, npus: int) -> None:
    net = build(name, [npus])
    assert (net.name, net.shape, net.npus) == (name, (npus,), npus)
    assert (net.links == 0) == (npus == 1)
    prove(net.relation)


def test_ring() -> None:
    assert ends(block("ring", 3)) == [
        ("+", 0, 1),
        ("+", 1, 2),
        ("+", 2, 0),
        ("-", 0, 2),
        ("-", 1, 0),
        ("-", 2, 1),
    ]
    made = block("ring", 4)
    assert (made.planes, made.classes, made.keep_class, made.directions, made.algorithm) == (2, 2, True, 2, "ring")
    assert made.src.tolist().count(0) == 2


def test_a_ring_of_two_has_two_channels_each_way() -> None:
    made = block("ring", 2)
    assert ends(made) == [("+", 0, 1), ("+", 1, 0), ("-", 0, 1), ("-", 1, 0)]
    # Both ways round are one link long: a tie, so the planes use different links.
    assert made.next[:, 0, 1].tolist() == [0, 2]
    assert made.next[:, 1, 0].tolist() == [1, 3]


def test_unidirectional_ring() -> None:
    made = block("ring", 3, bidirectional=False)
    assert ends(made) == [("+", 0, 1), ("+", 1, 2), ("+", 2, 0)]
    assert (made.planes, made.classes, made.keep_class, made.directions) == (1, 2, False, 1)
    assert build("ring", [3], options={"bidirectional": False}).queues == ((Queue(0, 1),),)


def test_mesh() -> None:
    made = block("mesh", 3)
    assert ends(made) == [("+", 0, 1), ("+", 1, 2), ("-", 1, 0), ("-", 2, 1)]
    assert (made.planes, made.classes, made.directions, made.algorithm) == (1, 1, 1, "ring")
    assert build("mesh", [3, 2]).links == 2 * (2 * 2 + 3 * 1)


@pytest.mark.parametrize(("npus", "algorithm"), [(2, "halving-doubling"), (6, "direct"), (8, "halving-doubling")])
def test_switch(npus: int, algorithm: str) -> None:
    made = block("switch", npus)
    assert ends(made) == [("up", i, npus) for i in range(npus)] + [("down", npus, i) for i in range(npus)]
    assert (made.switches, made.planes, made.classes, made.algorithm) == (1, 1, 1, algorithm)
    assert made.src.tolist().count(0) == 1


def test_fully_connected() -> None:
    made = block("fully-connected", 3)
    assert ends(made) == [("", a, b) for a in range(3) for b in range(3) if a != b]
    assert (made.algorithm, made.src.tolist().count(0)) == ("direct", 2)


def test_torus() -> None:
    net = build("torus", [4, 2, 3])
    assert net.links == 6 * 24
    assert net.queues == ((Queue(0, 1), Queue(1, -1)),) * 3
    assert build("torus", [4, 2, 3], options={"bidirectional": False}).links == 3 * 24


# Every network of the shelf that is no product of blocks, small enough to look at every pair; name, options.
GRAPHS: list[tuple[str, dict[str, Any]]] = [
    ("concentrated-mesh", {"routers": [3, 4], "concentration": 3}),
    ("concentrated-mesh", {"routers": [4, 4], "concentration": [2, 2], "express": True, "floor_plan": True}),
    ("concentrated-mesh", {"routers": [8, 2], "concentration": 1, "express": True}),
    ("hyperx", {"routers": [3, 4], "concentration": 2}),
    ("hyperx", {"routers": [4, 4], "concentration": [2, 2], "floor_plan": True}),
    ("k-ary-n-tree", {"k": 2, "n": 4}),
    ("k-ary-n-tree", {"k": 5, "n": 1}),
    ("folded-clos", {"children": [4, 3, 2], "parents": [3, 2], "parallel": [1, 2]}),
    ("folded-clos", {"children": [3, 2, 2, 2], "parents": [1, 2, 1]}),
    ("leaf-spine", {"npus": 4, "leaves": 5, "spines": 2, "parallel": 2}),
    ("dragonfly", {"p": 2, "a": 4, "h": 2}),
    ("dragonfly", {"p": 1, "a": 3, "h": 2, "g": 4, "arrangement": "palm-tree"}),
    ("dragonfly", {"p": 1, "a": 2, "h": 3, "g": 3}),
    ("dragonfly", {"p": 2, "a": 3, "h": 1, "g": 1}),
    ("slim-fly", {"q": 3}),
    ("rail-optimized", {"servers": 3, "npus": 2}),
    ("rail-optimized", {"servers": 4, "npus": 3, "pod": 2, "spines": 2, "parallel": 2, "planes": 2}),
    ("random-regular", {"routers": 12, "degree": 3, "p": 2, "seed": 5}),
]
# Not all are free of deadlock, and are there for those who want to see one.
UNSAFE = ("table", "ugal-booksim2")


@pytest.mark.parametrize(("name", "options"), GRAPHS)
def test_links_go_both_ways_between_all(name: str, options: dict[str, Any]) -> None:
    net = build(name, options=options)
    graph = net.to_networkx()
    assert nx.is_strongly_connected(graph)
    there = sorted(zip(net.link_src.tolist(), net.link_dst.tolist(), net.link_dim.tolist(), strict=True))
    assert there == sorted((b, a, kind) for a, b, kind in there)
    assert len(set(net.link_name)) == net.links
    assert math.prod(net.shape) == net.npus == len(net.home)
    assert [net.npu(coords) for coords in net.coords.tolist()] == list(range(net.npus))
    assert {net.dims[dim].npus for dim in net.kind_dims} <= set(net.shape)


@pytest.mark.parametrize(("name", "options"), GRAPHS)
def test_every_routing_gets_there_and_is_proved(name: str, options: dict[str, Any]) -> None:
    net = build(name, options=options)
    assert net.routing == next(iter(net.routings))
    for routing in net.routings:
        relation = net.routed(routing).relation
        for src, dst in itertools.product(range(net.npus), repeat=2):
            router = int(net.home[src])
            for link, _ in relation.route(src, dst, -1):
                assert relation.link_src[link] == router
                router = int(relation.link_dst[link])
            assert router == net.home[dst]
        if routing not in UNSAFE:
            # An escape is one where a VC is granted with room for the packet.
            prove(relation, whole=routing == "minimal-adaptive")


@pytest.mark.parametrize(("name", "options"), GRAPHS)
def test_collectives_run_on_it(name: str, options: dict[str, Any]) -> None:
    network = {"topology": name, "options": options, "latency": "5 ns"}
    found = run({"network": network, "collective": {"kind": "all-reduce", "size": "8 KiB"}})
    assert found.time_ns > 0


def test_concentrated_mesh_as_in_booksim2() -> None:
    # cmesh k = 4, n = 2, c = 4: NPUs are a grid of 8 x 8, cut into squares of 2 x 2.
    net = build("concentrated-mesh", options={"routers": [4, 4], "concentration": [2, 2], "express": True})
    assert [int(net.home[npu]) for npu in (0, 1, 8, 9, 2, 10, 16, 63)] == [0, 0, 0, 0, 1, 1, 4, 15]
    ends = set(zip(net.link_src.tolist(), net.link_dst.tolist(), strict=True))
    assert net.links == 48 + 16
    # Half an edge away: bottom, top, left, right.
    assert {(0, 2), (1, 3), (12, 14), (13, 15), (0, 8), (4, 12), (3, 11), (7, 15)} <= ends
    # Three steps along the bottom edge take an express link first; inside there is none.
    assert [net.link_name[link] for link, _ in net.relation.route(0, 6, -1)] == ["d0*:(0,0)->(2,0)", "d0+:(2,0)->(3,0)"]
    assert len(net.relation.route(16, 22, -1)) == 3


def test_express_links_never_make_a_way_longer() -> None:
    for size in ([8, 2], [7, 3], [2, 2], [6, 6]):
        plain = build("concentrated-mesh", options={"routers": size, "concentration": 1})
        express = build("concentrated-mesh", options={"routers": size, "concentration": 1, "express": True})
        assert (hop_counts(express) <= hop_counts(plain)).all()
        prove(express.relation)
    with pytest.raises(InputError, match="express links need two dimensions"):
        build("concentrated-mesh", options={"routers": [8], "express": True})


def test_flattened_butterfly_as_in_booksim2() -> None:
    # flatfly k = 4, n = 2, c = 4, x = y = 4, xr = yr = 2: a link is twice as long as its routers are apart.
    net = build("flattened-butterfly", options={"routers": [4, 4], "concentration": [2, 2], "floor_plan": True})
    assert [int(net.home[npu]) for npu in (0, 1, 8, 9, 2, 10, 16, 63)] == [0, 0, 0, 0, 1, 1, 4, 15]
    for src, dst, length in zip(net.link_src.tolist(), net.link_dst.tolist(), net.link_length.tolist(), strict=True):
        assert length == 2 * abs(src % 4 - dst % 4) + 2 * abs(src // 4 - dst // 4)
    # NPU = number at the router + c * router otherwise.
    plain = build("hyperx", options={"routers": [4, 4], "concentration": 4})
    assert plain.home.tolist() == [npu // 4 for npu in range(64)]
    assert set(plain.link_length.tolist()) == {1}
    assert plain.shape == (16, 4)


def test_k_ary_n_trees() -> None:
    net = build("k-ary-n-tree", options={"k": 4, "n": 3})
    assert (net.npus, net.routers, net.links, net.shape) == (64, 48, 2 * 2 * 64, (4, 4, 4))
    assert net.home.tolist() == [npu // 4 for npu in range(64)]
    # Up to the nearest common ancestor: the level of the highest digit that differs.
    for dst, hops in ((3, 0), (4, 2), (15, 2), (16, 4), (63, 4)):
        assert len(net.relation.route(0, dst, -1)) == hops
    # Four links up to choose from, one down.
    assert len(net.relation.candidates(15)) == 4
    assert net.relation.plane_select.tolist() == [RANDOM]
    assert net.routed("adaptive-nearest-common-ancestor").relation.plane_select.tolist() == [TWO]
    least = net.routed("nearest-common-ancestor", {"select": "least"})
    assert least.relation.plane_select.tolist() == [LEAST]


def test_folded_clos() -> None:
    net = build("folded-clos", options={"children": [4, 3, 2], "parents": [3, 2], "parallel": [1, 2]})
    # 6 leaves, 3 switches above each of 2 pods, 3 * 2 at the top.
    assert (net.npus, net.switches, net.link_kinds, net.kind_dims) == (24, 6 + 6, ("level1", "level2"), (1, 2))
    assert np.bincount(net.link_dim).tolist() == [2 * 6 * 3, 2 * 6 * 2 * 2]
    up = np.bincount(net.link_src[net.link_dst > net.link_src], minlength=18).tolist()
    assert up == [3] * 6 + [4] * 6 + [0] * 6
    with pytest.raises(InputError, match=r"\[2\] has 1 dimensions; allowed: a list of 2 numbers"):
        build("folded-clos", options={"children": [4, 3, 2], "parents": [2]})


def test_dragonfly_as_in_booksim2() -> None:
    # dragonflynew k = 2: p = 2, a = 4, h = 2, g = 9. Group i reaches group j by port j or j - 1, of router port // 2.
    net = build("dragonfly", options={"p": 2, "a": 4, "h": 2})
    assert (net.npus, net.routers, net.links) == (72, 36, 9 * 4 * 3 + 36 * 2)
    found = set(zip(net.link_src[net.link_dim == 1].tolist(), net.link_dst[net.link_dim == 1].tolist(), strict=True))
    port = {(i, j): j - (j > i) for i in range(9) for j in range(9) if i != j}
    assert found == {(i * 4 + port[i, j] // 2, j * 4 + port[j, i] // 2) for i, j in port}
    assert net.home.tolist() == [npu // 2 for npu in range(72)]
    # VC class 0 up to the global link, and 1 on it and behind it; 0 inside of a group.
    classes = {
        tuple((int(net.link_dim[link]), vc_class) for link, vc_class in net.relation.route(src, dst, -1))
        for src, dst in itertools.product(range(72), repeat=2)
    }
    step, jump, last = (0, 0), (1, 1), (0, 1)
    assert classes == {(), (step,), (jump,), (step, jump), (jump, last), (step, jump, last)}


def test_dragonflies_of_any_shape() -> None:
    for a, h, g in itertools.product((1, 2, 3, 4), (1, 2, 3), range(1, 14)):
        if g > a * h + 1:
            continue
        for arrangement in ("consecutive", "palm-tree"):
            net = build("dragonfly", options={"p": 1, "a": a, "h": h, "g": g, "arrangement": arrangement})
            across = net.link_dim == 1
            ports = np.bincount(net.link_src[across], minlength=a * g)
            assert ports.max() <= h
            pairs = np.zeros((g, g), int)
            np.add.at(pairs, (net.link_src[across] // a, net.link_dst[across] // a), 1)
            others = pairs[~np.eye(g, dtype=bool)]
            if g > 1:
                # All pairs have the same, or one more; and no ports are left that could be used everywhere.
                assert others.min() == a * h // (g - 1)
                assert others.max() <= others.min() + 1
                assert pairs.sum(axis=1).min() >= a * h - (g % 2)
            assert (pairs == pairs.T).all()
            assert hop_counts(net).max(initial=0) <= 3


def test_palm_trees() -> None:
    net = build("dragonfly", options={"p": 1, "a": 4, "h": 2, "arrangement": "palm-tree"})
    across = net.link_dim == 1
    for src, dst in zip(net.link_src[across].tolist(), net.link_dst[across].tolist(), strict=True):
        # Router r, port n of it: to the group 2 r + n + 1 before its own.
        assert src % 4 == ((src // 4 - dst // 4) % 9 - 1) // 2


def test_dragonflies_with_all_vcs_on_global_links() -> None:
    net = build("dragonfly", options={"p": 1, "a": 4, "h": 1}).routed("minimal", {"spread": True})
    assert net.relation.link_classes.tolist() == [2 - kind for kind in net.link_dim.tolist()]
    prove(net.relation)
    with pytest.raises(DeadlockError):
        prove(net.routed("ugal-booksim2").relation)


@pytest.mark.parametrize("q", [3, 4, 5, 7, 8, 9, 11, 13, 16, 17])
def test_slim_flies(q: int) -> None:
    net = build("slim-fly", options={"q": q, "p": 1})
    graph = nx.Graph(net.to_networkx())
    delta = {1: 1, 3: -1, 0: 0}[q % 4]
    assert len(graph) == 2 * q * q
    assert {degree for _, degree in graph.degree} == {(3 * q - delta) // 2}
    assert nx.diameter(graph) == 2
    assert net.npus == 2 * q * q
    if q == 5:
        # 50 routers of degree 7 and diameter 2: Hoffman and Singleton's graph, in which no circle is shorter than 5.
        assert nx.girth(graph) == 5
        assert build("slim-fly", options={"q": 5}).npus == 50 * 4


def test_random_regular_graphs() -> None:
    made = [build("random-regular", options={"routers": 20, "degree": 4, "seed": seed}) for seed in (0, 0, 1)]
    links = [sorted(zip(net.link_src.tolist(), net.link_dst.tolist(), strict=True)) for net in made]
    assert links[0] == links[1] != links[2]
    assert np.bincount(made[0].link_src).tolist() == [4] * 20


@pytest.mark.parametrize(
    ("name", "options", "key", "words"),
    [
        ("dragonfly", {"p": 1, "a": 2, "h": 1, "g": 4}, "network.options.g", "4 groups; allowed: 1 to a * h + 1 = 3"),
        ("dragonfly", {"p": 0, "a": 2, "h": 1}, "network.options.p", "0 is too small; allowed: a whole number from 1"),
        (
            "dragonfly",
            {"p": 1, "a": 2, "h": 1, "arrangement": "palmtree"},
            "network.options.arrangement",
            "'palm-tree'?",
        ),
        ("dragonfly", {"p": 1, "a": 2}, "network.options", "the option 'h' is missing; allowed: a whole number"),
        ("dragonfly", {"p": 1, "a": 2, "hh": 1}, "network.options.hh", "unknown option; allowed: p, a, h, g,"),
        ("dragonfly", {"p": 1, "a": 2, "h": 1.5}, "network.options.h", "1.5 is not a whole number"),
        ("rail-optimized", {"servers": 4, "pod": 3, "spines": 1}, "network.options.pod", "allowed: a divisor of 4"),
        ("rail-optimized", {"servers": 4, "pod": 2}, "network.options.spines", "0 spines; allowed: at least 1"),
        ("rail-optimized", {"servers": 4096, "npus": 512}, "network.options.servers", "2097152 NPUs are too many"),
        ("slim-fly", {"q": 6}, "network.options.q", "no field has 6 elements"),
        ("slim-fly", {"q": 2}, "network.options.q", "no field has 2 elements"),
        ("random-regular", {"routers": 5, "degree": 3}, "network.options", "5 routers of degree 3"),
        ("random-regular", {"routers": 4, "degree": 4}, "network.options", "a degree from 2 to routers - 1"),
        ("hyperx", {"routers": []}, "network.options.routers", "the shape is empty"),
        ("hyperx", {"routers": 4}, "network.options.routers", "4 is not a shape"),
        ("hyperx", {"routers": [4, 4], "concentration": [2]}, "network.options.concentration", "a list of 2 numbers"),
        ("hyperx", {"routers": [4], "concentration": 0}, "network.options.concentration", "a dimension of 0 NPUs"),
        ("k-ary-n-tree", {"k": 2, "n": 0}, "network.options.n", "0 is too small"),
        ("k-ary-n-tree", {"k": 2, "n": 60}, "network.options.n", "2^60 NPUs are too many; allowed: at most 1048576"),
        ("leaf-spine", {"npus": 2, "leaves": 2, "spines": 0}, "network.options.spines", "0 is too small"),
        ("leaf-spine", {"npus": 2, "leaves": 0, "spines": 1}, "network.options.leaves", "0 is too small"),
        (
            "leaf-spine",
            {"npus": 4096, "leaves": 4096, "spines": 1},
            "network.options.leaves",
            "16777216 NPUs are too many",
        ),
    ],
)
def test_faults(name: str, options: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        build(name, options=options)
    assert caught.value.key == key
    assert words in str(caught.value)


def test_a_network_without_a_shape_of_its_own() -> None:
    with pytest.raises(InputError, match=r"network\.shape: the topology 'slim-fly' has no shape; allowed: "):
        build("slim-fly", [4, 4], options={"q": 5})


def test_routings_of_grids() -> None:
    every = ["dimension-order", "dimension-order-balanced", "bubble", "xy-yx", "adaptive-xy-yx", "minimal-adaptive"]
    assert list(build("torus", [4, 4]).routings) == [*every, "valiant", "romm", "ugal"]
    assert set(every) - set(build("mesh", [4, 4]).routings) == {"dimension-order-balanced", "bubble"}
    assert "xy-yx" not in build("ring", [4]).routings
    assert "romm" not in build("hyperx", options={"routers": [4, 4]}).routings
    for concentration, offered in ((1, True), (2, False)):
        options = {"routers": [3, 4], "concentration": concentration}
        assert ("romm" in build("concentrated-mesh", options=options).routings) == offered
    assert list(build("garnet-torus", [4, 2, 2]).routings) == ["ring"]


@pytest.mark.parametrize(("name", "shape"), [("torus", [4, 3]), ("mesh", [3, 4]), ("switch", [4])])
def test_routings_of_products_are_proved(name: str, shape: list[int]) -> None:
    net = build(name, shape)
    for routing in net.routings:
        prove(net.routed(routing).relation, whole=routing == "minimal-adaptive")
