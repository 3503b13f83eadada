"""What `pyxsim check` predicts of a run, against the run."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from typing import IO

import pytest

import pyxsim
from benchmarks.estimates import CASES
from pyxsim.study.check import check_cost


@pytest.fixture
def short_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is predicted before anything is simulated: for its speed a moment will do."""
    monkeypatch.setattr(check_cost, "SAMPLE", 0.03)
    monkeypatch.setattr(check_cost, "LONGEST", 0.1)


@pytest.mark.usefixtures("short_sample")
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("open traffic", "training model")])
def test_work_is_predicted(name: str, tmp_path: Path) -> None:
    """Router visits, or messages of backends without routers, within a factor of 1.5."""
    text, backend, _ = CASES[name]
    path = tmp_path / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    checked, result = pyxsim.check(path, backend=backend), pyxsim.run(path, backend=backend)
    done = result.counts["router_visits"] or result.counts["messages"]
    predicted = checked["router_visits"] or checked["messages"]
    assert done / 1.5 <= predicted <= done * 1.5
    assert (checked["seconds"] is None) == (checked["unknown"] is not None)


@pytest.mark.usefixtures("short_sample")
def test_training_model_is_predicted() -> None:
    checked = pyxsim.check("inputs/training/resnet50_data.toml", backend="analytical")
    result = pyxsim.run("inputs/training/resnet50_data.toml", backend="analytical")
    assert checked["messages"] == result.counts["messages"]


def test_open_traffic_has_no_estimate() -> None:
    report = pyxsim.check("inputs/torus_uniform.toml", overrides=["network.shape=[4, 4]"])
    assert report["seconds"] is None
    assert "open traffic ends when" in report["unknown"]
    assert "unknown: open traffic ends when" in " ".join(str(report).split())


def test_a_call_of_the_engine_that_does_not_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate stops after its CPU seconds even inside a call that never gives control back."""

    def forever(prepared: object) -> None:
        while True:
            pass

    path = tmp_path / "experiment.toml"
    path.write_text(CASES["torus"][0], encoding="utf-8")
    monkeypatch.setattr(check_cost, "run_out", forever)
    monkeypatch.setattr(check_cost, "LIMIT", 1)
    report = pyxsim.check(path)
    assert report["unknown"] == "no part of the run ends within 1 s of CPU time"
    assert report["router_visits"] > 0
    assert report["seconds"] is None


def test_the_checks_share_five_cpu_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample gets what the other checks leave, in whole seconds, and at least half of its limit."""

    def sample(prepared: object, pipe: IO[bytes], limit: int) -> None:
        cost = {"router_visits": 1, "visits_per_s": 1.0, "seconds": None, "unknown": str(limit)}
        pipe.write(pickle.dumps(("cost", cost)).hex().encode() + b"\n")

    path = tmp_path / "experiment.toml"
    path.write_text(CASES["torus"][0], encoding="utf-8")
    monkeypatch.setattr(check_cost, "_sample_in_child", sample)
    monkeypatch.setattr(check_cost, "BUDGET", 5.0)
    assert pyxsim.check(path)["unknown"] in ("3", "4")
    monkeypatch.setattr(check_cost, "BUDGET", 0.5)
    assert pyxsim.check(path)["unknown"] == "2"


def test_a_speed_that_changes_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of the same work grows with the simulated time, as that of flows with the messages in flight."""
    path = tmp_path / "experiment.toml"
    path.write_text(CASES["torus"][0].replace("64 KiB", "64 MiB"), encoding="utf-8")
    measured = check_cost._Sample._elapsed
    monkeypatch.setattr(check_cost, "LONGEST", 0.6)
    monkeypatch.setattr(check_cost._Sample, "_elapsed", lambda sample: measured(sample) ** 2)
    report = pyxsim.check(path, overrides=["run.skip=false"])
    assert report["seconds"] is None
    assert report["unknown"] == "the speed of the simulation changes during its beginning"


def test_no_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child process of the sample has ended and is reaped. Others, of other tests, may be there."""
    children: list[int] = []
    real_fork = os.fork

    def fork() -> int:
        children.append(real_fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", fork)
    path = tmp_path / "experiment.toml"
    path.write_text(CASES["torus"][0], encoding="utf-8")
    before = time.process_time()
    pyxsim.check(path)
    assert time.process_time() - before < 60
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)
