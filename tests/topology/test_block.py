"""Blocks check what their authors write, and route by shortest paths where nothing else is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyxsim.errors import InputError
from pyxsim.topology import Block, product

PAIR: dict[str, Any] = {"name": "pair", "npus": 2, "src": np.array([0, 1]), "dst": np.array([1, 0])}


def test_defaults() -> None:
    block = Block(**PAIR)
    assert block.next.tolist() == [[[-1, 0], [1, -1]]]
    assert block.vc_class.tolist() == [[[0, 0], [0, 0]]]
    assert (block.planes, block.links, block.routers, block.switches, block.classes) == (1, 2, 2, 0, 1)
    assert block.next.dtype == block.src.dtype == np.int32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"npus": 0}, "a dimension of 0 NPUs"),
        ({"switches": -1}, "-1 switches"),
        ({"src": np.array([0.0, 1.0])}, "src is not an array of integers"),
        ({"src": np.array([0])}, "expected one router per link"),
        ({"dst": np.array([1, 2])}, "starts or ends outside routers 0 to 1"),
        ({"dst": np.array([1, 1])}, "link 1 leads from a router to itself"),
        ({"link_names": ["+"]}, "1 link names for 2 links"),
        ({"next": np.array([-1, 0, 1, -1])}, "next has shape (4,)"),
        ({"next": np.array([[-1, 0, 0], [1, -1, 0]])}, "next has shape (1, 2, 3); expected (planes, routers, NPUs)"),
        ({"next": np.array([[-1, 2], [1, -1]])}, "next contains a link outside 0 to 1"),
        ({"next": np.array([[-1, 1], [1, -1]])}, "next[0, 0, 1] is link 1, which does not leave router 0"),
        ({"vc_class": np.array([[0, 1], [0, 0]])}, "a VC class is outside 0 to 0"),
        ({"vc_class": np.zeros((2, 2, 2), int)}, "next has shape (1, 2, 2) and vc_class (2, 2, 2)"),
        ({"classes": 0}, "a VC class is outside"),
        ({"directions": 2}, "2 directions require 2 planes; the block has 1"),
    ],
)
def test_faults(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Block(**{**PAIR, **change})
    assert words in str(caught.value)


def test_from_links_names_parallel_links_and_takes_the_first_of_equals() -> None:
    # A square 0-1-2-3 with a double link 0-1. Opposite corners have two shortest ways; the links listed first win:
    # from 0 to 2 by 0->1 (link 0), from 1 to 3 by 1->0 (link 1).
    block = Block.from_links("square", 4, [(0, 1), (0, 1), (1, 2), (2, 3), (3, 0)], algorithm="ring")
    assert list(zip(block.src, block.dst, strict=True))[:4] == [(0, 1), (1, 0), (0, 1), (1, 0)]
    assert block.link_names == ["", "", "#1", "#1", "", "", "", "", "", ""]
    assert block.next[0, 0].tolist() == [-1, 0, 0, 9]
    assert block.next[0, 1].tolist() == [1, -1, 4, 1]
    assert block.algorithm == "ring"
    assert [block.src.tolist().count(npu) for npu in range(4)] == [3, 3, 2, 2]
    names = product("square", [block]).link_name
    assert names[:4] == ["d0:(0)->(1)", "d0:(1)->(0)", "d0#1:(0)->(1)", "d0#1:(1)->(0)"]
    assert len(set(names)) == len(names)


def test_from_links_one_way_and_with_switches() -> None:
    # 0 -> 1 -> switch 2 -> 0, one way: from 0 to 1 one hop, from 1 to 0 two.
    block = Block.from_links("loop", 2, [(0, 1), (1, 2), (2, 0)], switches=1, both_ways=False)
    assert block.next.tolist() == [[[-1, 0], [1, -1], [2, 2]]]
