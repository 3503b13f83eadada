"""`pyxsim bench`: some cases and what follows from them."""

from __future__ import annotations

import json

import pytest

from pyxsim.bench import measure
from pyxsim.bench.case import Run
from pyxsim.bench.cases import CASES
from tests.cli.inputs import Command


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case takes a second for two million, and no time."""
    run = Run(2_000_000, 100, 1.0, 1.5, {"network_mb": 10.24})
    monkeypatch.setattr(measure, "once", lambda *_: (run, 50.0))


def test_the_list(pyxsim: Command) -> None:
    ended = pyxsim("bench", "--list", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert [case["name"] for case in json.loads(ended.out)["cases"]] == list(CASES)
    assert "torus4x4x4-all-reduce: inputs/torus_all_reduce.toml" in pyxsim("bench", "--list").err


def test_a_case(pyxsim: Command) -> None:
    ended = pyxsim("bench", "torus4x4x4-all-reduce", "--repeat", "1", "--json")
    assert (ended.code, ended.err) == (0, "")
    (row,) = json.loads(ended.out)["cases"]
    assert row["router_visits"] == 1_032_192
    assert row["visits_per_cpu_s"] == pytest.approx(row["router_visits"] / row["cpu_s"]["median"])
    assert row["peak_rss_mb"] > 10


@pytest.mark.usefixtures("quick")
def test_what_follows(pyxsim: Command) -> None:
    """1 GiB on 64 NPUs: 1024 times the 1,032,192 visits of 1 MiB, at 2 million per second."""
    data = json.loads(pyxsim("bench", "--json").out)
    row = next(row for row in data["expected"] if (row["npus"], row["size"]) == (64, "1 GiB"))
    assert row["cpu_s"] == pytest.approx(1024 * 1_032_192 / 2e6)
    spoken = pyxsim("bench")
    assert spoken.code == 0
    assert "8.8 minutes" in spoken.err
    assert "10 kB for each router" in spoken.err


def test_what_is_no_case(pyxsim: Command) -> None:
    ended = pyxsim("bench", "torus4x4x4-all-reduse")
    assert ended.code == 2
    assert len(ended.lines) == 1
    assert ended.lines[0].endswith("did you mean 'torus4x4x4-all-reduce'?")


def test_no_runs(pyxsim: Command) -> None:
    ended = pyxsim("bench", "--repeat", "0")
    assert (ended.code, len(ended.lines)) == (2, 1)
    assert "--repeat: 0 runs; allowed: from 1 to 1000" in ended.lines[0]
