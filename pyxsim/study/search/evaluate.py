"""What a point of a search is worth: estimates in batches, and runs of whole points.

Estimates of training steps use the times of their communication (`phase_times`), which a process keeps for all points
that it estimates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyxsim import library
from pyxsim.errors import InputError, PyxsimError
from pyxsim.library import user_fault
from pyxsim.settings import Experiment
from pyxsim.settings.search import ESTIMATE, PHASES
from pyxsim.settings.space import Place, Space
from pyxsim.study.search.cuts import Networks, plan_of_step
from pyxsim.study.search.phase_times import FittedTimes, SimulatedTimes
from pyxsim.study.search.pricing import Prices
from pyxsim.study.sweep.task import Outcome
from pyxsim.topology import Topology
from pyxsim.workload.parallel.estimate import computing_cycles, step_cycles
from pyxsim.workload.training_step import TrainingStep

MODELS = (ESTIMATE, PHASES)  # beside the backends
_SCREENING, _DECIDING = "flow", "packet"  # the backends of the phases
Values = dict[str, float]


def step_values(step: TrainingStep, seconds: float) -> Values:
    """Return the objectives of a training step that takes `seconds`."""
    peak = float(step.peak) * step.npus * seconds
    values = {
        "step_time": seconds * 1e9,
        "mfu": step.model_flops / peak,
        "samples_per_s": step.samples / seconds,
        "memory": float(step.fullest.total),
    }
    if step.tokens:
        values["tokens_per_s"] = step.tokens / seconds
        values["tokens_per_s_npu"] = step.tokens / seconds / step.npus
    if step.capacity is not None:
        values["memory_headroom"] = 1 - step.fullest.total / step.capacity
    return values


def step_of(experiment: Experiment, networks: Networks, folder: Path) -> TrainingStep:
    """Return the training step of an experiment. Raises InputError."""
    return plan_of_step(*networks.of(experiment), folder)[1]


class Estimator:
    """Estimates training steps. `folder`: start of relative paths."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.networks = Networks(folder)
        self.prices = Prices()
        self._fitted: dict[str, FittedTimes] = {}
        self._simulated: dict[str, SimulatedTimes] = {}

    def values(self, experiment: Experiment, model: str, *, priced: bool = False) -> Values:
        """Return the objectives of an experiment by the model ESTIMATE or PHASES. Raises InputError.

        `priced`: whether the cost and energy per token are among them.
        """
        if experiment.workload is None or experiment.workload.model is None:
            raise InputError(
                f"'{model}' needs the training of a model", key="search", allowed="a backend, or [workload] model"
            )
        experiment, topology = self.networks.of(experiment)
        plan, step = plan_of_step(experiment, topology, self.folder)
        times = self._times(experiment, topology, model)
        if isinstance(times, SimulatedTimes):
            cycles = times.of_plan(plan, step_cycles)
        else:
            cycles = step_cycles(plan, times)
        clock = float(experiment.network.clock)
        seconds = cycles / clock
        values = step_values(step, seconds)
        if priced:
            computing = computing_cycles(plan) / clock
            values |= self.prices.of_estimate(experiment, topology, step, seconds, computing)
        return values

    def _times(self, experiment: Experiment, topology: Topology, model: str) -> FittedTimes:
        key = repr((experiment.network, experiment.system.model_copy(update={"npu": None}), experiment.output.seed))
        if model == ESTIMATE:
            if key not in self._fitted:
                self._fitted[key] = FittedTimes(experiment, topology, self.folder, _SCREENING)
            return self._fitted[key]
        if key not in self._simulated:
            self._simulated[key] = SimulatedTimes(experiment, topology, self.folder, _DECIDING)
        return self._simulated[key]


_ESTIMATORS: dict[tuple[Path, tuple[str, ...]], Estimator] = {}


def estimator(folder: Path, libraries: tuple[str, ...]) -> Estimator:
    """Return the estimator of this process."""
    key = folder, libraries
    if key not in _ESTIMATORS:
        library.load_all(libraries)
        _ESTIMATORS[key] = Estimator(folder)
    return _ESTIMATORS[key]


@dataclass(frozen=True)
class Estimates:
    """The work of a process: points of a space to estimate. The image of the outcome is JSON: for each place, its
    values or why it has none."""

    space: Space
    places: Sequence[Place]
    model: str
    folder: Path
    libraries: tuple[str, ...] = ()
    priced: bool = False

    def carry_out(self) -> Outcome:
        """Estimate all points."""
        own = estimator(self.folder, self.libraries)
        return Outcome(json.dumps([self._row(own, place) for place in self.places]).encode())

    def _row(self, own: Estimator, place: Place) -> dict[str, Any]:
        try:
            point = self.space.point(place)
            try:
                return {"values": own.values(point.experiment, self.model, priced=self.priced)}
            except InputError as error:
                raise point.placed(error) from None
        except PyxsimError as error:
            return {"fault": str(error)}
        except Exception as error:
            user = user_fault(error)
            return {
                "fault": str(user) if user is not None else f"this is a bug of pyxsim: {type(error).__name__}: {error}"
            }
