"""Several jobs together and each alone: `pyxsim jobs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError, SimulationError
from pyxsim.results.result import Result
from pyxsim.runner.checkpoint.context import CheckpointContext
from pyxsim.runner.hooks import ProgressHooks
from pyxsim.runner.lifecycle import RunOutcome, run_experiment
from pyxsim.settings import Experiment, folder_of, load_experiment
from pyxsim.settings.failure import Fault
from pyxsim.settings.load import Source
from pyxsim.settings.run import with_oom
from pyxsim.settings.types import listed
from pyxsim.workload.jobs.placement import placed, spare_npus


def jobs(
    source: Source,
    *,
    overrides: Iterable[str] = (),
    backend: str = "packet",
    libraries: Iterable[str | PathLike[str]] = (),
    allow_deadlock: bool = False,
    allow_oom: bool = False,
) -> Result:
    """Simulate jobs together, then each alone on the same NPUs.

    Parameters
    ----------
    source
        An experiment with tables [[job]]: a file, a dict or an object.
    overrides
        Settings such as "system.chunks=8".
    backend
        The network model.
    libraries
        Folders with shelves of your own.
    allow_deadlock
        Run routes that are not proved free of deadlock, with a warning.
    allow_oom
        Run models that need more memory than an NPU has, with a warning (docs/training.md).

    Returns
    -------
    Result
        That of all jobs together; its dataset `jobs` also has the time `alone` of each job, without other jobs and
        background traffic, and its `slowdown`. A job that fails alone has neither; a warning says why. After Ctrl-C,
        the jobs that had not yet run alone have neither.

    Raises
    ------
    InputError
        If the experiment is invalid or has no jobs.
    SimulationError
        When the simulated system fails with all jobs; its attribute `result` holds what was simulated.
    """
    libraries = listed(libraries)
    experiment = load_experiment(source, with_oom(overrides, allow_oom), libraries)
    done = run_jobs(
        experiment,
        folder=folder_of(source),
        context=CheckpointContext(backend=backend, libraries=tuple(map(str, libraries))),
        allow_deadlock=allow_deadlock,
    )
    if done.failure is not None:
        done.failure.result = done.result  # type: ignore[attr-defined]
        raise done.failure
    return done.result


@dataclass(frozen=True)
class JobsOutcome:
    """What came of the runs: the result of all jobs together, its failure, and whether a signal ended the runs."""

    result: Result
    failure: SimulationError | None = None
    interrupted: bool = False


def run_jobs(
    experiment: Experiment,
    *,
    folder: Path,
    context: CheckpointContext,
    allow_deadlock: bool = False,
    hooks: Callable[[str], ProgressHooks] = lambda label: ProgressHooks(),
) -> JobsOutcome:
    """Simulate jobs together, then each alone; as `jobs`, but failures and interruptions are part of the outcome.

    `hooks`: makes those of a run from its label. Raises InputError.
    """
    if not experiment.job:
        raise InputError("the experiment has no jobs", key="job", allowed="tables [[job]]")

    def run(one: Experiment, label: str) -> RunOutcome:
        return run_experiment(one, folder=folder, allow_deadlock=allow_deadlock, context=context, hooks=hooks(label))

    together = run(experiment, "together: ")
    result, prepared = together.result, together.prepared
    if together.failure is not None or not result.complete:
        return JobsOutcome(result, together.failure, interrupted=together.failure is None)
    assert prepared.mode == "closed"
    homes = placed(experiment.job, prepared.topology, experiment.output.seed)
    spares = spare_npus(experiment.job, homes, prepared.topology)
    for number, (job, npus) in enumerate(zip(experiment.job, homes, strict=True)):
        alone = run(
            _alone(experiment, number, npus, spares[number], prepared.system.options.scheduling), f"{job.name} alone: "
        )
        if alone.failure is not None:
            result.warnings.append(f"job '{job.name}' fails alone: {alone.failure}")
        elif not alone.result.complete:
            result.warnings.append(f"interrupted before job '{job.name}' had run alone")
            return JobsOutcome(result, interrupted=True)
        else:
            _compare(result.jobs[number], alone.result.jobs[0]["time"])
    return JobsOutcome(result)


def _alone(experiment: Experiment, number: int, npus: IntArray, spares: list[int], scheduling: str) -> Experiment:
    """One job on the same NPUs, with the same spares. Priorities count if they count for all jobs together."""
    update: dict[str, Any] = {"placement": tuple(npus.tolist()), "npus": None, "seed": None}
    if (restart := experiment.job[number].restart) is not None:
        update["restart"] = restart.model_copy(update={"spares": tuple(spares)})
    return experiment.model_copy(
        update={
            "job": (experiment.job[number].model_copy(update=update),),
            "traffic": None,
            "faults": tuple(_faults_of(experiment, number)),
            "system": experiment.system.model_copy(update={"scheduling": scheduling}),
            "output": experiment.output.model_copy(update={"attribution": "off", "tasks": False}),
        }
    )


def _faults_of(experiment: Experiment, number: int) -> Iterator[Fault]:
    """The faults that have an effect on one job; slow and stopped NPUs have none on collectives alone."""
    job = experiment.job[number]
    for fault in experiment.faults:
        computes = job.workload is not None or (fault.stop and job.restart is not None)
        if not fault.affects_npus or computes:
            yield fault
        elif fault.affects_links:
            yield fault.model_copy(update={"slow": Fraction(1), "stop": False})


def _compare(row: dict[str, Any], alone: int) -> None:
    """Add the time alone and the slowdown to the row of a job."""
    row["alone"] = alone
    if row["time"] >= 0 and alone > 0:
        row["slowdown"] = row["time"] / alone
