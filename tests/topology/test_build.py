"""Names and tables of an experiment file become a network, or a fault with its key."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.registry import blocks, topologies
from pyxsim.topology import Topology, build
from tests.in_turn import in_turn
from tests.topology.nets import block


def test_a_topology_by_name() -> None:
    assert build("torus", [4, 3]).shape == (4, 3)
    assert build("torus", [4, 3], options={"bidirectional": False}).links == 2 * 12
    assert build("torus", [4, 3], options={"bidirectional": None}).links == 4 * 12


def test_a_product_of_blocks() -> None:
    dims = [{"block": "ring", "npus": 4, "bidirectional": False}, {"block": "switch", "npus": 3, "bidirectional": None}]
    net = build(None, None, dims)
    assert net.name == "ring x switch"
    assert net.shape == (4, 3)
    assert [b.directions for b in net.dims] == [1, 1]
    assert net.link_name[:1] == ["d0+:(0,0)->(1,0)"]


@in_turn(
    ("arguments", "key", "words"),
    [
        ({"name": "torsu", "shape": [4]}, "network.topology", "unknown topology 'torsu'"),
        ({"name": "torsu", "shape": [4]}, "network.topology", "did you mean 'torus'?"),
        ({"name": None}, "network.topology", "the network has neither topology nor dims"),
        ({"name": None, "dims": []}, "network.topology", "the network has neither topology nor dims"),
        ({"name": "torus", "dims": [{"block": "ring", "npus": 2}]}, "network.topology", "both a topology and dims"),
        ({"name": None, "shape": [2], "dims": [{"block": "ring", "npus": 2}]}, "network.shape", "both shape and dims"),
        ({"name": "torus"}, "network.shape", "the shape is missing"),
        ({"name": "torus", "shape": []}, "network.shape", "the shape is empty"),
        ({"name": "torus", "shape": [4, 0]}, "network.shape", "a dimension of 0 NPUs"),
        ({"name": "ring", "shape": [4, 4]}, "network.shape", "2 dimensions; allowed: a list of one number"),
        ({"name": "switch", "shape": [4, 4]}, "network.shape", "2 dimensions"),
        ({"name": "fully-connected", "shape": [4, 4]}, "network.shape", "2 dimensions"),
        ({"name": "mesh", "shape": [4, "x"]}, "network.shape", "'x' is not a number of NPUs"),
        (
            {"name": "torus", "shape": [4], "options": {"bidirektional": True}},
            "network.options.bidirektional",
            "unknown option; allowed: bidirectional; did you mean 'bidirectional'?",
        ),
        ({"name": "mesh", "shape": [4], "options": {"k": 1}}, "network.options.k", "allowed: none"),
        (
            {"name": "torus", "shape": [4], "options": {"bidirectional": 1}},
            "network.options.bidirectional",
            "1 is neither true nor false; allowed: true or false",
        ),
        ({"name": None, "dims": [{"npus": 4}]}, "network.dims[0]", "'block' is missing"),
        ({"name": None, "dims": [{"block": "ring"}]}, "network.dims[0]", "'npus' is missing"),
        (
            {"name": None, "dims": [{"block": "ring", "npus": 2}, {"block": "rign", "npus": 4}]},
            "network.dims[1].block",
            "did you mean 'ring'?",
        ),
        ({"name": None, "dims": [{"block": "ring", "npus": 0}]}, "network.dims[0].npus", "a dimension of 0 NPUs"),
        (
            {"name": None, "dims": [{"block": "switch", "npus": 2, "bidirectional": True}]},
            "network.dims[0].bidirectional",
            "unknown option",
        ),
    ],
)
def test_faults(arguments: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        build(**arguments)
    assert caught.value.key == key
    assert words in str(caught.value)


def test_what_a_users_file_may_get_wrong() -> None:
    @topologies.register("test-none")
    def none(shape: list[int]) -> None:
        return None

    @topologies.register("test-radix")
    def radix(shape: list[int], radix: int) -> Topology:
        return build("switch", shape)

    @blocks.register("test-list")
    def made_of_a_list(npus: int) -> list[int]:
        return [npus]

    try:
        with pytest.raises(InputError, match="'test-none' returned NoneType instead of Topology"):
            build("test-none", [4])
        with pytest.raises(InputError, match=r"network\.options: the option 'radix' is missing"):
            build("test-radix", [4])
        with pytest.raises(InputError, match="true is not a whole number; allowed: a whole number"):
            build("test-radix", [4], options={"radix": True})
        assert build("test-radix", [4], options={"radix": 2}).switches == 1
        with pytest.raises(InputError, match="'test-list' returned list instead of Block"):
            build(None, None, [{"block": "test-list", "npus": 4}])
    finally:
        topologies.discard(__name__)
        blocks.discard(__name__)


def test_blocks_are_made_by_the_shelf() -> None:
    assert build(None, None, [{"block": "ring", "npus": 4}]).dims[0].next.tolist() == block("ring", 4).next.tolist()
