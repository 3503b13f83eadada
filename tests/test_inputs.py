"""Every experiment under inputs/ runs, proved and checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyxsim.runner.lifecycle import run
from pyxsim.settings import Experiment, load_experiment

INPUTS = Path(__file__).resolve().parents[1] / "inputs"
STUDIES = INPUTS / "studies"  # several experiments in a file each: tests/test_studies.py
TRAINING = INPUTS / "training"  # too much for the packet backend: tests/test_training.py
SWEEPS = INPUTS / "sweeps"  # the same: tests/study/sweep/test_inputs.py
SEARCHES = INPUTS / "search"  # the same: tests/study/search/
ETHERNET = INPUTS / "ethernet"  # for another backend: tests/network/ethernet/test_rails.py
EXPERIMENTS = sorted(
    path
    for path in INPUTS.rglob("*.toml")
    if path.parent not in (SWEEPS, SEARCHES, TRAINING, ETHERNET) and STUDIES not in path.parents
)


# The largest ones are smaller here, and as they are with --slow: the same messages, with fewer packets, or fewer and
# shorter requests.
LESS = {
    "themis.toml": ["collective.size=512 KiB"],
    "tpu_v4_twisted.toml": ["collective.size=128 KiB"],
    "tpu_v4_slice.toml": ["collective.size=512 KiB"],
    "aggregated.toml": [f"workload.serving.{key}" for key in ("requests=4", "prompt.tokens=30", "output.tokens=5")],
    "disaggregated.toml": [f"workload.serving.{key}" for key in ("requests=4", "prompt.tokens=50", "output.tokens=5")],
    "experts.toml": ["workload.serving.requests=4"],
}


def has_data(experiment: Experiment) -> bool:
    """Whether an experiment has data to carry. An all-to-all with different amounts, as of experts, has none."""
    if experiment.traffic is not None or experiment.system.compat:
        return False  # with compat other bytes are sent than the data have, as the original does
    if any(job.restart is not None for job in experiment.job):
        return False  # what an iteration leaves is lost when the job starts again
    if experiment.workload is not None and experiment.workload.serving is not None:
        return experiment.workload.experts is None
    given = experiment.collective
    return all(one.matrix is None for one in (given if isinstance(given, tuple) else [given]) if one is not None)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda p: str(p.relative_to(INPUTS)))
def test_experiment_runs(path: Path, request: pytest.FixtureRequest) -> None:
    # Data are carried where there are some: what NPUs end with is compared with the result computed directly.
    experiment = load_experiment(path)
    carry = ["output.carry=true"] if has_data(experiment) else []
    less = [] if request.config.getoption("--slow") else LESS.get(path.name, [])
    result = run(path, overrides=carry + less)
    assert result.complete
    assert (result.carried is not None) == bool(carry)
    if result.traffic is not None:
        assert result.traffic.summary["steady"]
    elif result.serving is not None:  # as of graphs of tasks
        assert result.serving.summary["finished"] == result.serving.summary["requests"] > 0
    elif result.work is None:  # of graphs of tasks no bound is told: they compute, too
        assert result.lower_bound_ns is not None
        assert result.time_ns >= result.lower_bound_ns
    assert int(result.totals["flits"].sum()) == result.counts["flit_hops"]
    assert not result.warnings, "what ships should not need a warning"


def test_there_are_experiments() -> None:
    assert INPUTS / "torus_all_reduce.toml" in EXPERIMENTS
