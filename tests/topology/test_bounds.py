"""Counted loads and hops against the closed forms of Dally and Towles (2004), chapter 3, self traffic included."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from pyxsim.errors import UnreachableError
from pyxsim.topology import Block, Topology, build, product
from pyxsim.topology.bounds import bisection, channel_loads, hop_counts, mean_hops, summary
from pyxsim.topology.garnet import garnet_torus
from tests.topology.nets import block, products

SHAPES = [(k, n) for k in range(2, 9) for n in range(1, 4) if k**n <= 512]


@pytest.mark.parametrize(("k", "n"), SHAPES)
def test_torus(k: int, n: int) -> None:
    # Even k: a ring's mean distance is k/4; odd k: (k - 1/k)/4. A link of a ring carries half of that: k of them
    # each way take the k/4 hops of k NPUs in two directions, k * k/4 / (2k).
    found = summary(build("torus", [k] * n))
    mean = k / 4 if k % 2 == 0 else (k - 1 / k) / 4
    assert found.mean_hops == pytest.approx(n * mean)
    assert found.channel_load == pytest.approx(mean / 2)
    assert found.max_hops == n * (k // 2)
    assert found.throughput == pytest.approx(min(1, 2 / mean))


@pytest.mark.parametrize(("k", "n"), SHAPES)
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


@given(products())
def test_loads_are_the_sum_of_all_routes(net: Topology) -> None:
    count: Counter[int] = Counter()
    longest = 0
    for plane in range(net.planes):
        for src in range(net.npus):
            for dst in range(net.npus):
                route = net.relation.route(src, dst, plane)
                count.update(link for link, _ in route)
                longest = max(longest, len(route))
    loads = [count[link] / (net.npus * net.planes) for link in range(net.links)]
    found = summary(net)
    assert channel_loads(net) == pytest.approx(loads)
    assert mean_hops(net) == pytest.approx(sum(loads) / net.npus)
    assert found.max_hops == longest
    # By pairs instead of by dimensions.
    pairwise = dataclasses.replace(net, relation=dataclasses.replace(net.relation, separable=False))
    assert channel_loads(pairwise) == pytest.approx(loads)
    assert summary(pairwise).max_hops == longest


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
        with pytest.raises(UnreachableError, match="NPU 0 cannot reach NPU 2: the route goes round in a circle"):
            numbers(net)


def test_large_networks_take_no_time() -> None:
    begin = time.process_time()
    found = summary(build("ring", [1024]))
    assert (found.mean_hops, found.channel_load, found.bisection) == (256, 128, 4)
    assert summary(build("torus", [16, 16, 16])).mean_hops == 12
    assert time.process_time() - begin < 10


def test_rings_of_garnet_have_no_uniform_traffic() -> None:
    with pytest.raises(UnreachableError, match="cannot reach"):
        summary(garnet_torus(2, 2, 2, 1, 1, 1))
