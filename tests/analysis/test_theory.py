"""Zero-load latency and the bound of the load, against formulas."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import PreparedTraffic
from pyxsim.runner.traffic.open_loop import Study, traffic_bound
from pyxsim.settings import load_experiment

NETWORK: dict[str, Any] = {
    "topology": "torus",
    "shape": [8, 8],
    "bandwidth": "256 GB/s",
    "latency": "2 cycles",
    "flit": "256 B",
    "packet": "1280 B",
    "router": {"vcs": 4, "buffer": 8},
}


def prepared(network: dict[str, Any] | None = None, **traffic: Any) -> PreparedTraffic:
    router = {**NETWORK["router"], **(network or {}).pop("router", {})} if network else NETWORK["router"]
    source = {"network": {**NETWORK, **(network or {}), "router": router}, "traffic": {"load": 0.1, **traffic}}
    found = prepare(load_experiment(source))
    assert isinstance(found, PreparedTraffic)
    return found


def zero_load(network: dict[str, Any] | None = None, **traffic: Any) -> float:
    theory = Study(prepared(network, **traffic)).theory
    assert theory is not None
    return theory.zero_load


def test_zero_load_latency_of_tori_and_meshes() -> None:
    # 7 + (H - 1) * (4 + D) + (n - 1), docs/router.md; H - 1 is k/4 in each dimension of a torus, (k - 1/k)/3 of a mesh.
    assert zero_load(packet_flits=5) == pytest.approx(7 + 4 * 6 + 4)
    assert zero_load({"topology": "mesh"}) == pytest.approx(7 + 2 * (8 - 1 / 8) / 3 * 6)
    assert zero_load({"shape": [4, 4, 4]}, packet_flits=[1, 3]) == pytest.approx(7 + 3 * 6 + 1)
    assert zero_load(pattern="tornado") == pytest.approx(7 + 6 * 6)
    # A flit takes two cycles on every link and lane: one more each for the head, two for each body flit.
    assert zero_load({"bandwidth": "128 GB/s"}, packet_flits=5) == pytest.approx(7 + 4 * 6 + 6 + 4 * 2)
    # Speculation: one cycle less in every router.
    assert zero_load({"router": {"va_allocator": "islip", "speculation": True}}) == pytest.approx(7 + 4 * 6 - 5)


def test_zero_load_latency_of_classes_counts_packets() -> None:
    # Twice as many packets of one flit over five routers as packets of two flits over seven.
    classes = [{"load": 0.1, "packet_flits": 1}, {"load": 0.1, "packet_flits": 2, "pattern": "tornado"}]
    expected = (2 * 31 + (7 + 36 + 1)) / 3
    assert zero_load(classes=classes) == pytest.approx(expected)


def test_a_large_network_is_sampled() -> None:
    exact = 7 + 2 * 18 / 4 * 6
    assert zero_load({"shape": [18, 18]}) == pytest.approx(exact, rel=0.03)


BOUNDS: list[tuple[dict[str, Any], dict[str, Any], float]] = [
    # Dally and Towles, chapter 3: 8/k for a torus, 4/k for a mesh, and what comes out of a node.
    ({}, {}, 1.0),
    ({"topology": "mesh"}, {}, 0.5),
    ({"shape": [16, 4]}, {}, 0.5),
    ({}, {"pattern": "tornado"}, 1 / 3),
    ({}, {"pattern": "neighbor"}, 1.0),
    ({"topology": "mesh"}, {"pattern": "bit-complement"}, 0.25),
    ({"router": {"routing": "valiant"}}, {}, 0.5),
    ({"router": {"routing": "valiant"}}, {"pattern": "tornado"}, 0.5),
    ({"bandwidth": "128 GB/s"}, {"pattern": "tornado"}, 1 / 6),
    # All 64 nodes to one, which takes a flit per cycle.
    ({}, {"pattern": "hotspot", "pattern_options": {"nodes": [0]}}, 1 / 64),
]


@pytest.mark.parametrize(("network", "traffic", "expected"), BOUNDS)
def test_bounds(network: dict[str, Any], traffic: dict[str, Any], expected: float) -> None:
    assert traffic_bound(prepared(dict(network), **traffic)) == pytest.approx(expected)


def test_uniform_traffic_needs_no_matrix_and_other_traffic_of_many_nodes_is_not_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_matrix(*_: object, **__: object) -> None:
        raise AssertionError("a matrix of all pairs")

    # Uniform in two classes: of the matrix; alike for all nodes: without.
    networks: list[dict[str, Any]] = [{"shape": [6, 5]}, {"topology": "mesh", "shape": [4, 3]}, {"lanes": 1}]
    asymmetric = {"pattern": "hotspot", "pattern_options": {"nodes": [0], "share": 0}}  # of which nothing is left
    by_matrix = [traffic_bound(prepared(network, **asymmetric)) for network in networks]
    monkeypatch.setattr("pyxsim.analysis.theory._matrix", no_matrix)
    monkeypatch.setattr("pyxsim.analysis.theory.MOST_PAIRS", 63)
    assert [traffic_bound(prepared(network, pattern="uniform")) for network in networks] == pytest.approx(by_matrix)
    assert traffic_bound(prepared()) == pytest.approx(1.0)
    assert traffic_bound(prepared(pattern="tornado")) is None
    assert traffic_bound(prepared({"router": {"routing": "minimal-adaptive", "vc_reuse": "drained"}})) is None
