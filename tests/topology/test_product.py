"""Products of blocks: numbering, names, and digit tables that say what a slow reading of the blocks says."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import InputError
from pyxsim.routing.explore import decide
from pyxsim.topology import Block, Queue, Topology, build, product
from pyxsim.topology.product import groups_of
from tests.examples import part_of
from tests.topology.nets import block, coords, hops_in_block, products


@given(products())
def test_ids_coordinates_and_strides_are_those_of_astra_sim(net: Topology) -> None:
    assert net.npus == math.prod(net.shape)
    assert net.coords.tolist() == [coords(npu, net.shape) for npu in range(net.npus)]
    assert [net.npu(row) for row in net.coords.tolist()] == list(range(net.npus))
    assert net.strides == tuple(math.prod(net.shape[:i]) for i in range(len(net.shape)))
    for dim, stride in enumerate(net.strides):
        for npu in range(net.npus):
            group = net.group(npu, dim).tolist()
            assert group[net.coords[npu, dim]] == npu
            assert all(b - a == stride for a, b in itertools.pairwise(group))


@given(products())
def test_links_and_switches_are_those_of_the_blocks(net: Topology) -> None:
    groups = [net.npus // size for size in net.shape]
    assert net.links == sum(g * b.links for g, b in zip(groups, net.dims, strict=True))
    assert net.switches == sum(g * b.switches for g, b in zip(groups, net.dims, strict=True))
    parts = enumerate(zip(groups, net.dims, strict=True))
    assert Counter(net.link_dim.tolist()) == {dim: g * b.links for dim, (g, b) in parts if b.links}
    for link in range(net.links):
        dim = net.link_dim[link]
        for end in (net.link_src[link], net.link_dst[link]):
            # A link joins routers of its dimension: NPUs, or switches that belong to it.
            assert net.router_dim[end] == (-1 if end < net.npus else dim)
        if net.link_src[link] < net.npus and net.link_dst[link] < net.npus:
            differ = net.coords[net.link_src[link]] != net.coords[net.link_dst[link]]
            assert differ.tolist() == [i == dim for i in range(len(net.shape))]
    assert len(set(net.link_name)) == net.links
    assert len(set(net.router_name)) == net.routers


@settings(max_examples=part_of(100))
@given(products())
def test_every_pair_is_routed_along_its_coordinates_in_order(net: Topology) -> None:
    for plane in range(net.planes):
        for src in range(net.npus):
            for dst in range(net.npus):
                route = net.relation.route(src, dst, plane)
                at = src
                for link, vc_class in route:
                    assert net.link_src[link] == at
                    assert 0 <= vc_class < net.relation.link_classes[link]
                    at = int(net.link_dst[link])
                assert at == dst
                dims = [int(net.link_dim[link]) for link, _ in route]
                assert dims == sorted(dims)
                ends = zip(net.dims, net.coords[src].tolist(), net.coords[dst].tolist(), strict=True)
                assert len(route) == sum(hops_in_block(b, x, y) for b, x, y in ends)


@settings(max_examples=part_of(100))
@given(products(), st.data())
def test_one_decision_and_many_are_the_same(net: Topology, data: st.DataObject) -> None:
    relation = net.relation
    router = data.draw(st.integers(0, net.routers - 1))
    plane = data.draw(st.integers(0, net.planes - 1))
    dims = range(relation.digits.shape[1])
    packet, link, vc_class, differs = decide(relation, plane, np.full(net.npus, router), relation.digits, dims)
    for dst in range(net.npus):
        assert bool(differs[dst]) == (router != dst)
        if router != dst:
            # A switch is asked only for those that come to it, and has an answer for all of its group.
            mine = packet == dst
            assert relation.next_hop(router, dst, plane) == (link[mine][0], vc_class[mine][0])
            assert (net.link_src[link[mine]] == router).all()


def test_links_are_numbered_by_dimension_group_and_block() -> None:
    net = product("small", [block("mesh", 2), block("switch", 2)])
    assert net.link_name == [
        "d0+:(0,0)->(1,0)",
        "d0-:(1,0)->(0,0)",
        "d0+:(0,1)->(1,1)",
        "d0-:(1,1)->(0,1)",
        "d1up:(0,0)->(0,*)",
        "d1up:(0,1)->(0,*)",
        "d1down:(0,*)->(0,0)",
        "d1down:(0,*)->(0,1)",
        "d1up:(1,0)->(1,*)",
        "d1up:(1,1)->(1,*)",
        "d1down:(1,*)->(1,0)",
        "d1down:(1,*)->(1,1)",
    ]
    assert net.router_name == ["(0,0)", "(1,0)", "(0,1)", "(1,1)", "(0,*)", "(1,*)"]
    assert net.router_dim.tolist() == [-1, -1, -1, -1, 1, 1]
    assert repr(net) == "<Topology small 2x2: 4 NPUs, 2 switches, 12 links>"


def test_groups_hold_the_npus_that_differ_in_one_coordinate() -> None:
    # 2 x 3 x 2: dimension 1 has stride 2; NPUs 0, 2, 4 are (0,0,0), (0,1,0), (0,2,0).
    assert groups_of((2, 3, 2), 1).tolist() == [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]
    assert groups_of((2, 3, 2), 0).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]


def test_planes_are_shared_and_queues_follow_the_directions() -> None:
    net = product("mixed", [block("ring", 4), block("switch", 2), block("ring", 3, bidirectional=False)])
    # Two for the ways round the first ring, and one that draws which.
    assert net.planes == 3
    assert net.queues == ((Queue(0, 1), Queue(1, -1)), (Queue(0, 1),), (Queue(0, 1),))
    assert not net.lane_per_plane
    assert not net.confined
    # Both planes use the same links in the dimensions that have one plane only.
    far = net.npu([0, 1, 2])
    assert net.relation.route(0, far, 0) == net.relation.route(0, far, 1)
    assert net.relation.link_group.tolist() == [0] * 8 * 6 + [-1] * (4 * 12 + 3 * 8)


def test_pairs_are_all_pairs_on_all_planes() -> None:
    net = product("pair", [block("ring", 3)])
    expected = [[a, b, p] for a in range(3) for b in range(3) for p in range(3) if a != b]
    assert sorted(net.pairs().tolist()) == sorted(expected)


def test_graph() -> None:
    net = product("small", [block("ring", 2), block("switch", 2)])
    graph = net.to_networkx()
    assert isinstance(graph, nx.MultiDiGraph)
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (net.routers, net.links)
    # A ring of two has two channels each way.
    assert graph.number_of_edges(0, 1) == graph.number_of_edges(1, 0) == 2
    assert graph.nodes[4] == {"label": "(0,*)", "kind": "switch", "npus": 0, "dim": 1}
    assert graph.nodes[0] == {"label": "(0,0)", "kind": "npu", "npus": 1, "dim": -1}
    assert "d1up:(0,0)->(0,*)" in nx.get_edge_attributes(graph, "name").values()
    assert "".join(nx.generate_graphml(graph))


def test_no_npu_outside() -> None:
    net = product("small", [block("ring", 2), block("switch", 2)])
    for wrong in ([2, 0], [0], [0, 0, 0], [0, -1]):
        with pytest.raises(InputError, match="no NPU has the coordinates"):
            net.npu(wrong)


@pytest.mark.parametrize(
    ("sizes", "words"), [([2048], "4192256 links are too many"), ([64, 64, 64, 64], "NPUs are too")]
)
def test_networks_too_large_to_build_are_refused(sizes: list[int], words: str) -> None:
    name = "fully-connected" if len(sizes) == 1 else "mesh"
    with pytest.raises(InputError, match=words):
        product("huge", [block(name, size) for size in sizes])


def test_too_many_table_entries_are_refused() -> None:
    # 20 rings of 3000 NPUs with 2 planes of 3000 x 3000 entries each, and 3000 lines of 20 NPUs.
    ids = np.arange(3000)
    wide = Block(name="wide", npus=3000, src=ids, dst=(ids + 1) % 3000, next=np.tile(ids[:, None], (2, 1, 3000)))
    with pytest.raises(InputError, match=f"{20 * 2 * 3000**2 + 3000 * 20**2} table entries are too many"):
        product("huge", [wide, block("mesh", 20)])


def test_no_blocks_no_network() -> None:
    with pytest.raises(InputError, match="the shape is empty"):
        product("nothing", [])


def test_large_networks_are_built_fast_and_small() -> None:
    begin = time.process_time()
    net = build("torus", [16, 16, 16])
    assert time.process_time() - begin < 1
    # 3 planes (ties by +, by -, drawn) x 4096 routers x (16 + 16 + 16) entries.
    assert len(net.relation.link) == 3 * 4096 * 48
    cube = build("torus", [32, 32, 32])
    assert cube.links == 6 * 32**3
    far = cube.npu([16, 16, 16])
    assert len(cube.relation.route(0, far)) == 48
