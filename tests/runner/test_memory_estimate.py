"""The memory that a run will need, beside what runs took, and the refusal of what will not fit."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyxsim import check, library
from pyxsim.available_memory import Available, available
from pyxsim.errors import InputError
from pyxsim.peak_memory import resident_mb
from pyxsim.runner import memory_estimate
from pyxsim.runner.lifecycle import run
from pyxsim.runner.memory_estimate import check_fits, foreseen
from pyxsim.runner.prepare import prepare
from pyxsim.settings import Experiment, load_experiment

ROOT = Path(__file__).resolve().parents[2]
TORUS = {"topology": "torus", "shape": [16, 16, 16], "bandwidth": "100 GB/s", "latency": "100 ns", "packet": "4 KiB"}
SMALL = {**TORUS, "shape": [4, 4, 4]}
SWITCH = {**TORUS, "topology": "switch", "shape": [512]}
SYSTEM = {"chunks": 8, "active_chunks": 4}
RUN = """
import json, sys
from pyxsim import run
from pyxsim.peak_memory import peak_mb
run(json.loads(sys.argv[1]), backend=sys.argv[2])
print(peak_mb())
"""
"""A process of its own, whose peak is that of the run."""


@pytest.fixture(autouse=True)
def shelves() -> None:
    library.load_all(())


def tables(network: dict[str, Any], size: str = "64 KiB", **more: Any) -> dict[str, Any]:
    return {"network": network, "system": SYSTEM, "collective": {"kind": "all-reduce", "size": size}, **more}


@pytest.mark.parametrize(
    ("backend", "experiment"),
    [
        ("analytical", tables(TORUS)),
        ("packet", tables(TORUS)),
        ("packet", tables(SMALL, "16 MiB", system={**SYSTEM, "all_reduce": "direct"}, run={"skip": False})),
        ("flow", tables({**SWITCH, "shape": [256]})),
        pytest.param("flow", tables(SWITCH), marks=pytest.mark.slow),
        ("packet", tables(SMALL, "64 KiB", system={"chunks": 100}, run={"skip": False})),
    ],
    ids=["analytical", "folded", "direct", "large group", "larger group", "many chunks"],
)
def test_the_estimate_is_near_the_peak(backend: str, experiment: dict[str, Any]) -> None:
    told = foreseen(Experiment.model_validate(experiment), backend)
    words = [sys.executable, "-c", RUN, json.dumps(experiment), backend]
    took = float(subprocess.run(words, check=True, capture_output=True, text=True).stdout) * 1e6
    assert 1 / 1.5 < told.bytes / took < 1.5


@pytest.mark.parametrize("backend", ["analytical", "packet"])
def test_a_workload_adds_its_tasks_and_messages(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, overrides = ROOT / "inputs" / "training" / "gpt3_128.toml", ["workload.batch=8"]
    experiment = load_experiment(path, overrides)
    told = prepare(experiment, backend=backend).memory
    assert told is not None
    assert told.counts["messages"] == run(path, backend="analytical", overrides=overrides).json()["messages"]
    assert told.terms["tasks"] == memory_estimate.TASK * told.counts["tasks"] > 0
    code = RUN.replace("json.loads(sys.argv[1])", "sys.argv[1]").replace(
        "sys.argv[2]", "sys.argv[2], overrides=sys.argv[3:]"
    )
    words = [sys.executable, "-c", code, str(path), backend, *overrides]
    took = float(subprocess.run(words, check=True, capture_output=True, text=True).stdout) * 1e6
    assert 1 / 1.5 < told.bytes / took < 1.5
    monkeypatch.setattr(memory_estimate, "available", lambda: Available(told.bytes - 1, "of this test"))
    with pytest.raises(InputError, match=r"this run needs about .* are available"):
        prepare(experiment, backend=backend)


def test_what_grows() -> None:
    """Each thing that a setting makes more of takes more, by as many."""

    def terms(backend: str = "packet", **more: Any) -> dict[str, float]:
        return foreseen(Experiment.model_validate({**tables(SMALL, "16 MiB"), **more}), backend).terms

    plain, unfolded = terms(), terms(run={"skip": False})
    assert "engine" not in plain
    assert unfolded["engine"] > 0
    assert unfolded["chunks"] > plain["chunks"]
    one, many = (terms(system={**SYSTEM, "chunks": n}, run={"skip": False}) for n in (1, 8))
    assert many["chunks"] == 8 * one["chunks"]
    assert many["messages"] == pytest.approx(8 * one["messages"])
    windows = terms(output={"window": "10 ns"})["windows"]
    assert windows > 10 * plain["windows"]
    assert terms(output={"attribution": "messages"})["attribution"] > 0
    # A straggler ends the equality of all NPUs.
    assert "engine" in terms(system={**SYSTEM, "stragglers": [{"npus": [3], "start": "1 us"}]})
    assert terms("analytical").keys() < unfolded.keys()


def test_a_limit_refuses_before_anything_is_built(tmp_path: Path) -> None:
    file = tmp_path / "large.toml"
    file.write_text(
        '[network]\ntopology = "torus"\nshape = [32, 32, 64]\n[collective]\nkind = "all-reduce"\nsize = "1 MiB"\n'
    )

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (600_000_000, 600_000_000))

    def ended(*words: str) -> subprocess.CompletedProcess[str]:
        words = (sys.executable, "-m", "pyxsim", "run", str(file), *words)
        return subprocess.run(words, capture_output=True, text=True, preexec_fn=limited, check=False)

    refused = ended()
    assert refused.returncode == 2
    (line,) = refused.stderr.strip().splitlines()
    assert "run.memory: this run needs about" in line
    assert "(ulimit -v)" in line
    # Told to ignore the estimate, it runs into the limit, and says so in one line.
    forced = ended("--set", "run.memory=ignore")
    assert forced.returncode == 1
    assert forced.stderr.strip().splitlines()[-1].startswith("pyxsim: not enough memory")
    assert "Traceback" not in forced.stderr


def test_a_run_that_does_not_fit_is_refused() -> None:
    experiment = Experiment.model_validate(tables(SMALL))
    check_fits(1, experiment)
    with pytest.raises(InputError, match=r"1e\+09 GB of memory") as refused:
        check_fits(10**18, experiment)
    assert refused.value.key == "run.memory"
    check_fits(10**18, Experiment.model_validate(tables(SMALL, run={"memory": "ignore"})))


@pytest.mark.parametrize("told", [{}, {"dims": [7]}, {"algorithm": ["ring"]}])
def test_faults_are_those_of_the_preparation(told: dict[str, Any]) -> None:
    """What cannot be counted is no fault of the estimate."""
    wrong = tables(SMALL, collective={"kind": "all-reduce", "size": "1 MiB", **told})
    foreseen(Experiment.model_validate(wrong), "packet")


def lay(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="ascii")
    return root


def test_the_least_of_what_is_free_and_allowed(tmp_path: Path) -> None:
    proc = lay(tmp_path / "proc", {"meminfo": "MemTotal: 9 kB\nMemAvailable:   4000000 kB\n"})
    groups = lay(tmp_path / "groups", {})
    free = available(proc, groups)
    assert free is not None
    assert free.why == "free memory"
    assert free.bytes == pytest.approx(resident_mb() * 1e6 + 4_096_000_000, rel=0.01)
    # Version 2: the limit of an outer group holds for the inner ones; "max" is none. Pages of files can be dropped.
    lay(proc, {"self/cgroup": "0::/outer/inner\n"})
    lay(groups, {"outer/inner/memory.max": "max\n", "outer/inner/memory.current": "5\n"})
    inner = available(proc, groups)
    assert inner is not None
    assert inner.why == "free memory"
    lay(groups, {"outer/memory.max": "2000000000\n", "outer/memory.current": "500000000\n"})
    outer = available(proc, groups)
    assert outer is not None
    assert outer.why == "the control group"
    assert outer.bytes == pytest.approx(resident_mb() * 1e6 + 1_500_000_000, rel=0.01)
    # Version 1.
    old = lay(
        tmp_path / "old",
        {"memory/a/memory.limit_in_bytes": "1000000000\n", "memory/a/memory.usage_in_bytes": "400000000\n"},
    )
    lay(proc, {"self/cgroup": "4:cpu,memory:/a\n"})
    first = available(proc, old)
    assert first is not None
    assert first.bytes == pytest.approx(resident_mb() * 1e6 + 600_000_000, rel=0.01)


def test_check_tells_the_memory() -> None:
    data = check(tables(SMALL))
    assert data["memory"]["bytes"] == pytest.approx(sum(data["memory"]["terms"].values()), abs=20)
