"""Which experiments are taken apart, and that nobody sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyxsim.network.packet import congruent_groups
from pyxsim.network.packet import independent_groups as apart
from pyxsim.network.packet.packet_network import PacketNetwork
from pyxsim.runner.closed_run import announce_traffic
from pyxsim.runner.prepare import prepare
from pyxsim.runner.prepared import Prepared
from pyxsim.settings import load_experiment
from tests.examples import part_of
from tests.runner.test_fast_forward import compare

RINGS: dict[str, Any] = {
    "network": {
        "topology": "torus",
        "shape": [3, 4],
        "flit": "64 B",
        "packet": "256 B",
        "bandwidth": "50 GB/s",
        "latency": "10 ns",
    },
    "system": {"chunks": 2, "endpoint_delay": "10 ns"},
    "collective": {"kind": "all-reduce", "size": "4 MiB"},
    "output": {"window": "100 ns"},
}


@pytest.fixture(autouse=True)
def unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not fold congruent groups, as these tests are of the groups of runs that do not fold."""
    monkeypatch.setattr(congruent_groups, "LEAST_FLIT_HOPS", 1 << 60)


def changed(**tables: dict[str, Any]) -> dict[str, Any]:
    return {**RINGS, **{name: {**RINGS.get(name, {}), **table} for name, table in tables.items()}}


def groups_of(experiment: dict[str, Any]) -> int:
    """How many engines simulate it."""
    prepared = prepare(load_experiment(experiment))
    assert isinstance(prepared, Prepared)
    assert isinstance(prepared.network, PacketNetwork)
    announce_traffic(prepared)
    return len(prepared.network.parts.parts) if prepared.network.parts else 1


def test_each_dimension_of_rings_is_simulated_for_itself() -> None:
    assert groups_of(RINGS) == 2
    assert groups_of(changed(network={"shape": [3, 4, 3]}, collective={"size": "16 MiB"})) == 3
    assert groups_of(changed(network={"lanes": "per-dimension"})) == 2


@pytest.mark.parametrize(
    "tables",
    [
        {"network": {"shape": [12]}},  # one dimension
        {"network": {"lanes": 1}},  # both go through the same lanes
        {"collective": {"size": "64 KiB"}},  # over before anything repeats
        {"network": {"bandwidth": "50 GiB/s"}},  # whose fraction of a cycle takes long to come back
        {"system": {"chunks": 1}},  # which is in one dimension at a time
        {"collective": {"kind": "all-to-all"}, "system": {"all_to_all": "direct"}},  # links have messages of several
        {"run": {"skip": False}},
        {"run": {"threads": 2}},
        {"output": {"attribution": "links"}},
        {"network": {"router": {"va_allocator": "islip:1"}}},  # one matrix for all ports of a router
        {"network": {"router": {"sa_allocator": "wavefront"}}},
    ],
)
def test_what_stays_in_one_piece(tables: dict[str, Any]) -> None:
    assert groups_of(changed(**tables)) == 1


def test_dimensions_are_connected_by_ways_and_lanes() -> None:
    lanes = np.arange(4)
    assert apart._connected(np.array([1, 2, 1, 4]), lanes, lanes).tolist() == [0, 1, 0, 2]
    assert apart._connected(np.array([1, 2, 3, 4]), lanes, lanes).tolist() == [0, 0, 0, 1]
    assert apart._connected(np.array([1, 2, 1, 4]), np.array([0, 1, 2, 1]), lanes).tolist() == [0, 1, 0, 1]
    assert apart._connected(np.array([1, 2, 4, 8]), np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])).tolist() == [
        *(0, 0, 0, 1)
    ]


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    network = {
        "shape": draw(st.sampled_from([[3, 3], [4, 3], [2, 4], [3, 2, 4]])),
        "packet": draw(st.sampled_from(["64 B", "256 B", "1 KiB"])),
        "bandwidth": draw(st.sampled_from(["64 GB/s", "50 GB/s", "25.6 GB/s"])),
        "latency": f"{draw(st.integers(1, 40))} ns",
        "lanes": draw(st.sampled_from(["per-link", "per-dimension"])),
        "router": {"vcs": draw(st.sampled_from([2, 4])), "buffer": draw(st.sampled_from(["auto", 4, 16]))},
    }
    system = {
        "chunks": draw(st.integers(1, 6)),
        "active_chunks": draw(st.integers(1, 4)),
        "endpoint_delay": f"{draw(st.integers(0, 60))} ns",
        "optimization": draw(st.sampled_from(["baseline", "localBWAware"])),
    }
    kind = draw(st.sampled_from(["all-reduce", "all-gather", "reduce-scatter"]))
    return changed(
        network=network,
        system=system,
        collective={"kind": kind, "size": f"{draw(st.integers(50, 800))} kB"},
        output={"window": f"{draw(st.integers(5, 3000))} ns"},
    )


def same(folder: Path, examples: int) -> int:
    """Random rings, each dimension for itself, are as in one piece with every cycle simulated; returns how often."""
    count = 0

    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    @given(experiment=experiments())
    def each(experiment: dict[str, Any]) -> None:
        nonlocal count
        count += groups_of(experiment) > 1
        compare(experiment, folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apart, "LONG", 0)
        patch.setattr(apart, "PERIODS", 0)
        patch.setattr(apart, "PATH_FILLINGS", 0)
        each()
    return count


def test_random_rings_are_the_same_apart_and_in_one_piece(tmp_path: Path) -> None:
    assert same(tmp_path, part_of(12)) > 0


@pytest.mark.slow
def test_many_random_rings_are_the_same_apart_and_in_one_piece(tmp_path: Path) -> None:
    assert same(tmp_path, 150) > 0


def test_long_rings_skip_more_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = changed(network={"shape": [4, 4]}, system={"chunks": 4}, collective={"size": "8 MiB"})
    assert groups_of(several) == 2
    parts = compare(several, tmp_path).counts["skipped_visits"]
    monkeypatch.setattr(apart, "LONG", 1 << 60)
    assert groups_of(several) == 1
    assert parts > compare(several, tmp_path).counts["skipped_visits"]


def test_messages_are_long_beside_what_their_way_holds() -> None:
    """Of the flits that stand on the way alone nobody knows when they arrive: the engines would wait for each other."""
    for flits, pieces in ((100, 2), (1000, 1)):  # in a buffer; a message has 65,536
        router = {"pipeline": "booksim", "vcs": 4, "buffer": flits}
        assert groups_of(changed(network={"shape": [4, 4], "router": router}, collective={"size": "32 MiB"})) == pieces
