"""The clock of experiments that give none: every link carries its bandwidth."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import pyxsim
from pyxsim import library
from pyxsim.network.clock import with_clock
from pyxsim.settings import Network, load_experiment
from pyxsim.topology.build import network_of


def chosen(**keys: Any) -> tuple[float, list[str]]:
    library.load_all()
    settings = Network(topology="torus", shape=[4, 4], **keys)
    network, notes = with_clock(settings, network_of(settings))
    return float(network.clock / 10**9), notes


@pytest.mark.parametrize(
    ("keys", "ghz"),
    [
        ({}, 1),
        ({"bandwidth": "256 GB/s"}, 1),
        ({"bandwidth": "257 GB/s"}, 2),
        ({"bandwidth": "1.8 TB/s"}, 8),  # 1800 / 256 = 7.03
        ({"bandwidth": "1.8 TB/s", "flit": "1 KiB"}, 2),
        ({"bandwidth": ["100 GB/s", "600 GB/s"]}, 3),
        ({"lane_bandwidth": "300 GB/s"}, 2),
    ],
)
def test_the_clock_carries_the_widest_link(keys: dict[str, Any], ghz: float) -> None:
    clock, notes = chosen(**keys)
    assert clock == ghz
    assert len(notes) == (ghz > 1)


def test_links_with_a_bandwidth_of_their_own_count_and_unused_kinds_do_not() -> None:
    library.load_all()
    settings = Network(topology="mesh", shape=[3], bandwidth="900 GB/s")
    topology = replace(network_of(settings), link_bandwidth=("100 GB/s", "300 GB/s", "1 GB/s", "2 GB/s"))
    assert with_clock(settings, topology)[0].clock == 2 * 10**9


def experiment(**network: Any) -> dict[str, Any]:
    keys = {"topology": "ring", "shape": [4], "bandwidth": "450 GB/s", "latency": "10 ns", **network}
    return {"network": keys, "collective": {"kind": "all-gather", "size": "4 MiB"}}


def test_a_wide_link_carries_its_bandwidth_on_every_backend() -> None:
    """Each NPU of a ring of 4 forwards 3 blocks of 4 MiB in one direction: 12 MiB / 450 GB/s = 27.96 us."""
    least = Fraction(12 * 2**20, 450)  # ns
    for backend in ("packet", "analytical", "analytical-congestion", "flow"):
        result = pyxsim.run(experiment(), backend=backend, overrides=["system.chunks=1", "collective.algorithm=ring"])
        assert least <= result.time_ns <= least * Fraction(101, 100), backend
        assert any("network.clock: 2 GHz instead of 1 GHz" in text for text in result.warnings)


def test_an_explicit_clock_is_kept_and_a_wider_link_refused() -> None:
    with pytest.raises(pyxsim.InputError, match="450 GB/s is more than a flit of 256 B per cycle of 1 GHz"):
        pyxsim.run(experiment(clock="1 GHz"))
    assert pyxsim.run(experiment(clock="1.8 GHz")).clock_hz == 1_800_000_000


def test_a_chosen_clock_is_not_written_before_it_is_chosen() -> None:
    read = load_experiment(experiment())
    assert "clock" not in read.to_toml()
    assert 'clock = "2 GHz"' in pyxsim.run(read).experiment_toml
    assert pyxsim.run(load_experiment(experiment(clock="2 GHz"))).time_ns == pyxsim.run(read).time_ns


def test_a_comparison_shows_the_clock_and_its_warning() -> None:
    comparison = pyxsim.compare(experiment(), backends=["packet", "analytical"])
    (point,) = comparison.points
    assert point.clock_hz == 2 * 10**9
    assert [text for text in point.warnings if "network.clock" in text] == [
        "network.clock: 2 GHz instead of 1 GHz, so that a flit of 256 B per cycle carries 450 GB/s"
    ]
    packet = point.result("packet")
    assert packet is not None
    cycles = point.cycles("packet")
    assert cycles is not None
    assert point.ns(Fraction(cycles)) == pytest.approx(float(packet.time_ns), abs=1)
