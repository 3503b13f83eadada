"""Host links: NPUs of indirect topologies are two links apart at least, in every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyxsim import run
from pyxsim.errors import InputError

LEAF_SPINE = {"topology": "leaf-spine", "options": {"npus": 4, "leaves": 3, "spines": 2}}
INDIRECT: list[dict[str, Any]] = [
    LEAF_SPINE,
    {"topology": "folded-clos", "options": {"children": [2, 2, 2], "parents": [2, 2]}},
    {"topology": "k-ary-n-tree", "options": {"k": 2, "n": 2}},
    {"topology": "dragonfly", "options": {"p": 2, "a": 2, "h": 1}},
    {"topology": "slim-fly", "options": {"q": 3}},
    {"topology": "random-regular", "options": {"routers": 4, "degree": 2, "p": 2}},
    {"topology": "hyperx", "options": {"routers": [2, 2], "concentration": 2}},
    {"topology": "concentrated-mesh", "options": {"routers": [2, 2], "concentration": 2}},
]
BACKENDS = ["packet", "reference", "analytical", "analytical-congestion", "flow"]
ROUTER = 3  # cycles of RC, VA and ST of the only router; SA takes the cycle in which a flit is at the front


def send(network: dict[str, Any], backend: str, *messages: tuple[int, int, str]) -> Any:
    rows = [{"src": src, "dst": dst, "size": size} for src, dst, size in messages]
    settings = {"bandwidth": "64 GB/s", "latency": "500 ns", "flit": "64 B", "packet": "64 B", **network}
    return run({"network": settings, "message": rows, "system": {"endpoint_delay": "0 ns"}}, backend=backend)


@pytest.mark.parametrize("network", INDIRECT, ids=lambda network: network["topology"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_64_bytes_within_a_leaf_take_two_host_links(network: dict[str, Any], backend: str) -> None:
    """Two latencies of 500 ns and 64 B at 64 B per ns; a flit is serialised again in the router, after its stages."""
    cycles = 2 * 500 + 1
    if backend in ("packet", "reference"):
        cycles += 1 + ROUTER
    assert send(network, backend, (0, 1, "64 B")).time_ns == cycles


@pytest.mark.parametrize("backend", BACKENDS)
def test_levels_have_their_own_bandwidth_and_latency(backend: str) -> None:
    """`host` comes first: 64 B at 32 B per ns, 100 ns each way."""
    network = {**LEAF_SPINE, "bandwidth": ["32 GB/s", "64 GB/s"], "latency": ["100 ns", "500 ns"]}
    stages = 2 + ROUTER if backend in ("packet", "reference") else 0
    assert send(network, backend, (0, 1, "64 B")).time_ns == 2 * 100 + 2 + stages


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_incast_shows_at_the_host_link(backend: str) -> None:
    """Three NPUs send 4 KiB each to NPU 0: 3 * 64 flits of 64 B on its host link, more than on any other link."""
    result = send(LEAF_SPINE, backend, (1, 0, "4 KiB"), (2, 0, "4 KiB"), (3, 0, "4 KiB"))
    busiest = int(np.argmax(result.totals["flits"]))
    assert result.links.name[busiest] == "host:(0)->NPU 0"
    assert result.totals["flits"][busiest] == 3 * 64
    assert (result.links.src[busiest], result.links.dst[busiest], result.links.dim[busiest]) == (0, -1, 0)
    assert result.link_kinds == ["host", "level1"]
    assert len(result.links) == 2 * 3 * 2 + 2 * 12


def test_periods_that_are_skipped_count_on_host_links() -> None:
    tables = {
        "network": {**LEAF_SPINE, "flit": "4 B", "packet": "64 B", "bandwidth": "4 GB/s", "latency": "10 ns"},
        "collective": {"kind": "all-reduce", "size": "64 KiB"},
    }
    skipped, simulated = run(tables), run({**tables, "run": {"skip": False}})
    assert skipped.counts["skipped_cycles"]
    for name, counts in simulated.windows.counts.items():
        assert (skipped.windows.counts[name] == counts).all()


@pytest.mark.parametrize("lanes", [{"host_links": False}, {"lane_latency": "1 cycle"}, {"lanes": 1}])
def test_lanes_replace_host_links(lanes: dict[str, Any]) -> None:
    result = send({**LEAF_SPINE, **lanes}, "packet", (0, 1, "64 B"))
    assert result.time_ns == 2 * 1 + 2 + ROUTER
    assert len(result.links) == 2 * 3 * 2


def test_a_list_without_host_links_is_refused() -> None:
    with pytest.raises(InputError, match=r"2 kinds of links \(host, level1\); host_links = false removes 'host'"):
        send({**LEAF_SPINE, "latency": ["500 ns"]}, "packet", (0, 1, "64 B"))
