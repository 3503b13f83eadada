"""Which links a pair of NPUs keeps to: the route of the relation; where that has a choice, one whose turn it is."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pyxsim.errors import UnreachableError
from pyxsim.network.link_paths import LinkPaths, routes
from pyxsim.routing.relation import SKIP, Relation
from pyxsim.settings import Network
from pyxsim.topology import Topology
from tests.network.delay.networks import OTHERS, topology_of

TREE = {"topology": "k-ary-n-tree", "options": {"k": 4, "n": 3}}
ALL: list[dict[str, Any]] = [
    *OTHERS,
    {"topology": "torus", "shape": [4, 4], "router": {"routing": "minimal-adaptive"}},
    {"topology": "torus", "shape": [4, 4], "router": {"routing": "valiant"}},
    {"topology": "leaf-spine", "options": {"npus": 3, "leaves": 3, "spines": 2}},
    {"topology": "fat-tree", "options": {"children": [4, 3], "parents": [3]}},
]


def slowly(relation: Relation, src: int, dst: int, plane: int) -> list[int]:
    """The same, from router to router, by hand."""
    plane = relation.ways[0].last if plane < 0 else plane
    router, turn, found = int(relation.home[src]), src * relation.npus + dst, []
    while router != relation.home[dst]:
        row, choice = plane * relation.routers + router, []
        for dim, digit in enumerate(relation.digits[dst].tolist()):
            if relation.own[row, dim] not in (SKIP, digit):
                choice += relation.candidates(int(relation.offset[row, dim] + digit))
                if not relation.plane_any[plane]:
                    break
        link, _ = choice[turn % len(choice)]
        turn //= len(choice)
        found.append(link)
        router = int(relation.link_dst[link])
    return found


@pytest.mark.parametrize("table", ALL, ids=lambda table: f"{table['topology']} {table.get('router', '')}")
def test_routes_one_by_one(table: dict[str, Any]) -> None:
    topology = topology_of(table)
    rows = topology.pairs() if topology.confined else topology.pairs()[:: topology.planes]
    if not topology.confined:
        rows = np.concatenate([rows, np.column_stack([rows[:, :2], np.full(len(rows), -1)])])
    src, dst, plane = rows.T
    found = routes(topology.relation, src, dst, plane)
    for row, steps in zip(rows.tolist(), found.tolist(), strict=True):
        way = [link for link in steps if link >= 0]
        assert way == slowly(topology.relation, *row)
        if topology.relation.deterministic:
            assert way == [link for link, _ in topology.relation.route(*row)]


def carried(topology: Topology, src: Any, dst: Any) -> list[int]:
    """Pairs that cross each link."""
    steps = routes(topology.relation, np.asarray(src), np.asarray(dst), np.full(len(src), -1))
    return np.bincount(steps[steps >= 0], minlength=topology.links).tolist()  # type: ignore[no-any-return]


def test_a_full_tree_carries_every_shift_without_meeting() -> None:
    topology = topology_of(TREE)
    npu = np.arange(topology.npus)
    for shift in range(1, topology.npus):
        assert max(carried(topology, npu, (npu + shift) % topology.npus)) == 1


def test_and_all_pairs_evenly() -> None:
    topology = topology_of(TREE)
    src, dst = topology.pairs()[:, 0], topology.pairs()[:, 1]
    # Four NPUs at a router send to 60 others over four links; one level up it is 16 to 48 others over 16 links.
    assert set(carried(topology, src, dst)) == {60, 48}


def test_where_there_is_no_way() -> None:
    topology = topology_of({"topology": "torus", "shape": [4]})
    relation = replace(topology.relation, link=np.full(len(topology.relation.link), -1, np.int32))
    with pytest.raises(UnreachableError, match="plane 0 has no route from NPU 0 to NPU 1"):
        routes(relation, np.array([0]), np.array([1]), np.array([0]))


def test_lanes_are_as_wide_as_the_widest_link_that_they_serve() -> None:
    topology = topology_of({"topology": "leaf-spine", "options": {"npus": 2, "leaves": 2, "spines": 2}})
    widths = ["1 GB/s", "4 GB/s", "2 GB/s", "8 GB/s", *["3 GB/s"] * (topology.links - 4)]
    ways = LinkPaths(replace(topology, link_bandwidth=widths), Network.model_validate({"topology": "leaf-spine"}))
    for npu in range(topology.npus):
        for ends, lane in ((topology.link_src, 0), (topology.link_dst, topology.npus)):
            mine = np.flatnonzero(ends == topology.home[npu]).tolist()
            assert ways.rates[topology.links + lane + npu] == max(ways.rates[link] for link in mine)


def test_lanes_are_behind_the_links() -> None:
    table = {**OTHERS[2], "bandwidth": "3 GB/s", "latency": "5 ns"}
    topology = topology_of(table)
    ways = LinkPaths(topology, Network.model_validate(table))
    npus, links = topology.npus, topology.links
    assert (ways.links, len(ways.rates), len(ways.latencies)) == (links, links + 2 * npus, links + 2 * npus)
    assert (ways.rates[-1], ways.latencies[-1], ways.widest) == (3, 0, 3)
    assert (ways.rates[0], ways.latencies[0]) == (Fraction(3), 5)
    near = int(np.flatnonzero(topology.home == topology.home[0])[1])
    far = int(np.flatnonzero(topology.home != topology.home[0])[0])
    for src, dst in ((near, 0), (0, far)):
        way = [step for step in ways.steps(np.array([src]), np.array([dst]), np.array([-1]))[0].tolist() if step >= 0]
        between = [link for link, _ in topology.relation.route(src, dst)]
        assert way == [links + src, *between, links + npus + dst]
    plain = topology_of({"topology": "torus", "shape": [4]})
    assert len(LinkPaths(plain, Network.model_validate({"topology": "torus", "shape": [4]})).rates) == plain.links
