"""`pyxsim bench`: some cases and what follows from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import measure
from benchmarks.case import Run
from benchmarks.cases import CASES
from benchmarks.yardstick import Yardstick, measure_yardstick
from tests.cli.inputs import Command


@pytest.fixture(scope="module")
def measured() -> Yardstick | None:
    return measure_yardstick(1)


@pytest.fixture(autouse=True)
def once_for_all(measured: Yardstick | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure the yardstick once; test_yardstick.py tests it."""
    monkeypatch.setattr("benchmarks.yardstick.measure_yardstick", lambda: measured)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case takes a second for two million, the largest one for half a million, and no time."""

    def once(name: str, *_: object, **__: object) -> tuple[Run, float]:
        work = 500_000 if name == "torus16x16x16-all-reduce" else 2_000_000
        return Run(work, 100, 1.0, 1.5, {"network_mb": 10.24}), 50.0

    monkeypatch.setattr(measure, "once", once)


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


def test_the_yardstick_comes_first(pyxsim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "once", lambda *_, **__: (Run(2_000_000, 100, 1.0, 1.5, {}), 50.0))
    ended = pyxsim("bench", "torus4x4x4-all-reduce", "--repeat", "1")
    assert ended.lines[0].startswith("this machine: ")
    (head,) = (line for line in ended.lines if line.split()[:2] == ["case", "work"])
    assert head.split() == ["case", "work", "CPU", "s", "with", "set-up", "rate", "MB"]  # not "in all", as of a run
    assert " of the one of the tables in docs/performance.md (" in ended.lines[0]
    told = json.loads(pyxsim("bench", "torus4x4x4-all-reduce", "--repeat", "1", "--json").out)
    assert told["yardstick"]["mb_per_s"]["median"] > 0


def test_every_cycle(pyxsim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def once(name: str, *, skip: bool) -> tuple[Run, float]:
        asked.append(skip)
        return Run(2_000_000, 100, 1.0, 1.5, {}), 50.0

    monkeypatch.setattr(measure, "once", once)
    for words in ((), ("--no-skip",)):
        assert pyxsim("bench", "torus4x4x4-all-reduce-1GiB", "--repeat", "1", *words).code == 0
    assert asked == [True, False]


def test_the_experiment_of_a_case(pyxsim: Command, folder: Path) -> None:
    ended = pyxsim("bench", "--show", "torus4x4x4-all-reduce")
    assert (ended.code, ended.err) == (0, "")
    (folder / "case.toml").write_text(ended.out, encoding="utf-8")
    assert json.loads(pyxsim("run", "case.toml", "--json").out)["cycles"] == 8148
    told = json.loads(pyxsim("bench", "--show", "torus8x8-uniform-0.4", "--json").out)
    assert told["case"] == "torus8x8-uniform-0.4"
    assert "[traffic]" in told["experiment"]
    for words, says in (
        ((), "bench --show: the case is missing; allowed: one: `pyxsim bench --list` tells their names"),
        (("torus8x8-hotspot", "torus4x4-training"), "bench --show: 2 cases; allowed: one"),
        (
            ("torus8x8-hotspt",),
            "bench: no case 'torus8x8-hotspt'; allowed: what `pyxsim bench --list` tells; did you mean",
        ),
    ):
        (line,) = pyxsim("bench", "--show", *words).lines
        assert line.startswith(f"pyxsim: {says}")


@pytest.mark.usefixtures("quick")
def test_what_follows(pyxsim: Command) -> None:
    """1 GiB on 64 NPUs: 1024 times the 1,032,192 visits of 1 MiB, at 2 million per second."""
    data = json.loads(pyxsim("bench", "--json").out)
    row = next(row for row in data["expected"] if (row["npus"], row["size"]) == (64, "1 GiB"))
    assert row["cpu_s"] == pytest.approx(1024 * 1_032_192 / 2e6)
    row = next(row for row in data["expected"] if (row["npus"], row["size"]) == (4096, "1 MiB"))
    assert row["cpu_s"] == pytest.approx(row["router_visits"] / 5e5)
    spoken = pyxsim("bench")
    assert spoken.code == 0
    assert "8.8 minutes" in spoken.err
    assert "10 kB for each router" in spoken.err


def test_what_is_no_case(pyxsim: Command) -> None:
    ended = pyxsim("bench", "torus4x4x4-all-reduse")
    assert ended.code == 2
    assert len(ended.lines) == 1
    assert ended.lines[0].endswith("did you mean 'torus4x4x4-all-reduce'?")
    (line,) = pyxsim("bench", "nonsense").lines
    assert line == "pyxsim: bench: no case 'nonsense'; allowed: what `pyxsim bench --list` tells"


@pytest.mark.usefixtures("quick")
def test_quiet_and_no_json_tells_nobody(pyxsim: Command) -> None:
    ended = pyxsim("bench", "-q", "torus4x4x4-all-reduce")
    assert (ended.code, ended.out) == (2, "")
    assert ended.lines == ["pyxsim: --quiet: nobody would be told what was measured; allowed: with --json"]
    assert json.loads(pyxsim("bench", "-q", "torus4x4x4-all-reduce", "--json").out)["cases"]


def test_no_runs(pyxsim: Command) -> None:
    ended = pyxsim("bench", "--repeat", "0")
    assert (ended.code, len(ended.lines)) == (2, 1)
    assert "--repeat: 0 is out of range; allowed: a whole number from 1 to 1000" in ended.lines[0]
    (line,) = pyxsim("bench", "--repeat", "x").lines
    assert line.startswith("pyxsim: --repeat: 'x' is not a number; allowed: a whole number from 1 to 1000")
