"""`pyxsim sweep` as it is typed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from pyxsim.results.sweep import read
from pyxsim.study.sweep import Standing
from tests.cli.inputs import DEADLOCK, Command
from tests.study.sweep.small import TEXT


@pytest.fixture
def ring(folder: Path) -> Path:
    """Four points."""
    path = folder / "ring.toml"
    path.write_text(
        TEXT.partition("[sweep]")[0] + '[sweep]\n"network.router.vcs" = [2, 4]\n"traffic.load" = [0.1, 0.2]\n'
    )
    return path


def test_a_sweep(pyxsim: Command, ring: Path) -> None:
    pytest.importorskip("matplotlib")
    words = ("sweep", "ring.toml", "-o", "out", "--workers", "1", "--plot", "load", "packet_latency", "vcs")
    ended = pyxsim(*words)
    assert ended.code == 0, ended.err
    assert ended.out == ""
    assert ended.lines[0] == "ring 4, uniform traffic"
    assert ended.lines[1].split()[:4] == ["vcs", "load", "state", "time_ns"]
    assert [line.split()[:3] for line in ended.lines[2:6]] == [[v, x, "done"] for v in "24" for x in ("0.1", "0.2")]
    assert ended.lines[-1].startswith("wrote out/table.csv, out/table.h5, ")
    assert ended.lines[-1].endswith("out/packet_latency-over-load-by-vcs.png")
    assert Path("out/packet_latency-over-load-by-vcs.png").stat().st_size > 2_000  # with few pixels
    again = pyxsim("sweep", "ring.toml", "-o", "out", "--json", "--set", "network.router.vcs=2")
    told = json.loads(again.out)
    assert (again.code, again.err) == (0, "")
    assert [point["traffic.load"] for point in told["points"]] == [0.1, 0.2]
    assert (told["done"], told["failed"], told["missing"], told["complete"]) == (2, 0, 0, True)
    assert told["points"][0]["packet_latency"] == read("out").points[0].values["packet_latency"]
    less = pyxsim("sweep", "ring.toml", "-o", "out", "--set", "network.router.vcs=2")
    assert "2 points in the folder have other settings, so the table omits them" in less.err


def test_points_that_fail(pyxsim: Command, folder: Path) -> None:
    text = DEADLOCK.replace('all_reduce = "direct"\n', "") + '[sweep]\n"system.all_reduce" = ["direct", "ring"]\n'
    (folder / "some.toml").write_text(text)
    ended = pyxsim("sweep", "some.toml", "-o", "out", "--workers", "1")
    assert ended.code == 3
    assert ended.lines[-1] == "pyxsim: 1 of 2 points failed"
    assert any(line.startswith("failed: all_reduce=direct: the routes can deadlock") for line in ended.lines)
    told = json.loads(pyxsim("sweep", "some.toml", "-o", "out", "--json").out)
    assert told["exit_code"] == 3
    assert told["errors"][0].startswith("all_reduce=direct: the routes can deadlock")
    assert [point["state"] for point in told["points"]] == ["failed", "done"]
    assert "reason" in told["points"][0]


def test_a_sweep_of_nothing_says_so(pyxsim: Command, ring: Path, folder: Path) -> None:
    """Whether the tables are missing, or options have taken out all that they sweep."""
    (folder / "one.toml").write_text(TEXT.partition("[sweep]")[0])
    fixed = ("--set", "network.router.vcs=2", "--set", "traffic.load=0.1")
    for number, words in enumerate((("one.toml",), ("ring.toml", *fixed))):
        ended = pyxsim("sweep", *words, "-o", f"out{number}", "--workers", "1")
        assert ended.code == 0
        told = f"only one point: {words[0]} sweeps nothing. Add [sweep] or [[variant]]; a key that is set with --set"
        assert ended.lines[0] == f"{told} is no longer swept"
        assert ended.err.count("sweeps nothing") == 1
    assert pyxsim("sweep", "one.toml", "-o", "out0", "-q").err == ""
    one = pyxsim("sweep", "ring.toml", *fixed[:2], "-o", "out1", "--workers", "1")
    assert "sweeps nothing" not in one.err


FAULTS = {
    "no folder": ("sweep ring.toml", "sweep: -o DIR is missing; allowed: `pyxsim sweep EXPERIMENT.toml -o DIR"),
    "a file": (
        "sweep ring.toml -o ring.toml",
        "ring.toml: -o: is a file; a sweep writes a folder; allowed: the name of",
    ),
    "other things": ("sweep ring.toml -o .", ".: -o: is a folder with other files, and does not contain a sweep"),
    "no axis": (
        "sweep ring.toml -o out --plot loda time_ns -",
        "--plot: 'loda' is not a swept key; allowed: vcs, load; did",
    ),
    "no hue": ("sweep ring.toml -o out --plot load time_ns vc", "did you mean 'vcs'?"),
    "few words": (
        "sweep ring.toml -o out --plot load time_ns",
        "sweep --plot: values are missing; allowed: --plot X Y HUE",
    ),
    "no backend": ("sweep ring.toml -o out --backend pakcet", "--backend: unknown backend 'pakcet'"),
    "no scheduler": ("sweep ring.toml -o out --dask nowhere", "--dask: no scheduler at 'nowhere'"),
    "a setting": ("sweep ring.toml -o out --set network.router.vcs=0", "--set: network.router.vcs: 0 is too small"),
    "no file": ("sweep none.toml -o out", "none.toml: no such file"),
    "no folder above": (
        "sweep ring.toml -o a/b",
        "a/b: cannot be written: there is no folder 'a'; allowed: an existing folder",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(pyxsim: Command, ring: Path, name: str) -> None:
    words, line = FAULTS[name]
    ended = pyxsim(*words.split())
    assert (ended.code, len(ended.lines)) == (2, 1), ended.err
    assert line in ended.err


def test_a_number_that_no_point_has_is_told_as_soon_as_one_is_there(pyxsim: Command, ring: Path) -> None:
    ended = pyxsim("sweep", "ring.toml", "-o", "out", "--workers", "1", "--plot", "load", "packet_latenzy", "-")
    assert ended.code == 2
    assert "--plot: no point has a column 'packet_latenzy'" in ended.err
    assert "did you mean 'packet_latency'?" in ended.err
    assert read("out").counts["done"] == 1


def test_how_far_it_is_in_words() -> None:
    standing = Standing(200, done=120, failed=2, before=22, running={"a": time.monotonic()}, seconds=100.0)
    assert standing.line == "122 of 200 points, 2 failed, 1 running, 22 of them from an earlier sweep, 1:18 left"
    assert Standing(3, done=3, seconds=1).line == "3 of 3 points"
    assert Standing(3, checking=True).line == "checking every point"


@pytest.mark.parametrize("command", ["sweep", "curve", "saturation", "validate"])
def test_workers_are_a_number(pyxsim: Command, ring: Path, command: str) -> None:
    words = () if command == "validate" else ("ring.toml",)
    more = ("-o", "out") if command == "sweep" else ()
    for given, what in (("x", "'x' is not a number"), ("0", "0 is out of range"), ("-1", "'-1' is not a number")):
        ended = pyxsim(command, *words, *more, "--workers", given)
        assert (ended.code, ended.out) == (2, "")
        assert ended.lines == [f"pyxsim: --workers: {what}; allowed: a whole number from 1 to 999999999"]


def test_a_sweep_tries_again_a_number_of_times(pyxsim: Command, ring: Path) -> None:
    (line,) = pyxsim("sweep", "ring.toml", "-o", "out", "--retry", "often").lines
    assert line == "pyxsim: --retry: 'often' is not a number; allowed: a whole number from 0 to 999999999"
