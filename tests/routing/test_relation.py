"""Routes one by one: the keep rule, the ends of the network, and what is said of routes that lead nowhere."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim.errors import UnreachableError
from pyxsim.routing import SKIP, Relation, minimal_adaptive, prove, tie_random, valiant
from pyxsim.routing.planes import distinct, plane, rebuilt
from pyxsim.topology import Block, build, product
from tests.examples import part_of
from tests.routing.nets import grid
from tests.routing.test_slow import graphs, mixed_up
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
    with pytest.raises(UnreachableError, match=r"plane 0: NPU 1 cannot reach NPU 0: no route$"):
        prove(relation)
    prove(relation, [(0, 1), (0, 2), (1, 2)])


def test_no_route_half_way() -> None:
    relation = broken([[-1, 0, 0], [1, -1, -1], [-1, -1, -1]], [0, 1], [1, 0])
    with pytest.raises(UnreachableError, match="NPU 0 cannot reach NPU 2: no route at router 1"):
        prove(relation, [(0, 1), (1, 0), (0, 2)])


def test_a_route_round_in_a_circle() -> None:
    # 0 and 1 send what is for 2 to each other.
    relation = broken([[-1, 0, 0], [1, -1, 1], [2, 2, -1]], [0, 1, 2], [1, 0, 0])
    with pytest.raises(UnreachableError, match="the route from NPU 0 to NPU 2 contains a cycle"):
        relation.route(0, 2)
    with pytest.raises(UnreachableError, match="NPU 0 cannot reach NPU 2: the route contains a cycle"):
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


@settings(max_examples=part_of(60))
@given(st.one_of(graphs(), mixed_up()), st.data())
def test_taken_apart_and_put_together_again(relation: Relation, data: st.DataObject) -> None:
    again = rebuilt(relation, [plane(relation, number) for number in range(relation.planes)])
    sizes = relation.digits.max(axis=0) + 1
    for row in range(relation.planes * relation.routers):
        for dim, size in enumerate(sizes.tolist()):
            if relation.own[row, dim] == SKIP:
                assert again.own[row, dim] == SKIP
                continue
            for digit in range(size):
                one, other = (int(r.offset[row, dim]) + digit for r in (relation, again))
                assert relation.candidates(one) == again.candidates(other)
    # Sets that are alike are one.
    members = {
        tuple(zip(again.set_link[a:b].tolist(), again.set_class[a:b].tolist(), strict=True))
        for a, b in zip(again.set_start, again.set_start[1:], strict=False)
    }
    assert len(members) == again.sets
    for name in ("any", "select", "escape", "sticky", "equal"):
        assert getattr(relation, f"plane_{name}").tolist() == getattr(again, f"plane_{name}").tolist()


@given(st.lists(st.integers(-5, 5)))
def test_distinct(numbers: list[int]) -> None:
    assert distinct(np.array(numbers, np.int64)).tolist() == sorted(set(numbers))


def test_the_representative_route_takes_the_first_of_everything() -> None:
    torus = tie_random(grid("ring", [4, 4]))
    # Ties by +, as in plane 0.
    assert torus.route(0, 10, -1) == torus.route(0, 10, 2) == torus.route(0, 10, 0)
    assert not torus.deterministic
    assert grid("ring", [4]).deterministic
    around = valiant(torus)
    assert around.route(0, 10, -1) == around.route(0, 10, 1)
    adaptive = minimal_adaptive(grid("mesh", [3, 3]))
    assert not adaptive.deterministic
    assert names(adaptive, 0, 8) == [
        "d0+:(0,0)->(1,0) 1",
        "d0+:(1,0)->(2,0) 1",
        "d1+:(2,0)->(2,1) 1",
        "d1+:(2,1)->(2,2) 1",
    ]


def test_where_any_digit_may_decide_one_without_a_link_leaves_it_to_the_next() -> None:
    mesh = grid("mesh", [2, 2])
    entry = int(mesh.offset[0, 0]) + 1
    link = mesh.link.copy()
    link[entry] = -1
    lame = dataclasses.replace(mesh, link=link, separable=False)
    with pytest.raises(UnreachableError, match="plane 0 has no route from router 0 to NPU 3"):
        lame.route(0, 3)
    every = dataclasses.replace(lame, plane_any=np.ones(1, np.int32))
    assert names(every, 0, 3) == ["d1+:(0,0)->(0,1) 0", "d0+:(0,1)->(1,1) 0"]
    with pytest.raises(UnreachableError, match="no route from router 0 to NPU 1"):
        every.route(0, 1)
    prove(every, [(0, 3, 0)])
    with pytest.raises(UnreachableError, match="NPU 0 cannot reach NPU 1: no route"):
        prove(every, [(0, 1, 0)])


def test_every_state_needs_an_escape() -> None:
    mesh = minimal_adaptive(grid("mesh", [2, 2]))
    prove(mesh, whole=True)
    link = mesh.link.copy()
    # At router 1, on the escape plane, nothing leads on in dimension 1.
    link[int(mesh.offset[4 + 1, 1]) + 1] = -1
    lame = dataclasses.replace(mesh, link=link, separable=False)
    with pytest.raises(UnreachableError, match="plane 1: NPU 1 cannot reach NPU 3: plane 0 has no escape"):
        prove(lame, [(1, 3, 0)], whole=True)
    with pytest.raises(UnreachableError, match="NPU 0 cannot reach NPU 3: plane 0 has no escape at router 1"):
        prove(lame, [(0, 3, 0)], whole=True)


def test_npus_that_share_a_router() -> None:
    line = grid("mesh", [2])
    shared = dataclasses.replace(
        line, npus=4, home=np.array([0, 0, 1, 1], np.int32), digits=np.array([[0], [0], [1], [1]], np.int32)
    )
    assert shared.route(0, 1) == []
    assert names(shared, 1, 3) == ["d0+:(0)->(1) 0"]
    prove(shared)
    prove(valiant(dataclasses.replace(shared, separable=False)))
