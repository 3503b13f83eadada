"""Counted loads and hops against the closed forms of Dally and Towles (2004), chapter 3, self traffic included."""

from __future__ import annotations

import dataclasses
import itertools
import time
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings

from pyxsim.errors import InputError, UnreachableError
from pyxsim.topology import Block, Topology, build, product
from pyxsim.topology.bounds import (
    bisection,
    channel_loads,
    hop_counts,
    least_load,
    mean_hops,
    summary,
    throughput,
    uniform,
)
from pyxsim.topology.from_networkx import from_networkx
from tests.examples import part_of
from tests.garnet_networks import garnet_torus
from tests.in_turn import in_turn
from tests.topology.nets import block, products, slow_loads

SHAPES = [(k, n) for k in range(2, 9) for n in range(1, 4) if k**n <= 512]


@in_turn(("k", "n"), SHAPES)
def test_torus(k: int, n: int) -> None:
    # Even k: a ring's mean distance is k/4; odd k: (k - 1/k)/4. A link of a ring carries half of that: k of them
    # each way take the k/4 hops of k NPUs in two directions, k * k/4 / (2k).
    found = summary(build("torus", [k] * n))
    mean = k / 4 if k % 2 == 0 else (k - 1 / k) / 4
    assert found.mean_hops == pytest.approx(n * mean)
    assert found.channel_load == pytest.approx(mean / 2)
    assert found.max_hops == n * (k // 2)
    assert found.throughput == pytest.approx(min(1, 2 / mean))


@in_turn(("k", "n"), SHAPES)
def test_mesh(k: int, n: int) -> None:
    # Mean of |a - b| over all pairs of k: (k - 1/k)/3. The middle link carries floor(k/2) * ceil(k/2) / k.
    found = summary(build("mesh", [k] * n))
    assert found.mean_hops == pytest.approx(n * (k - 1 / k) / 3)
    assert found.channel_load == pytest.approx(k / 4 if k % 2 == 0 else k / 4 - 1 / (4 * k))
    assert found.max_hops == n * (k - 1)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_other_blocks(n: int) -> None:
    ring = summary(build("ring", [n], options={"bidirectional": False}))
    assert [ring.mean_hops, ring.channel_load] == pytest.approx([(n - 1) / 2, (n - 1) / 2])
    star = summary(build("switch", [n]))
    assert [star.mean_hops, star.channel_load, star.max_hops] == pytest.approx([2 - 2 / n, 1 - 1 / n, 2])
    full = summary(build("fully-connected", [n]))
    assert [full.mean_hops, full.channel_load, full.throughput] == pytest.approx([1 - 1 / n, 1 / n, 1])
    # n/2 * n/2 pairs across (rounded for odd n), in both directions.
    assert (full.bisection, full.bisection_exact) == (2 * (n // 2) * (n - n // 2), True)


@settings(max_examples=part_of(100))
@given(products())
def test_loads_are_the_sum_of_all_routes(net: Topology) -> None:
    # A way that draws where a way round a ring is as long as the other one goes each of them half of the time.
    pairs = itertools.product(range(net.npus), repeat=2)
    longest = max(len(net.relation.route(src, dst, -1)) for src, dst in pairs)
    loads = slow_loads(net.relation, uniform(net.npus).tolist())
    found = summary(net)
    assert channel_loads(net) == pytest.approx(loads)
    assert mean_hops(net) == pytest.approx(sum(loads) / net.npus)
    assert found.max_hops == longest
    # By pairs instead of by dimensions.
    pairwise = dataclasses.replace(net, relation=dataclasses.replace(net.relation, separable=False))
    assert channel_loads(pairwise) == pytest.approx(loads)
    assert summary(pairwise).max_hops == longest


@settings(max_examples=part_of(100))
@given(products())
def test_hop_counts(net: Topology) -> None:
    for plane in range(net.planes):
        table = hop_counts(net, plane)
        assert table.tolist() == [
            [len(net.relation.route(a, b, plane)) for b in range(net.npus)] for a in range(net.npus)
        ]


@pytest.mark.parametrize("shape", [[2], [4], [8], [4, 4], [4, 4, 4], [8, 8], [16, 16]])
def test_bisection_of_tori_and_meshes(shape: list[int]) -> None:
    # B_C = 4N/k for a torus (a ring is cut twice, two channels each), 2N/k for a mesh.
    npus, k = int(np.prod(shape)), shape[0]
    for name, factor in (("torus", 4), ("mesh", 2)):
        assert bisection(build(name, shape)) == (factor * npus // k, npus <= 16)


@pytest.mark.parametrize(
    ("name", "npus", "channels"),
    # Odd rings are cut twice, odd lines once. A switch with n NPUs stands with the larger half: floor(n/2) up and down.
    [("ring", 5, 4), ("mesh", 5, 2), ("switch", 8, 8), ("switch", 5, 4), ("ring", 1, 0), ("switch", 1, 0)],
)
def test_exact_bisection(name: str, npus: int, channels: int) -> None:
    assert bisection(build(name, [npus])) == (channels, True)


@settings(max_examples=part_of(50))
@given(products(most=8))
def test_no_even_cut_is_narrower(net: Topology) -> None:
    assume(not net.switches)
    links = list(zip(net.link_src.tolist(), net.link_dst.tolist(), strict=True))
    halves = itertools.combinations(range(net.routers), net.routers // 2)
    assert bisection(net) == (min(sum((a in half) != (b in half) for a, b in links) for half in halves), True)


def test_straight_cuts_of_larger_networks() -> None:
    # 4 x 9 mesh: across the 4 it costs 2 * 9; along the 9 the middle row of 4 is shared out: 4 up, 4 down, 2 inside
    # the row (one link each way): the cut goes 2 links beside it, 2 over it and 1 through it, twice each: 10.
    assert bisection(build("mesh", [4, 9])) == (10, False)
    # 17 NPUs at one switch: 8 up and 8 down.
    assert bisection(build("switch", [17])) == (16, False)
    assert bisection(build(None, None, [{"block": "ring", "npus": 4}, {"block": "switch", "npus": 8}])) == (32, False)


def test_between_switches_the_bisection_is_a_guess() -> None:
    # Two leaves of two NPUs under one root: the cut goes through the links of one leaf.
    tree = Block.from_links("tree", 4, [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6)], switches=3)
    assert bisection(product("tree", [tree])) == (2, False)


def test_one_npu() -> None:
    found = summary(product("one", [block("ring", 1)]))
    assert (found.mean_hops, found.max_hops, found.channel_load, found.throughput, found.bisection) == (0, 0, 0, 1, 0)


def test_routes_without_an_end() -> None:
    # 0 and 1 send what is for 2 to each other.
    hops = np.array([[-1, 0, 0], [1, -1, 1], [2, 2, -1]])
    net = product("circle", [Block(name="circle", npus=3, src=np.arange(3), dst=np.array([1, 0, 0]), next=hops)])
    for numbers in (summary, hop_counts):
        with pytest.raises(UnreachableError, match="NPU 0 cannot reach NPU 2: the route contains a cycle"):
            numbers(net)


def test_large_networks_take_no_time() -> None:
    begin = time.process_time()
    found = summary(build("ring", [512]))
    assert (found.mean_hops, found.channel_load, found.bisection) == (128, 64, 4)
    assert summary(build("torus", [12, 12, 12])).mean_hops == 9
    assert time.process_time() - begin < 3


def test_rings_of_garnet_have_no_uniform_traffic() -> None:
    with pytest.raises(UnreachableError, match="cannot reach"):
        summary(garnet_torus(2, 2, 2, 1, 1, 1))


def test_concentration_multiplies_loads_and_not_hops() -> None:
    for k, c in ((4, 4), (5, 3)):
        alone = summary(build("mesh", [k, k]))
        for tile in (c, [1, c]):
            found = summary(build("concentrated-mesh", options={"routers": [k, k], "concentration": tile}))
            assert found.mean_hops == pytest.approx(alone.mean_hops)
            assert found.channel_load == pytest.approx(c * alone.channel_load)
            assert found.bisection == alone.bisection


@pytest.mark.parametrize(("sizes", "c"), [([4, 4], 4), ([3, 5], 2), ([2, 3, 4], 3), ([8], 8)])
def test_hyperx(sizes: list[int], c: int) -> None:
    # In a dimension of s routers a packet moves with probability 1 - 1/s, over one of the s - 1 links of its router.
    net = build("hyperx", options={"routers": sizes, "concentration": c})
    found = summary(net)
    assert found.mean_hops == pytest.approx(sum(1 - 1 / s for s in sizes))
    assert found.channel_load == pytest.approx(c / min(sizes))
    assert found.max_hops == len(sizes)
    # Across an even dimension: (s/2)^2 links in each of the other routers' rows, there and back.
    routers = int(np.prod(sizes))
    assert found.bisection <= min((routers * s // 2 for s in sizes if s % 2 == 0), default=routers**2)


@pytest.mark.parametrize(("k", "n"), [(2, 2), (2, 4), (4, 3), (3, 3), (8, 2)])
def test_k_ary_n_trees(k: int, n: int) -> None:
    # A packet climbs over level l (of n - 1) if its destination is not among the k^l NPUs below, and comes down again.
    net = build("k-ary-n-tree", options={"k": k, "n": n})
    climbs = [1 - k ** (level - n) for level in range(1, n)]
    found = summary(net)
    assert found.mean_hops == pytest.approx(2 * sum(climbs))
    assert found.max_hops == 2 * (n - 1)
    # As many links up as NPUs at every level, evenly used.
    assert found.channel_load == pytest.approx(climbs[0])
    loads = channel_loads(net)
    for level, share in enumerate(climbs):
        assert loads[net.link_dim == level] == pytest.approx(share)
    if k % 2 == 0:
        assert found.bisection == k**n


def test_a_tapered_clos_carries_less() -> None:
    # 8 NPUs of a leaf over 2 links up: 4 to 1, times the share that leaves the leaf.
    net = build("leaf-spine", options={"npus": 8, "leaves": 4, "spines": 2})
    assert summary(net).channel_load == pytest.approx(8 / 2 * 3 / 4)
    assert summary(net).throughput == pytest.approx(1 / 3)
    assert throughput(net) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("p", "a", "h"), [(2, 4, 2), (1, 2, 1), (3, 6, 3), (2, 3, 4)])
@pytest.mark.parametrize("arrangement", ["consecutive", "palm-tree"])
def test_dragonflies(p: int, a: int, h: int, arrangement: str) -> None:
    net = build("dragonfly", options={"p": p, "a": a, "h": h, "arrangement": arrangement})
    g = a * h + 1
    found = summary(net)
    assert found.max_hops == (3 if a > 1 else 1)
    loads = channel_loads(net)
    # One link carries all from a group of a * p NPUs to another, which has 1/g of all.
    assert loads[net.link_dim == 1] == pytest.approx(a * p / g)
    # Hops: global, unless the destination is in the same group; local twice, unless one is at the router of the link.
    away, inside = (g - 1) / g, 1 / g
    assert found.mean_hops == pytest.approx(away * (1 + 2 * (a - 1) / a) + inside * (a - 1) / a)


@pytest.mark.parametrize("q", [3, 4, 5, 7, 8, 9])
def test_slim_flies(q: int) -> None:
    net = build("slim-fly", options={"q": q, "p": 2})
    routers, degree = 2 * q * q, (3 * q - {1: 1, 3: -1, 0: 0}[q % 4]) // 2
    found = summary(net)
    assert found.mean_hops == pytest.approx((degree + 2 * (routers - 1 - degree)) / routers)
    assert found.max_hops == 2
    # No routing can do with less.
    assert least_load(net) <= found.channel_load + 1e-9
    assert least_load(net) == pytest.approx(2 * found.mean_hops / degree)


@settings(max_examples=part_of(100))
@given(products(most=24))
def test_no_routing_can_do_with_less(net: Topology) -> None:
    generator = np.random.default_rng(net.npus)
    matrix = generator.random((net.npus, net.npus)) * generator.integers(0, 2, (net.npus, 1))
    loads = channel_loads(net, matrix)
    assert loads == pytest.approx(slow_loads(net.relation, matrix.tolist()))
    assert least_load(net, matrix) <= loads.max(initial=0) + 1e-9
    assert least_load(net) <= summary(net).channel_load + 1e-9


@pytest.mark.parametrize(
    ("name", "shape", "options", "routing"),
    [
        ("torus", [4, 3], {}, "valiant"),
        ("torus", [4, 4], {}, "romm"),
        ("torus", [5, 4], {}, "dimension-order-balanced"),
        ("mesh", [3, 4], {}, "xy-yx"),
        ("concentrated-mesh", None, {"routers": [3, 3], "concentration": [2, 1]}, "valiant"),
        ("concentrated-mesh", None, {"routers": [4, 4], "concentration": 2, "express": True}, "dimension-order"),
        ("dragonfly", None, {"p": 2, "a": 4, "h": 2, "g": 4}, "minimal"),
        ("dragonfly", None, {"p": 1, "a": 3, "h": 1}, "valiant"),
        ("folded-clos", None, {"children": [4, 3, 2], "parents": [3, 2]}, "nearest-common-ancestor"),
        ("slim-fly", None, {"q": 3}, "minimal"),
        ("random-regular", None, {"routers": 12, "degree": 3}, "up-down"),
    ],
)
def test_uniform_traffic_is_a_matrix_like_others(
    name: str, shape: list[int] | None, options: dict[str, Any], routing: str
) -> None:
    net = build(name, shape, options=options).routed(routing)
    found = channel_loads(net)
    assert channel_loads(net, uniform(net.npus)) == pytest.approx(found)
    assert mean_hops(net) == pytest.approx(found.sum() / net.npus)
    assert throughput(net) == pytest.approx(min(1, 1 / found.max()))
    assert least_load(net) <= found.max() + 1e-9


def test_cuts_bound_what_hops_do_not() -> None:
    # Everybody sends to the opposite group: one link for 8 NPUs, whatever the hops.
    net = build("dragonfly", options={"p": 2, "a": 4, "h": 2})
    matrix = np.zeros((72, 72))
    matrix[np.arange(72), (np.arange(72) + 8) % 72] = 1
    assert channel_loads(net, matrix).max() == pytest.approx(8)
    # By any routing: each group has 8 links out, so the bound is what packets need of links, not the one between.
    assert least_load(net, matrix) == pytest.approx(1)
    assert throughput(net, matrix) == pytest.approx(1 / 8)
    assert throughput(net.routed("ugal"), matrix) == pytest.approx(1)
    assert throughput(net.routed("valiant"), matrix) > 1 / 3


def test_tornado_and_transpose() -> None:
    # A ring of 8, each to the third from it: 3 packets on every link one way. Valiant: twice uniform, 2 * 8/8.
    ring = build("ring", [8])
    tornado = np.roll(np.eye(8), 3, axis=1)
    assert channel_loads(ring, tornado).tolist() == pytest.approx([3.0] * 8 + [0.0] * 8)
    assert throughput(ring, tornado) == pytest.approx(1 / 3)
    valiant = ring.routed("valiant")
    assert channel_loads(valiant, tornado) == pytest.approx(2 * channel_loads(ring))
    # A mesh, (x, y) to (y, x): row x sends x.. the corner takes k - 1 packets on one link in dimension order.
    mesh = build("mesh", [4, 4])
    transpose = np.zeros((16, 16))
    for x in range(4):
        for y in range(4):
            transpose[x + 4 * y, y + 4 * x] = 1
    assert channel_loads(mesh, transpose).max() == pytest.approx(3)
    assert channel_loads(mesh.routed("xy-yx"), transpose).max() == pytest.approx(1.5)
    assert least_load(mesh, transpose) <= 1.5


def test_links_of_other_widths_and_more_lanes() -> None:
    net = build("switch", [4])
    assert throughput(net) == pytest.approx(1)
    assert throughput(net, rates=0.5) == pytest.approx(0.5 / 0.75)
    assert throughput(net, injection=2, ejection=2) == pytest.approx(1 / 0.75)
    rates = np.ones(8)
    rates[0] = 0.25
    assert throughput(net, rates=rates) == pytest.approx(0.25 / 0.75)


def test_routings_that_look_at_loads_have_bounds_only() -> None:
    net = build("torus", [4, 4]).routed("ugal")
    with pytest.raises(InputError, match="depend on the state of the network"):
        channel_loads(net)
    found = summary(net)
    assert (found.load_exact, found.max_hops) == (False, 4)
    assert found.channel_load == pytest.approx(0.5)
    assert summary(build("torus", [4, 4]).routed("valiant")).mean_hops == pytest.approx(4)
    tree = build("k-ary-n-tree", options={"k": 2, "n": 3}).routed("adaptive-nearest-common-ancestor")
    assert summary(tree).channel_load == pytest.approx(0.75)


@pytest.mark.parametrize("matrix", [np.ones((3, 3)), -np.ones((4, 4)), np.full((4, 4), np.nan)])
def test_no_traffic_matrix(matrix: np.ndarray) -> None:
    with pytest.raises(InputError, match="invalid traffic matrix of shape"):
        throughput(build("ring", [4]), matrix)


def test_bisections_of_graphs() -> None:
    # Two cliques of 10 routers, joined by one link: the second eigenvector tells them apart, the numbers do not.
    graph = nx.relabel_nodes(nx.barbell_graph(10, 0), {i: i * 7 % 20 for i in range(20)})
    assert bisection(from_networkx(graph, npus=2)) == (2, False)
    # Four routers with two NPUs each: routers are not cut in two.
    assert bisection(build("hyperx", options={"routers": [4], "concentration": 2})) == (8, True)
