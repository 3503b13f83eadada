"""Open traffic on the command line: run, --watch, curve, saturation."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path

import h5py
import pytest

from pyxsim.cli.curves import read_loads
from pyxsim.errors import InputError
from tests.cli.inputs import Command, Start, wait_for

TRAFFIC = """
[network]
topology = "torus"
shape = [4, 4]
bandwidth = "256 GB/s"
latency = "2 cycles"
flit = "256 B"
packet = "1280 B"

[network.router]
vcs = 4
buffer = 8

[traffic]
load = 0.2
packet_flits = 5
precision = 0.05
"""
# A torus that tells which process has built it.
TOLD = """
import os
from pathlib import Path
from pyxsim.registry import topologies
from pyxsim_library.topologies.torus import torus

@topologies.register("told")
def told(shape):
    with (Path(__file__).parents[2] / "built").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    return torus(shape)
"""
DEADLOCK = """
[network]
topology = "graph"
options = {file = "ring.txt"}

[network.router]
vcs = 1
buffer = 2
routing = "table"

[traffic]
pattern = "tornado"
load = 0.9
packet_flits = 6
"""
# docs/output.md, and the face of the program.
PROMISED = (
    "offered_load",
    "accepted_load",
    "packet_latency",
    "network_latency",
    "hops",
    "saturated",
    "packet_latency_p99",
    "packet_latency_interval",
    "warmup_cycles",
    "measured_cycles",
)


@pytest.fixture(autouse=True)
def experiment(folder: Path) -> None:
    (folder / "traffic.toml").write_text(TRAFFIC, encoding="utf-8")


def test_json(pyxsim: Command) -> None:
    ended = pyxsim("run", "traffic.toml", "--json")
    assert (ended.code, ended.err) == (0, "")
    data = json.loads(ended.out)
    assert set(PROMISED) <= set(data)
    assert data["complete"] is True
    assert data["saturated"] is False
    assert 23 < data["packet_latency"] < 27
    assert data["router_visits"] == pytest.approx(data["flits"] * 3, rel=0.02)


def test_a_summary(pyxsim: Command, folder: Path) -> None:
    ended = pyxsim("run", "traffic.toml", "-o", "out.h5", "--plot", "out.svg")
    assert ended.code == 0
    assert ended.lines[0].startswith("torus 4x4, uniform traffic at load 0.2")
    assert len(ended.lines) <= 32
    assert max(map(len, ended.lines)) <= 100
    with h5py.File(folder / "out.h5") as file:
        assert file["traffic"]["packets"].shape[0] == 1


def test_an_overloaded_network(pyxsim: Command) -> None:
    ended = pyxsim("run", "traffic.toml", "--json", "--set", "traffic.load=4")
    assert ended.code == 0
    data = json.loads(ended.out)
    assert data["saturated"] is True
    assert data["steady"] is False
    assert any("backlog grows" in line for line in data["warnings"])


def test_a_pattern_that_does_not_fit(pyxsim: Command) -> None:
    ended = pyxsim("run", "traffic.toml", "--set", "network.shape=[3, 4]", "--set", "traffic.pattern=shuffle")
    assert ended.code == 2
    assert ended.lines == [
        "pyxsim: --set: traffic.pattern: shuffle requires a power-of-two number of NPUs; the network has 12"
    ]
    ended = pyxsim("check", "traffic.toml", "--set", "traffic.pattern=toranado")
    assert ended.code == 2
    assert ended.lines[0].endswith("did you mean 'tornado'?")


def test_a_watched_packet(pyxsim: Command) -> None:
    words = ("run", "traffic.toml", "--set", "traffic.warmup=0", "--set", "traffic.measure=200")
    ended = pyxsim(*words, "--watch", "5")
    assert ended.code == 0
    assert ended.lines[0] == "packet 0 of message 5:"
    log = [line.split(maxsplit=1) for line in ended.lines[2 : ended.lines.index("")]]
    cycles = [int(cycle) for cycle, _ in log]
    assert cycles == sorted(cycles)
    assert "starts on VC" in log[0][1]
    assert log[-1][1].startswith("4  arrives over ejection lane of NPU")
    assert sum("wins the switch" in text for _, text in log) % 5 == 0
    took = next(line for line in ended.lines if line.startswith("packet 0 of message 5 took "))
    assert int(took.split()[6]) == cycles[-1] - int(log[0][0])  # it did not have to wait at the source
    data = json.loads(pyxsim(*words, "--watch", "5.0", "--json").out)
    assert len(data["watched"]) == len(log)
    assert data["watched"][0][1] == "opened"


def test_watching_what_is_not_there(pyxsim: Command) -> None:
    ended = pyxsim("run", "small.toml", "--watch", "999999")
    assert ended.lines[0] == "packet 0 of message 999999 was not sent in this run"
    ended = pyxsim("run", "small.toml", "--watch", "first")
    assert ended.code == 2
    told = "pyxsim: --watch: 'first' is not a packet; allowed: a message such as 17, or 17.2 for its packet 2"
    assert ended.lines == [told]


def test_watching_a_collective(pyxsim: Command) -> None:
    ended = pyxsim("run", "small.toml", "--watch", "3.2")
    assert ended.code == 0
    assert ended.lines[0] == "packet 2 of message 3:"


@pytest.mark.parametrize(
    ("text", "loads"),
    [("0.1", [0.1]), ("0.1,0.25", [0.1, 0.25]), ("0.1:0.3:0.1", [0.1, 0.2, 0.3]), ("0.05:0.2:0.1", [0.05, 0.15])],
)
def test_loads(text: str, loads: list[float]) -> None:
    assert read_loads(text) == loads


@pytest.mark.parametrize("text", ["", "a", "0", "-1", "0.1,,0.2", "1:2", "0.3:0.1:0.1", "0.1:0.2:0", "nan", "1e9"])
def test_no_loads(text: str) -> None:
    with pytest.raises(InputError, match="is not a list of loads"):
        read_loads(text)


def test_a_curve(pyxsim: Command, folder: Path) -> None:
    words = ("curve", "traffic.toml", "--loads", "0.1,0.3", "--workers", "1")
    ended = pyxsim(*words, "-o", "curve.csv", "--plot", "curve.png")
    assert (ended.code, ended.out) == (0, "")
    assert ended.lines[0] == "torus 4x4, uniform traffic"
    assert ended.lines[-1] == "wrote curve.csv and curve.png"
    with (folder / "curve.csv").open(encoding="utf-8") as file:
        assert [row["offered_load"] for row in csv.DictReader(file)] == ["0.1", "0.3"]
    ended = pyxsim(*words, "--json", "-o", "curve.h5")
    data = json.loads(ended.out)
    assert ended.err == ""
    assert [point["offered_load"] for point in data["points"]] == [0.1, 0.3]
    assert data["throughput_bound"] == pytest.approx(1)
    assert (data["saturation_low"], data["saturation_high"]) == (0.3, None)
    assert (folder / "curve.h5").exists()


def test_a_curve_as_a_picture_only(pyxsim: Command, folder: Path) -> None:
    ended = pyxsim("curve", "traffic.toml", "--loads", "0.1", "--workers", "2", "-o", "curve.png", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_loads_that_fail(pyxsim: Command, folder: Path) -> None:
    """A ring of 8 with one VC, whose packets are longer than its buffers: it locks up."""
    ring = "\n".join(f"r{i} r{(i + 1) % 8}" for i in range(8))
    (folder / "ring.txt").write_text(ring + "\n", encoding="utf-8")
    (folder / "ring.toml").write_text(DEADLOCK, encoding="utf-8")
    words = ("ring.toml", "--allow-deadlock")
    ended = pyxsim("curve", *words, "--loads", "0.5,0.9", "--workers", "1", "-o", "ring.csv")
    assert ended.code == 3
    assert ended.lines[-1] == "pyxsim: 2 of 2 loads failed"
    assert any(line.startswith("load 0.5: deadlock in cycle ") for line in ended.lines)
    with (folder / "ring.csv").open(encoding="utf-8") as file:
        assert all("deadlock" in row["error"] for row in csv.DictReader(file))
    data = json.loads(pyxsim("curve", *words, "--loads", "0.9", "--workers", "1", "--json").out)
    assert data["exit_code"] == 3
    assert data["errors"][0].startswith("load 0.9: deadlock in cycle ")
    assert len(data["points"]) == 1
    data = json.loads(pyxsim("run", *words, "--json", "--watch", "0").out)
    assert data["exit_code"] == 3
    assert data["watched"], "a deadlock is when one wants it"


def test_saturation(pyxsim: Command) -> None:
    hot = ("--set", "traffic.pattern=hotspot", "--set", "traffic.pattern_options={nodes=[5]}")
    ended = pyxsim("saturation", "traffic.toml", "--resolution", "0.02", "--workers", "1", "--threads", "2", *hot)
    assert ended.code == 0
    # One of 16 nodes takes it all: 1/16.
    low, high = (float(word) for word in ended.lines[-1].split()[2:5:2])
    assert low <= 0.0625 <= high + 0.002
    assert high - low <= 0.02


FAULTS = [
    (("curve", "traffic.toml"), "pyxsim: curve: neither --loads nor --auto is given; allowed: one of them"),
    (("curve", "traffic.toml", "--auto", "--loads", "1"), "pyxsim: curve: both --loads and --auto are given"),
    (("curve", "traffic.toml", "--loads", "x"), "pyxsim: --loads: 'x' is not a list of loads"),
    (
        ("curve", "traffic.toml", "--loads", "0.1", "-o", "traffic.toml"),
        "pyxsim: traffic.toml: '.toml' is not a format of a file; allowed: .h5, .hdf5, .nc, .json, .csv, .",
    ),
    (("curve", "small.toml", "--loads", "0.1"), "pyxsim: small.toml: traffic: the table [traffic] is missing"),
    (("saturation", "traffic.toml", "--resolution", "-1"), "pyxsim: --resolution: -1 is not a valid resolution"),
    (("saturation", "traffic.toml", "--threads", "0"), "pyxsim: --threads: '0' is not a number of threads"),
    (("run", "traffic.toml", "--threads", "many"), "pyxsim: --threads: 'many' is not a number of threads"),
    (("run", "traffic.toml", "--checkpoint", "0 s"), "pyxsim: --checkpoint: '0 s' is not a time; allowed: a time"),
    (("saturation", "traffic.toml", "-o", "x.png"), "pyxsim: x.png: a curve cannot be written as '.png'"),
    (
        ("curve", "traffic.toml", "--loads", "0.1", "--set", "traffic.pattern=shufle"),
        "pyxsim: --set: traffic.pattern: unknown traffic pattern 'shufle'",
    ),
]


@pytest.mark.parametrize(("words", "text"), FAULTS)
def test_faults(pyxsim: Command, words: tuple[str, ...], text: str) -> None:
    ended = pyxsim(*words)
    assert ended.code == 2
    assert ended.lines[0].startswith(text)


def test_ctrl_c_keeps_the_points_that_are_there(start: Start, folder: Path) -> None:
    """Ended once each of the two workers has built its network."""
    shelf = folder / "mine" / "topologies"
    shelf.mkdir(parents=True)
    (shelf / "told.py").write_text(TOLD, encoding="utf-8")
    slow = ("traffic.precision=0.00001", "traffic.max_cycles=100000000", "network.topology=told")
    words = ("--loads", "0.3,0.31", "--workers", "2", "-o", "curve.json", "--library", "mine")
    process = start("curve", "traffic.toml", *words, *(word for each in slow for word in ("--set", each)))
    built = folder / "built"
    built.touch()
    wait_for(lambda: len({*built.read_text().split()} - {str(process.pid)}) == 2, "the beginning of both points")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert json.loads((folder / "curve.json").read_text(encoding="utf-8"))["complete"] is False


def test_patterns_are_listed(pyxsim: Command) -> None:
    data = json.loads(pyxsim("list", "--json").out)
    listed = {entry["name"]: entry for entry in data["patterns"]}
    assert {"uniform", "tornado", "hotspot", "adversarial", "matrix"} <= set(listed)
    assert listed["hotspot"]["options"] == {"nodes": "", "rates": "null", "share": "1.0"}
    assert all(len(entry["help"]) > 15 for entry in listed.values())
    assert "patterns of open traffic" in pyxsim("list").err


MIRROR = """
import numpy as np
from pyxsim.traffic import PatternContext, Permutation, patterns

@patterns.register("mirror")
def mirror(context: PatternContext) -> Permutation:
    return Permutation(context.npus - 1 - np.arange(context.npus))
"""


def test_a_pattern_of_a_library(pyxsim: Command, folder: Path) -> None:
    shelf = folder / "mine" / "patterns"
    shelf.mkdir(parents=True)
    (shelf / "mirror.py").write_text(MIRROR, encoding="utf-8")
    words = ("--set", "traffic.pattern=mirror", "--json", "--library", "mine")
    data = json.loads(pyxsim("run", "traffic.toml", *words).out)
    # On 4x4, (x, y) to (3 - x, 3 - y): one or one link in each dimension of a ring of four.
    assert data["hops"] == pytest.approx(3)
