"""`pyxsim jobs`: times alone and slowdowns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pyxsim
from pyxsim.errors import InputError

NETWORK = {"topology": "mesh", "shape": [4], "bandwidth": "50 GB/s", "latency": "20 ns", "flit": "256 B"}
SEND = {"kind": "broadcast", "size": "256 KiB", "algorithm": "direct"}
CROSSING = [  # both over the link from NPU 1 to NPU 2
    {"name": "a", "placement": [0, 2], "collective": SEND},
    {"name": "b", "placement": [1, 3], "collective": SEND, "at": "2 us"},
]


@pytest.mark.parametrize("backend", ["packet", "analytical-congestion"])
def test_the_slowdown_is_the_time_over_that_of_a_run_of_the_job_alone(backend: str) -> None:
    found = pyxsim.jobs({"network": NETWORK, "job": CROSSING}, backend=backend)
    for row, job in zip(found.jobs, CROSSING, strict=True):
        alone = pyxsim.run({"network": NETWORK, "job": [job]}, backend=backend)
        assert row["alone"] == alone.jobs[0]["time"]
        assert row["slowdown"] == row["time"] / row["alone"] >= 1
    assert max(row["slowdown"] for row in found.jobs) > 1.1  # in the analytical backend, the first is not delayed


def test_a_job_that_no_other_meets_has_the_slowdown_1() -> None:
    jobs = [{**CROSSING[0], "placement": [0, 1]}, {**CROSSING[1], "placement": [3, 2]}]
    found = pyxsim.jobs({"network": NETWORK, "job": jobs})
    assert [row["slowdown"] for row in found.jobs] == [1, 1]


def test_alone_is_without_background_traffic_and_on_the_same_random_npus() -> None:
    job: dict[str, Any] = {"name": "a", "npus": 2, "placement": "random", "collective": SEND}
    traffic = {"pattern": "uniform", "load": 0.3, "packet_flits": 4}
    found = pyxsim.jobs({"network": NETWORK, "job": [job], "traffic": traffic, "output": {"seed": 5}})
    quiet = pyxsim.run({"network": NETWORK, "job": [job], "output": {"seed": 5}})
    assert found.jobs[0]["alone"] == quiet.jobs[0]["time"]
    assert found.jobs[0]["slowdown"] > 1


def test_priorities_of_one_job_count_in_all_runs() -> None:
    prior = [{**SEND, "kind": "all-reduce", "algorithm": "ring", "priority": number, "at": "1 us"} for number in (1, 2)]
    jobs = [{"name": "a", "placement": [0, 1], "collective": prior}, {**CROSSING[1], "placement": [3, 2]}]
    found = pyxsim.jobs({"network": NETWORK, "job": jobs, "system": {"scheduling": "explicit"}})
    assert [row["slowdown"] for row in found.jobs] == [1, 1]


def test_an_experiment_without_jobs_is_refused() -> None:
    with pytest.raises(InputError, match=r"job: the experiment has no jobs; allowed: tables \[\[job\]\]"):
        pyxsim.jobs({"network": NETWORK, "collective": {"kind": "all-reduce", "size": "1 KiB"}})


def test_the_command_writes_its_result(tmp_path: Path) -> None:
    file = "inputs/jobs/two_on_a_torus.toml"
    command = [sys.executable, "-m", "pyxsim", "jobs", file, "-o", str(tmp_path / "out.h5"), "--json"]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    loaded = pyxsim.Result.load(tmp_path / "out.h5")
    assert [row["slowdown"] for row in loaded.jobs] == [row["slowdown"] for row in printed["jobs"]]
    assert printed["interference"]["even"]["odd"] == loaded.interference["cycles"][0, 1] > 0


def test_json_has_the_jobs_that_ended_before_the_failure(tmp_path: Path) -> None:
    text = """
network = { topology = "mesh", shape = [6], bandwidth = "64 GB/s", latency = "10 ns" }
faults = [{ link = "d0*:(4)->(5)", down = true }]
[[job]]
name = "a"
placement = [4, 5]
collective = [{ kind = "all-reduce", size = "4 KiB" }]
[[job]]
name = "b"
placement = [0, 1]
at = "50 us"
collective = [{ kind = "all-reduce", size = "4 KiB" }]
"""
    (tmp_path / "a.toml").write_text(text)
    command = [sys.executable, "-m", "pyxsim", "jobs", str(tmp_path / "a.toml"), "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    printed = json.loads(done.stdout)
    assert (done.returncode, printed["exit_code"]) == (3, 3)
    assert "d0+:(4)->(5)" in printed["errors"][0]
    assert [row["end"] > 50_000 for row in printed["jobs"]] == [False, True]
