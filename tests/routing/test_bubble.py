"""Bubble flow control: rings without datelines do not deadlock, and all their routers are alike."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyxsim import run
from pyxsim.errors import DeadlockError, InputError
from pyxsim.routing import Relation, bubble, prove
from pyxsim.topology import Topology
from pyxsim.topology.build import build
from tests.examples import part_of
from tests.routing.test_hangs import ends, uniform


def torus(shape: list[int], *, bidirectional: bool = True) -> Topology:
    return build("torus", shape, options={"bidirectional": bidirectional})


def plain(relation: Relation) -> Relation:
    """The same routes without the rule: rings with one VC class."""
    return dataclasses.replace(relation, bubble=False)


@pytest.mark.parametrize("shape", [[4], [5, 4], [3, 2, 4], [8, 8]])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_rings_have_one_class_and_are_proved(shape: list[int], bidirectional: bool) -> None:
    relation = torus(shape, bidirectional=bidirectional).routed("bubble").relation
    assert set(relation.link_classes.tolist()) == {1}
    prove(relation)


@pytest.mark.parametrize("shape", [[5], [5, 4], [4, 5, 3]])
def test_without_the_rule_a_ring_is_rejected(shape: list[int]) -> None:
    with pytest.raises(DeadlockError, match="can form a cycle"):
        prove(plain(torus(shape).routed("bubble").relation))


def test_the_links_are_those_of_dimension_order() -> None:
    base = torus([5, 4])
    other = base.routed("bubble")
    for src in range(base.npus):
        for dst in range(base.npus):
            for plane in (0, 1):
                links = [[link for link, _ in t.relation.route(src, dst, plane)] for t in (base, other)]
                assert links[0] == links[1]
    assert other.queues == base.queues


def test_a_cycle_of_rings_is_rejected() -> None:
    """Packets of a plane correct dimension 1 first, those of the other one dimension 0: rings wait for rings."""
    relation = torus([4, 4]).routed("xy-yx").relation
    ring = dataclasses.replace(
        relation,
        vc_class=relation.vc_class * 0,
        set_class=relation.set_class * 0,
        link_classes=relation.link_classes * 0 + 1,
        link_group=np.array([int(name[1]) for name in relation.link_name], np.int32),
        fixed_vcs=(),
        bubble=True,
    )
    with pytest.raises(DeadlockError, match="can form a cycle"):
        prove(ring)


def test_a_group_that_is_no_ring_is_no_exception() -> None:
    """All links of a torus in one group: packets turn within it, so the empty slot may be in another ring."""
    relation = torus([4, 4]).routed("bubble").relation
    with pytest.raises(DeadlockError, match="can form a cycle"):
        prove(dataclasses.replace(relation, link_group=relation.link_group * 0))


def test_networks_without_a_ring() -> None:
    assert "bubble" not in build("mesh", [3, 3]).routings
    with pytest.raises(InputError, match="requires a dimension that is a ring"):
        bubble(build("mesh", [3, 3]).relation)


TRAFFIC = uniform(8, 2000, seed=3)


def with_the_rule(net: Topology, rule: bool) -> Topology:
    return net if rule else dataclasses.replace(net, relation=plain(net.relation))


@pytest.mark.parametrize("vcs", [1, 2])
@pytest.mark.parametrize("rule", [True, False])
def test_one_way_ring_full_of_packets(vcs: int, rule: bool) -> None:
    """All messages at once: with the rule every one arrives, without it they wait for each other."""
    net = with_the_rule(torus([8], bidirectional=False).routed("bubble"), rule)
    expected = "delivered" if rule else "deadlock"
    assert ends(net, TRAFFIC, flits=4, sizes=(1, 4, 3), vcs=vcs, buffer=5) == expected


@settings(max_examples=part_of(20), deadline=None)
@given(
    st.sampled_from([[6], [4, 4], [3, 5], [3, 3, 2]]),
    st.booleans(),
    st.integers(1, 3),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.integers(0, 3),
    st.sampled_from(["booksim", "garnet"]),
    st.integers(0, 99),
)
def test_nothing_deadlocks(
    shape: list[int],
    bidirectional: bool,
    vcs: int,
    sizes: list[int],
    slots: int,
    pipeline: str,
    seed: int,
) -> None:
    """The smallest buffers, packets of any length, everything sent at once."""
    net = torus(shape, bidirectional=bidirectional).routed("bubble")
    router: dict[str, Any] = {"vcs": vcs, "buffer": max(sizes) + 1 + slots, "pipeline": pipeline}
    traffic = uniform(net.npus, 600, seed)
    assert ends(net, traffic, flits=max(sizes), sizes=tuple(sizes), **router) == "delivered"


@pytest.mark.parametrize(
    ("router", "fault"),
    [
        ({"flow_control": "virtual-cut-through"}, "flow_control: cannot be combined .*; allowed: 'wormhole'"),
        ({"vc_reuse": "drained"}, "vc_reuse: cannot be combined with routing bubble; allowed: 'tail'"),
        ({"ordered": True}, "ordered: cannot be combined with routing bubble; allowed: false"),
        ({"shared_buffer": 4, "buffer": 8}, "shared_buffer: cannot be combined with routing bubble; allowed: 0"),
        ({"buffer": 4}, "buffer: routing bubble requires buffers of a packet and one more slot: 5 flits, not 4"),
    ],
)
def test_settings_that_would_lose_the_empty_slot(router: dict[str, Any], fault: str) -> None:
    network = {"topology": "ring", "shape": [4], "flit": "32 B", "packet": "128 B"}
    experiment = {
        "network": {**network, "router": {"routing": "bubble", **router}},
        "collective": {"kind": "all-reduce", "size": "1 KiB"},
    }
    with pytest.raises(InputError, match=fault):
        run(experiment)
