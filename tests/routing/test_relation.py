"""Routes one by one: the keep rule, the ends of the network, and what is said of routes that lead nowhere."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from pyxsim.errors import UnreachableError
from pyxsim.routing import Relation, prove
from pyxsim.topology import Block, build, product
from tests.topology.nets import block


def names(relation: Relation, src: int, dst: int, plane: int = 0) -> list[str]:
    return [f"{relation.link_name[link]} {vc_class}" for link, vc_class in relation.route(src, dst, plane)]


def test_a_packet_keeps_the_class_with_which_it_enters_a_ring() -> None:
    # 6 -> 1 in a ring of 8 crosses from 7 to 0: class 1 from the first link to the last. 1 -> 3 does not.
    ring = build("ring", [8]).relation
    assert names(ring, 6, 1) == ["d0+:(6)->(7) 1", "d0+:(7)->(0) 1", "d0+:(0)->(1) 1"]
    assert names(ring, 1, 3) == ["d0+:(1)->(2) 0", "d0+:(2)->(3) 0"]
    assert names(ring, 1, 6) == ["d0-:(1)->(0) 1", "d0-:(0)->(7) 1", "d0-:(7)->(6) 1"]
    assert names(ring, 3, 1) == ["d0-:(3)->(2) 0", "d0-:(2)->(1) 0"]
    # By the table alone a packet behind the end would be in class 0.
    assert ring.next_hop(0, 1) == (0, 0)


def test_the_class_is_chosen_anew_in_the_next_dimension() -> None:
    torus = build("torus", [4, 4]).relation
    # (3,0) -> (0,1): crosses in dimension 0, not in dimension 1.
    assert names(torus, 3, 4) == ["d0+:(3,0)->(0,0) 1", "d1+:(0,0)->(0,1) 0"]


def test_a_unidirectional_ring_changes_the_class_where_it_crosses() -> None:
    ring = build("ring", [4], options={"bidirectional": False}).relation
    assert names(ring, 2, 1) == ["d0+:(2)->(3) 1", "d0+:(3)->(0) 1", "d0+:(0)->(1) 0"]


def test_ties_go_by_plus_on_plane_0_and_by_minus_on_plane_1() -> None:
    ring = build("ring", [4]).relation
    assert names(ring, 0, 2, 0) == ["d0+:(0)->(1) 0", "d0+:(1)->(2) 0"]
    assert names(ring, 0, 2, 1) == ["d0-:(0)->(3) 1", "d0-:(3)->(2) 1"]
    assert names(ring, 0, 1, 0) == names(ring, 0, 1, 1)


def test_home() -> None:
    ring = build("ring", [4]).relation
    assert ring.next_hop(2, 2) is None
    assert ring.route(2, 2) == []


def broken(next_hops: list[list[int]], src: list[int], dst: list[int]) -> Relation:
    hops = np.array(next_hops)
    made = Block(name="broken", npus=hops.shape[1], src=np.array(src), dst=np.array(dst), next=hops)
    return product("broken", [made]).relation


def test_no_route() -> None:
    # 0 -> 1 -> 2, and nothing back.
    relation = broken([[-1, 0, 0], [-1, -1, 1], [-1, -1, -1]], [0, 1], [1, 2])
    assert len(relation.route(0, 2)) == 2
    with pytest.raises(UnreachableError, match="plane 0 has no route from router 2 to NPU 0"):
        relation.route(2, 0)
    with pytest.raises(UnreachableError, match=r"plane 0: NPU 1 cannot reach NPU 0: there is no route$"):
        prove(relation)
    prove(relation, [(0, 1), (0, 2), (1, 2)])


def test_no_route_half_way() -> None:
    relation = broken([[-1, 0, 0], [1, -1, -1], [-1, -1, -1]], [0, 1], [1, 0])
    with pytest.raises(UnreachableError, match="NPU 0 cannot reach NPU 2: there is no route at router 1"):
        prove(relation, [(0, 1), (1, 0), (0, 2)])


def test_a_route_round_in_a_circle() -> None:
    # 0 and 1 send what is for 2 to each other.
    relation = broken([[-1, 0, 0], [1, -1, 1], [2, 2, -1]], [0, 1, 2], [1, 0, 0])
    with pytest.raises(UnreachableError, match="from NPU 0 to NPU 2 goes round in a circle"):
        relation.route(0, 2)
    with pytest.raises(UnreachableError, match="NPU 0 cannot reach NPU 2: the route goes round in a circle"):
        prove(relation)
    prove(relation, [(2, 1)])


def test_a_route_that_ends_elsewhere() -> None:
    # Two NPUs with the same digit: a packet for 1 is at home at 0.
    good = product("pair", [block("mesh", 2)]).relation
    digits = np.zeros_like(good.digits)
    bad = dataclasses.replace(good, digits=digits, separable=False)
    with pytest.raises(UnreachableError, match="NPU 0 cannot reach NPU 1: the route ends at another NPU"):
        prove(bad)
    with pytest.raises(UnreachableError):
        bad.route(0, 1)


def test_a_fault_in_one_dimension_names_a_pair() -> None:
    # Dimension 1 leads up but not down: 3 = (1,1) cannot reach (1,0) = 1. Found by digits and by pairs.
    lame = Block(name="lame", npus=2, src=np.array([0]), dst=np.array([1]))
    relation = product("lame", [block("ring", 2), lame]).relation
    for separable in (True, False):
        with pytest.raises(UnreachableError, match=r"plane 0: NPU \d cannot reach NPU \d") as caught:
            prove(dataclasses.replace(relation, separable=separable))
        src, dst = (int(number) for number in re.findall(r"NPU (\d)", str(caught.value)))
        assert (src // 2, dst // 2) == (1, 0)
