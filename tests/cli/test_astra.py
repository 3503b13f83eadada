"""`pyxsim astra`: the words of ASTRA-sim's command line."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import pytest

from pyxsim.study import run
from pyxsim.study.astra import astra_experiment
from tests.cli.inputs import ASTRA, ASTRA_WORDS, Command


def test_the_line_that_scripts_look_for(pyxsim: Command, folder: Path) -> None:
    ended = pyxsim(*ASTRA_WORDS)
    assert (ended.code, ended.out) == (0, "")
    expected = run(astra_experiment("network.txt", "system.txt", "workload.txt"))
    assert ended.lines[-1] == f"all passes finished at time: {expected.time_ns}"
    assert [path for path in folder.iterdir() if path.suffix == ".h5"] == []


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("--path", "out/", "--run-name", "first"), "out/first.h5"),
        (("--path=out",), "out/run.h5"),
        (("--run-name", "first"), "first.h5"),
        (("--path", "out/", "--run-name", "first", "-o", "other.h5"), "other.h5"),
    ],
)
def test_where_the_result_goes(pyxsim: Command, folder: Path, words: tuple[str, ...], file: str) -> None:
    ended = pyxsim(*ASTRA_WORDS, *words)
    assert ended.code == 0, ended.err
    assert f"wrote {file}" in ended.lines
    assert [str(path.relative_to(folder)) for path in folder.rglob("*.h5")] == [file]
    with h5py.File(folder / file) as result:
        assert result.attrs["complete"] == 1


def test_passes_and_scales(pyxsim: Command) -> None:
    words = ("--json", "--total-stat-rows=1", "--stat-row=0", "--compute-scale=2")
    once, twice, more = (
        json.loads(pyxsim(*ASTRA_WORDS, *words, *others).out)
        for others in ((), ("--num-passes=2",), ("--comm-scale=0.5",))
    )
    assert twice["bytes_delivered"] == 2 * once["bytes_delivered"]
    assert twice["time_ns"] > once["time_ns"]
    assert more["bytes_delivered"] == once["bytes_delivered"] // 2


def test_settings_are_overridden(pyxsim: Command) -> None:
    slow = json.loads(pyxsim(*ASTRA_WORDS, "--json", "--set", "network.latency=2 us").out)
    assert slow["time_ns"] > json.loads(pyxsim(*ASTRA_WORDS, "--json").out)["time_ns"]


def test_quiet_and_json(pyxsim: Command) -> None:
    assert pyxsim(*ASTRA_WORDS, "--quiet").err == ""
    ended = pyxsim(*ASTRA_WORDS, "--json")
    assert ended.err == ""
    assert json.loads(ended.out)["npus"] == 8


def test_unproved_rings_run_with_a_warning(pyxsim: Command, folder: Path) -> None:
    """Direct on a ring of four without datelines: two hops, so the circle closes."""
    network = ASTRA["network.txt"].replace("num-npus: 8", "num-npus: 16")
    (folder / "network.txt").write_text(network, encoding="utf-8")
    system = ASTRA["system.txt"].replace("all-reduce-implementation: ring_", "all-reduce-implementation: direct_")
    (folder / "system.txt").write_text(system, encoding="utf-8")
    ended = pyxsim(*ASTRA_WORDS)
    assert ended.code == 0, ended.err
    assert "warning: the routes can deadlock" in ended.err
    strict = pyxsim(*ASTRA_WORDS, "--strict")
    assert (strict.code, strict.out) == (3, "")
    (line,) = strict.lines
    assert line.startswith("pyxsim: the routes can deadlock")
    assert line.endswith("; without --strict it is run")
    assert "--allow-deadlock" not in line


def test_proved_rings_are_not_warned_of(pyxsim: Command) -> None:
    assert "warning" not in pyxsim(*ASTRA_WORDS).err
    assert pyxsim(*ASTRA_WORDS, "--strict").code == 0
