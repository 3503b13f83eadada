"""The cost and energy per token of a point of a search.

Of a run, they are those of `pyxsim.costs.step_cost`, from its counters. Of an estimate, all parts take their power
without work, and the difference to their peak power for the share of the time in which NPUs compute: an upper estimate,
as links and switches are not busy for all of that time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pyxsim.costs import DesignCost, design_cost, step_cost
from pyxsim.errors import InputError
from pyxsim.results.result import Result
from pyxsim.settings import Experiment
from pyxsim.topology import Topology
from pyxsim.workload.training_step import TrainingStep

COST, ENERGY = "cost_per_token", "energy_per_token"
PRICED = (COST, ENERGY)


@dataclass
class Prices:
    """The designs of some experiments, each priced once."""

    _known: dict[str, DesignCost] = field(default_factory=dict)

    def of_estimate(
        self, experiment: Experiment, topology: Topology, step: TrainingStep, seconds: float, computing: float
    ) -> dict[str, float]:
        """Return dollars and joules per token of a step of `seconds`, in which NPUs compute for `computing` seconds.

        Raises InputError for a price or power that neither [cost] nor the catalogue has.
        """
        design = self._design(experiment, topology)
        _check_tokens(step)
        idle, peak = float(design.power_idle), float(design.power_peak)
        energy = idle * seconds + (peak - idle) * min(computing, seconds)
        dollars = float(design.dollars_per_second) * seconds + energy * float(design.figures.electricity)
        return {COST: dollars / step.tokens, ENERGY: energy / step.tokens}

    def of_result(self, experiment: Experiment, topology: Topology, file: Path) -> dict[str, float]:
        """Return dollars and joules per token of a run. Raises InputError likewise."""
        cost = step_cost(self._design(experiment, topology), Result.load(file))
        energy, dollars = cost.energy_per_token, cost.dollars_per_token
        if energy is None or dollars is None:
            raise _no_tokens()
        return {COST: float(dollars), ENERGY: float(energy)}

    def _design(self, experiment: Experiment, topology: Topology) -> DesignCost:
        key = repr((experiment.network, experiment.system.npu, experiment.cost))
        if key not in self._known:
            self._known[key] = design_cost(experiment, topology)
        return self._known[key]


def _check_tokens(step: TrainingStep) -> None:
    if not step.tokens:
        raise _no_tokens()


def _no_tokens() -> InputError:
    allowed = "another objective, or the training of a model with tokens"
    return InputError("the workload has no tokens", key="search.objective", allowed=allowed)
