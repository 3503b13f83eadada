"""Collectives from the command line: on groups, on both backends, with real data; and a system layer that is stuck."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyxsim import Result
from pyxsim.network.delay.analytical import AnalyticalNetwork
from pyxsim.network.packet.packet_network import PacketNetwork
from tests.cli.inputs import SMALL, Command

MIXED = """
[network]
topology = "torus"
shape = [3, 2]
latency = "50 ns"

[system]
endpoint_delay = "5 ns"

[[system.groups]]
name = "some"
npus = [0, 2, 4]

[[collective]]
kind = "all-reduce"
size = "12 KiB"
name = "first"
group = "some"

[[collective]]
kind = "barrier"
at = "1 us"

[[message]]
src = 1
dst = 5
size = "3 KiB"
"""


@pytest.fixture
def mixed(folder: Path) -> Path:
    path = folder / "mixed.toml"
    path.write_text(MIXED, encoding="utf-8")
    return path


@pytest.mark.parametrize("backend", ["packet", "analytical"])
def test_run(pyxsim: Command, mixed: Path, backend: str) -> None:
    ended = pyxsim("run", "mixed.toml", "--backend", backend, "--carry", "-o", "out.h5")
    assert ended.code == 0, ended.err
    lines = ended.err.splitlines()
    assert lines[0].startswith("torus 3x2, 2 collectives and 1 message ")
    assert any(line.split()[:3] == ["data", "6", "NPUs"] for line in lines)
    for name in ("first: all-reduce", "barrier", "message: NPU 1 to 5", "chunks in dimension"):
        assert any(line.startswith(name) for line in lines), name
    saved = Result.load("out.h5")
    assert (saved.carried, saved.backend) == (6, backend)
    assert [row["name"] for row in saved.collectives] == ["first", "barrier"]
    assert saved.point_to_point[0]["bytes"] == 3072
    assert saved.phases["kind"].tolist().count("all-reduce") == 1


def test_json(pyxsim: Command, mixed: Path) -> None:
    ended = pyxsim("run", "mixed.toml", "--json")
    assert ended.err == ""
    data = json.loads(ended.out)
    assert data["carried"] is None
    assert [row["group"] for row in data["collectives"]] == ["some", "all"]
    assert [row["end"] for row in data["point_to_point"]] < [data["cycles"]]
    assert sum(row["bytes"] for row in data["dimensions"]) == data["bytes_delivered"]
    assert {row["collective"] for row in data["phases"]} == {0, 1}


def test_check(pyxsim: Command, mixed: Path) -> None:
    ended = pyxsim("check", "mixed.toml")
    assert ended.code == 0, ended.err
    assert "collective   first: all-reduce of 12 KiB on 3 NPUs (some), ring" in ended.err
    assert "barrier on 6 NPUs, " in ended.err
    assert "from cycle 1,000 on" in ended.err
    data = json.loads(pyxsim("check", "mixed.toml", "--json").out)
    run = json.loads(pyxsim("run", "mixed.toml", "--json").out)
    assert (data["messages"], data["bytes"]) == (run["messages"], run["bytes_delivered"])
    assert data["router_visits"] == run["router_visits"]
    assert data["lower_bound_ns"] == run["lower_bound_ns"]
    assert "end" not in data["collectives"][0]


def test_check_without_packets(pyxsim: Command, mixed: Path) -> None:
    ended = pyxsim("check", "mixed.toml", "--backend", "analytical")
    assert ended.code == 0, ended.err
    assert "this backend has no buffers that could deadlock" in ended.err
    assert "\nbuffers" not in ended.err
    assert "measured at its beginning" in ended.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--backend", "analytica"),
            "--backend: unknown backend 'analytica'; "
            "allowed: analytical, analytical-congestion, ethernet, flow, packet",
        ),
        (("--backend", "analytical", "--watch", "1"), "--watch: this backend has no packets"),
        (("--backend", "reference", "--watch", "1"), "--watch: the reference router does not log packets"),
        (("--carry", "--set", "system.compat=astra-sim-2"), "output.carry: astra-sim-2 does not carry real data"),
    ],
)
def test_options_that_do_not_go_together(pyxsim: Command, words: tuple[str, ...], told: str) -> None:
    ended = pyxsim("run", "small.toml", *words)
    assert ended.code == 2
    assert told in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(("backend", "network"), [("packet", PacketNetwork), ("analytical", AnalyticalNetwork)])
def test_a_stuck_system_says_who_waits(
    pyxsim: Command, folder: Path, backend: str, network: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network that loses a message: all that was to come has come, and NPUs still wait."""
    whole = network.advance

    def lossy(self: object, until: int | None, *, slack: int = 0) -> object:
        messages, cycles = whole(self, until, slack=slack)
        kept = messages != 3
        if len(messages) and not kept.any():  # an empty answer would mean that the time is over
            return lossy(self, until, slack=slack)
        return messages[kept], cycles[kept]

    monkeypatch.setattr(network, "advance", lossy)
    ended = pyxsim("run", "small.toml", "--backend", backend, "-o", "out.h5", "--json")
    assert ended.code == 3
    lines = ended.err.splitlines()
    assert lines[0].startswith("pyxsim: nothing moves after cycle ")
    assert "out.h5 contains the incomplete result" in lines[0]
    assert len(lines) > 1
    assert all("waits" in line for line in lines[1:])
    data = json.loads(ended.out)
    assert (data["complete"], data["exit_code"]) == (False, 3)
    assert len(data["errors"]) == len(lines)
    saved = Result.load("out.h5")
    assert not saved.complete
    assert "waits" in saved.failure
    assert saved.collectives[0]["end"] == -1


def test_several_faults_are_told_together(pyxsim: Command, folder: Path) -> None:
    faulty = SMALL + '\n[[message]]\nsrc = 9\ndst = 1\nsize = "1 B"\n\n[[message]]\nsrc = 1\ndst = 8\nsize = "1 B"\n'
    (folder / "faulty.toml").write_text(faulty, encoding="utf-8")
    for command in ("run", "check"):
        ended = pyxsim(command, "faulty.toml")
        assert ended.code == 2
        assert ended.err.splitlines() == [
            "pyxsim: faulty.toml: message[0].src: there is no NPU 9; allowed: NPUs 0 to 3",
            "pyxsim: faulty.toml: message[1].dst: there is no NPU 8; allowed: NPUs 0 to 3",
        ]


@pytest.mark.parametrize("shape", ["[4, 3]", "[20, 20]"])
@pytest.mark.parametrize("kind", ["broadcast", "reduce", "gather", "scatter", "barrier"])
def test_check_proves_plans_of_every_kind(pyxsim: Command, folder: Path, kind: str, shape: str) -> None:
    """Wherever the root is, also on a network that is proved on a smaller one."""
    more = '\nsize = "64 B"\nroot = 11' if kind != "barrier" else ""
    text = f'[network]\ntopology = "torus"\nshape = {shape}\n[collective]\nkind = "{kind}"{more}\n'
    (folder / "rooted.toml").write_text(text, encoding="utf-8")
    ended = pyxsim("check", "rooted.toml", "--json")
    assert ended.code == 0, ended.err
    (plan,) = json.loads(ended.out)["plans"]
    assert len(plan["phases"]) == 2
