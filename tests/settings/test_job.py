"""[[job]]: what a job may have, and one line for each fault."""

from __future__ import annotations

from typing import Any

import pytest

from pyxsim.errors import InputError
from pyxsim.settings import load_experiment

NETWORK = {"topology": "torus", "shape": [4, 4], "bandwidth": "50 GB/s"}
WORK = {"kind": "all-reduce", "size": "1 KiB"}
JOB = {"name": "a", "npus": 4, "collective": WORK}


def loaded(*jobs: dict[str, Any], **tables: Any) -> Any:
    return load_experiment({"network": NETWORK, "job": list(jobs), **tables})


def test_a_file_with_jobs_reads_back_to_an_equal_experiment() -> None:
    second = {"name": "b", "placement": [9, 8], "at": "2 us", "collective": [WORK, {**WORK, "npus": [1, 0]}]}
    experiment = loaded(JOB, {**second, "shape": [2, 1]}, traffic={"pattern": "uniform", "load": 0.1})
    assert type(experiment).from_toml(experiment.to_toml()) == experiment
    assert experiment.background is not None
    assert experiment.job[1].size == 2
    assert experiment.job[1].grid == (2, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"placement": "skattered"},
            r"job\[0\].placement: unknown value 'skattered'; allowed: packed, scattered, random, by-rack, "
            r"a list of NPUs; did you mean 'scattered'\?",
        ),
        ({"placement": [1, 1]}, r"job\[0\].placement: NPU 1 is listed 2 times"),
        ({"npus": None}, r"job\[0\].npus: is missing"),
        ({"placement": [1, 2]}, r"job\[0\].npus: 4 NPUs, but `placement` lists 2"),
        ({"shape": [3, 2]}, r"job\[0\].shape: 3x2 is 6 NPUs, but the job has 4"),
        ({"seed": 3}, r"job\[0\].seed: has no effect"),
        ({"collective": None}, r"job\[0\].workload: the job has no work"),
        ({"workload": {"file": "x.txt"}}, r"job\[0\].collective: cannot be combined with `workload`"),
        ({"collective": {**WORK, "dims": [0]}}, r"job\[0\].collective.dims: cannot be used in a job"),
        ({"collective": {**WORK, "npus": [0, 4]}}, r"job\[0\].collective.npus\[1\]: there is no rank 4"),
        (
            {"collective": [WORK, {"kind": "broadcast", "size": "1 KiB", "root": 4}]},
            r"job\[0\].collective\[1\].root: the root, rank 4, does not participate",
        ),
    ],
)
def test_faults_of_a_job(changes: dict[str, Any], message: str) -> None:
    job = {key: value for key, value in {**JOB, **changes}.items() if value is not None}
    with pytest.raises(InputError, match=message) as caught:
        loaded(job)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"collective": WORK}, r"job: cannot be combined with \[collective\]"),
        ({"workload": {"file": "x.txt"}}, r"job: cannot be combined with \[workload\]"),
        ({"message": [{"src": 0, "dst": 1, "size": "1 B"}]}, r"job: cannot be combined with \[message\]"),
        ({"system": {"boost": True}}, r"job: cannot be combined with system.boost"),
        ({"system": {"compat": "astra-sim-2"}}, r"job: cannot be combined with system.compat"),
        ({"system": {"inter_dimension": "round-robin"}}, r"job: cannot be combined with system.inter_dimension"),
    ],
)
def test_tables_that_jobs_exclude(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        loaded(JOB, **tables)


def test_names_differ() -> None:
    with pytest.raises(InputError, match=r"job\[1\].name: job\[0\] is also named 'a'"):
        loaded(JOB, JOB)
