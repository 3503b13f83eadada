"""Several jobs together and each alone: `pyxsim jobs`."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.results.result import Result
from pyxsim.runner.checkpoint.context import CheckpointContext
from pyxsim.runner.lifecycle import run_experiment
from pyxsim.settings import Experiment, folder_of, load_experiment
from pyxsim.settings.load import Source
from pyxsim.settings.types import listed
from pyxsim.workload.jobs.placement import placed


def jobs(
    source: Source,
    *,
    overrides: Iterable[str] = (),
    backend: str = "packet",
    libraries: Iterable[str | PathLike[str]] = (),
    allow_deadlock: bool = False,
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

    Returns
    -------
    Result
        That of all jobs together; its dataset `jobs` also has the time `alone` of each job, without other jobs and
        background traffic, and its `slowdown`. A job that fails alone has neither; a warning says why.

    Raises
    ------
    InputError
        If the experiment is invalid or has no jobs.
    SimulationError
        When the simulated system fails with all jobs; its attribute `result` holds what was simulated.
    """
    libraries = listed(libraries)
    experiment = load_experiment(source, overrides, libraries)
    if not experiment.job:
        raise InputError("the experiment has no jobs", key="job", allowed="tables [[job]]")
    folder = folder_of(source)
    context = CheckpointContext(backend=backend, libraries=tuple(map(str, libraries)))
    outcome = run_experiment(experiment, folder=folder, allow_deadlock=allow_deadlock, context=context)
    result, prepared = outcome.result_or_raise(), outcome.prepared
    assert prepared.mode == "closed"
    homes = placed(experiment.job, prepared.topology, experiment.output.seed)
    for number, npus in enumerate(homes):
        alone = _alone(experiment, number, npus, prepared.system.options.scheduling)
        name = experiment.job[number].name
        run = run_experiment(alone, folder=folder, allow_deadlock=allow_deadlock, context=context)
        if run.failure is not None:
            result.warnings.append(f"job '{name}' fails alone: {run.failure}")
        elif run.result.complete:
            (row,) = run.result.jobs
            _compare(result.jobs[number], row["time"])
        else:  # Ctrl-C
            result.warnings.append(f"interrupted before job '{name}' had run alone")
            break
    return result


def _alone(experiment: Experiment, number: int, npus: IntArray, scheduling: str) -> Experiment:
    """One job on the same NPUs. Priorities count if they count for all jobs together."""
    update = {"placement": tuple(npus.tolist()), "npus": None, "seed": None}
    return experiment.model_copy(
        update={
            "job": (experiment.job[number].model_copy(update=update),),
            "traffic": None,
            "system": experiment.system.model_copy(update={"scheduling": scheduling}),
            "output": experiment.output.model_copy(update={"attribution": "off", "tasks": False}),
        }
    )


def _compare(row: dict[str, Any], alone: int) -> None:
    """Add the time alone and the slowdown to the row of a job."""
    row["alone"] = alone
    if row["time"] >= 0 and alone > 0:
        row["slowdown"] = row["time"] / alone
