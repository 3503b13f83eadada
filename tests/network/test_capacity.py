"""The bandwidth that an all-gather can have at best, on networks whose bottleneck is known."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.cli.topology import find_topology
from pyxsim.network.capacity import MOST_CUT, capacity_of
from pyxsim.settings import load_experiment
from pyxsim.topology.build import network_of

GB = 10**9
LOAD = {"kind": "all-reduce", "size": "1 B"}


def all_gather(network: dict[str, Any]) -> int | None:
    settings = load_experiment({"network": network, "collective": LOAD}).network
    return capacity_of(network_of(settings, None), settings).all_gather


@pytest.mark.parametrize(
    ("network", "gb"),
    [
        # The links into an NPU carry what the n - 1 others have.
        ({"topology": "torus", "shape": [4, 4], "bandwidth": "100 GB/s"}, 4 * 100 * 16 / 15),
        ({"topology": "ring", "shape": [6], "bandwidth": "100 GB/s"}, 2 * 100 * 6 / 5),
        ({"topology": "switch", "shape": [8], "bandwidth": "300 GB/s"}, 300 * 8 / 7),
        # Half of the NPUs of a line: its middle link carries what they have. Of a mesh: a corner has two links.
        ({"topology": "mesh", "shape": [8], "bandwidth": "100 GB/s"}, 100 * 8 / 7),
        ({"topology": "mesh", "shape": [3, 3], "bandwidth": "100 GB/s"}, 200 * 9 / 8),
        # Two servers of four, whose links between them are the bottleneck: 4 of 25 GB/s for a half of the data.
        (
            {
                "dims": [
                    {"block": "switch", "npus": 4, "bandwidth": "300 GB/s"},
                    {"block": "switch", "npus": 2, "bandwidth": "25 GB/s"},
                ]
            },
            4 * 25 * 8 / 4,
        ),
    ],
)
def test_closed_forms(network: dict[str, Any], gb: float) -> None:
    assert all_gather(network) == int(gb * GB)


def test_none_for_networks_whose_cut_takes_long() -> None:
    assert all_gather({"topology": "ring", "shape": [MOST_CUT], "bandwidth": "1 GB/s"}) is not None
    assert all_gather({"topology": "ring", "shape": [MOST_CUT + 1], "bandwidth": "1 GB/s"}) is None


def test_routers_that_npus_share() -> None:
    """An NPU behind a shared router has a link of its own."""
    options = tuple(f"network.options.{name}" for name in ("p=2", "a=4", "h=1"))
    topology, network, _ = find_topology("dragonfly", None, options, [])
    found = capacity_of(topology, network)
    assert found.all_gather is not None
    assert found.all_gather <= found.npu // 2 * topology.npus // (topology.npus - 1)
