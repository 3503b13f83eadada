"""detailed.csv and the utilization of the dimensions: to the last digit those of ASTRA-sim 1; elsewhere by counting."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyxsim
from pyxsim.compat.astra.detail_csv import write_detailed, write_utilization
from pyxsim.compat.astra.files import read_astra
from pyxsim.results.chunk_delays import ChunkDelays
from pyxsim.results.result import Result
from pyxsim.runner import chunk_delays as details
from pyxsim.runner.lifecycle import simulate
from pyxsim.runner.prepare import prepare
from validation.reference import reference

LOOPS: dict[str, Any] = {case["case"]: case for case in reference("astra1_loops")["cases"]}
MEASURED: list[dict[str, Any]] = reference("astra1_detailed")["cases"]

TEXT = """DATA
3
a -1 500 ALLGATHER 4096 700 NONE 0 900 ALLREDUCE 65536 10
b -1 500 NONE 0 700 NONE 0 900 NONE 0 10
c -1 500 NONE 0 700 NONE 0 900 ALLTOALL 30000 10
"""
SETTINGS = """[network]
topology = "torus"
shape = [4, 2]
bandwidth = "50 GB/s"
[system]
chunks = 3
[workload]
file = "work.txt"
passes = 2
"""


def told(result: Result) -> ChunkDelays:
    assert result.chunk_delays is not None
    return result.chunk_delays


@pytest.mark.parametrize("case", MEASURED, ids=[case["case"] for case in MEASURED])
def test_every_cell(case: dict[str, Any], tmp_path: Path) -> None:
    loop = LOOPS[case["case"]]
    for name, text in loop["files"].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    read = read_astra(*(tmp_path / name for name in loop["files"]), passes=loop["passes"], **loop["options"])
    result = simulate(prepare(read.experiment, backend=read.backend), backend=read.backend)
    write_detailed(told(result), tmp_path / "detailed.csv", "run")
    write_utilization(told(result), tmp_path / "utilization.csv")
    with open(tmp_path / "detailed.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert {len(row) for row in rows} == {50}
    assert len(rows) == len(told(result).layer_names) + 20
    expected = case["detailed"]
    for row, cells in zip(rows, expected, strict=False):
        assert row == [*cells, *[""] * (50 - len(cells))]
    assert not any(any(row) for row in rows[len(expected) :])
    assert (tmp_path / "utilization.csv").read_text(encoding="utf-8").splitlines() == case["utilization"]


@pytest.fixture
def run(tmp_path: Path) -> Result:
    """A loop over the system layer that is not ASTRA-sim's."""
    (tmp_path / "work.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "run.toml").write_text(SETTINGS, encoding="utf-8")
    return pyxsim.run(tmp_path / "run.toml", backend="analytical")


def test_by_counting(run: Result) -> None:
    found = told(run)
    mine = run.chunks["rank"] == 0
    rows = [
        dict(zip(run.chunks, row, strict=True))
        for row in zip(*(column[mine].tolist() for column in run.chunks.values()), strict=True)
    ]
    assert found.layer_names == ["a", "b", "c"]
    assert found.queueing[1] == found.network[1] == []
    for layer in (0, 2):
        name = found.layer_names[layer]
        own = [row for row in rows if run.collectives[row["collective"]]["name"].startswith(f"{name}, weight")]
        for phase in sorted({row["phase"] for row in own}):
            here = [row for row in own if row["phase"] == phase]
            waits = [row["start"] - row["ready"] for row in here]
            assert found.queueing[layer][phase + 1] == pytest.approx(sum(waits) / len(waits))
            times = [row["network"] / row["messages"] for row in here]
            assert found.network[layer][phase] == pytest.approx(sum(times) / len(times))
        assert found.queueing[layer][0] == 0
    for dim in (0, 1):
        there = [row for row in rows if row["dimension"] == dim]
        assert found.chunk_time[dim] == pytest.approx(np.mean([row["end"] - row["start"] for row in there]))
        cycles = {cycle for row in there for cycle in range(row["ready"], row["end"])}
        for number, busy in enumerate(found.busy[:, dim].tolist()):
            assert busy == sum(number * found.window <= cycle < (number + 1) * found.window for cycle in cycles)


def test_windows_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "MOST_WINDOWS", 10)
    assert details._window(Fraction(10**9), 109_999) == 10_000
    assert details._window(Fraction(10**9), 110_000) == 20_000
    assert details._window(Fraction(3, 2) * 10**9, 30_000) == 15_000


def test_file(run: Result, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    run.save(tmp_path / "out.h5")
    read, found = told(Result.load(tmp_path / "out.h5")), told(run)
    assert read.rows()["name"].tolist() == found.rows()["name"].tolist()
    assert (read.queueing, read.network) == (found.queueing, found.network)
    assert (read.chunk_time, read.window, read.clock_hz) == (found.chunk_time, found.window, found.clock_hz)
    assert (read.busy == found.busy).all()


def test_rows_of_several_runs(run: Result, tmp_path: Path) -> None:
    """Of three runs the second fills its rows; the first one's stay."""
    for row, name in ((0, "one"), (1, "two")):
        write_detailed(told(run), tmp_path / "detailed.csv", name, 3, row)
    with open(tmp_path / "detailed.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[:2] for row in rows[1:5]] == [["a", "one"], ["", "two"], ["", ""], ["b", "one"]]
    assert rows[1][2:] == rows[2][2:]


def test_no_layers(tmp_path: Path) -> None:
    """One collective has none; of a workload where no dimension has a chunk the mean is as the original writes it."""
    network = {"topology": "ring", "shape": [2], "bandwidth": "50 GB/s"}
    result = pyxsim.run({"network": network, "collective": {"kind": "all-reduce", "size": "64 B"}})
    assert result.chunk_delays is None
    empty = ChunkDelays(["a"], [[]], [[]], [float("nan")], 10_000, np.zeros((0, 1), np.int64), Fraction(10**9))
    write_detailed(empty, tmp_path / "detailed.csv")
    assert (tmp_path / "detailed.csv").read_text(encoding="utf-8").splitlines()[1].startswith("a,run,-nan,,")
