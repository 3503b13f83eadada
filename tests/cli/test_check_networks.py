"""`pyxsim check` of routings, kinds of links and open traffic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.inputs import Command

TRAFFIC = """
[network]
topology = "torus"
shape = [4, 4]
flit = "16 B"
bandwidth = "16 GB/s"
latency = "2 ns"

[network.router]
vcs = 8
buffer = 8

[traffic]
load = 0.2
packet_flits = 4
"""

DRAGONFLY = """
[network]
topology = "dragonfly"
options = { p = 2, a = 2, h = 1 }
bandwidth = ["64 GB/s", "64 GB/s", "256 GB/s"]

[network.router]
routing = "valiant"
vcs = 8

[collective]
kind = "all-to-all"
size = "64 KiB"
"""


@pytest.fixture
def files(folder: Path) -> None:
    (folder / "traffic.toml").write_text(TRAFFIC, encoding="utf-8")
    (folder / "dragonfly.toml").write_text(DRAGONFLY, encoding="utf-8")


@pytest.mark.usefixtures("files")
def test_the_routing_is_told(pyxsim: Command) -> None:
    data = json.loads(pyxsim("check", "small.toml", "--json").out)
    assert data["routing"] == {
        "name": "dimension-order",
        "deterministic": True,
        "ways": 1,
        "vc_classes": 2,
        "virtual_networks": [4],
        "vc_ranges": [[[0, 2], [2, 4]]],
    }
    ended = pyxsim(
        "check", "small.toml", "--set", "network.router.vcs=8", "--set", "network.router.virtual_networks=[2, 6]"
    )
    text = " ".join(ended.err.split())
    assert "dimension-order: one route for each pair; 2 VC classes, VCs 0, 1 and 2-4, 5-7" in text
    assert "warning: network.router.virtual_networks: collectives use only the first one" in text


@pytest.mark.usefixtures("files")
def test_a_routing_with_choices_and_kinds_of_links(pyxsim: Command) -> None:
    text = " ".join(pyxsim("check", "dragonfly.toml").err.split())
    assert "routing valiant: packets choose between routes" in text
    assert "proved free of deadlock" in text
    for kind in ("host", "local", "global"):
        assert f"{kind} links: " in text
    data = json.loads(pyxsim("check", "dragonfly.toml", "--json").out)
    assert [buffer["name"] for buffer in data["buffers"]] == ["host", "local", "global"]
    assert data["routing"]["deterministic"] is False


@pytest.mark.usefixtures("files")
def test_open_traffic(pyxsim: Command) -> None:
    ended = pyxsim("check", "traffic.toml")
    assert ended.code == 0, ended.err
    text = " ".join(ended.err.split())
    # Uniform traffic on a 4 x 4 torus: 2 links on average, 3 routers of 4 cycles, latencies 2 * 2 + 1 + 1, 4 flits.
    assert "latency 22.0 cycles at zero load" in text
    # Each of 64 links carries 16 * 2 / 64 of what a node sends; a lane carries one flit per cycle.
    assert "1.000 flits per node and cycle, at which the busiest link or lane saturates" in text
    assert "256 pairs of NPUs: all reachable; proved free of deadlock" in text
    data = json.loads(pyxsim("check", "traffic.toml", "--json").out)
    assert (data["ok"], data["deadlock_free"]) == (True, True)
    assert data["zero_load_latency"] == pytest.approx(22.0)
    assert data["load_bound"] == pytest.approx(1.0)


@pytest.mark.usefixtures("files")
def test_an_adaptive_routing_out_of_reach_of_its_escape(pyxsim: Command) -> None:
    adaptive = ("--set", "network.router.routing=minimal-adaptive")
    ended = pyxsim("check", "traffic.toml", *adaptive)
    assert ended.code == 3
    assert "the routes can deadlock" in ended.err
    ended = pyxsim("check", "traffic.toml", *adaptive, "--set", "network.router.vc_reuse=drained")
    assert ended.code == 0, ended.err
