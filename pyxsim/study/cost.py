"""What the system of an experiment costs, or what a run cost: `pyxsim cost`."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath

from pyxsim import library
from pyxsim.costs.design import DesignCost, design_cost
from pyxsim.costs.energy import design_of_result
from pyxsim.costs.step import StepCost, step_cost
from pyxsim.errors import InputError, raise_all
from pyxsim.results.result import Result
from pyxsim.runner.resolved import resolved
from pyxsim.settings import folder_of, load_experiment
from pyxsim.settings.load import Source
from pyxsim.settings.override import parse_override
from pyxsim.settings.toml import parse_toml
from pyxsim.settings.types import listed


def cost(
    source: Source | Result, overrides: Iterable[str] = (), *, libraries: Iterable[str | PathLike[str]] = ()
) -> DesignCost | StepCost:
    """Return what a system costs, or a run on it.

    Parameters
    ----------
    source
        An experiment (a file, a dict or an object), or a result (a Result, or its HDF5 file). Of a file with [search]
        the experiment that its designs vary.
    overrides
        Settings such as "cost.npu.price=25 k$"; for a result those of [cost] only.
    libraries
        Folders with shelves of your own.

    Returns
    -------
    DesignCost or StepCost
        Price and power of the system of an experiment; energy and cost of a run.

    Raises
    ------
    InputError
        For an invalid experiment or file, an unknown entry of the catalogue, or a figure that a run needs and that is
        not known.
    """
    overrides, libraries = listed(overrides), listed(libraries)
    if isinstance(source, Result):
        return _of_run(source, overrides)
    if isinstance(source, str | PathLike) and fspath(source).endswith(".h5"):
        return _of_run(Result.load(source), overrides)
    experiment = load_experiment(source, overrides, libraries, base=True)
    library.load_all(libraries)
    experiment, _ = resolved(experiment, folder_of(source))
    return design_cost(experiment.placed(folder_of(source)))


def _of_run(result: Result, overrides: list[str]) -> StepCost:
    wrong = [text for text in overrides if parse_override(text)[0][0] != "cost"]
    allowed = "cost.KEY=VALUE: the run is done"
    raise_all([InputError(f"'{text}' cannot change a result", file="--set", allowed=allowed) for text in wrong])
    given = None
    if overrides:
        given = load_experiment(parse_toml(result.experiment_toml), overrides).cost
    return step_cost(design_of_result(result, given), result)
