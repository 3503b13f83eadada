"""The cost of a run: its energy, and its share of the price of the system, per token where it trains a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyxsim.costs.design import DesignCost
from pyxsim.costs.energy import RunEnergy, energy
from pyxsim.results.result import Result
from pyxsim.settings.estimate import Estimate


@dataclass(frozen=True, eq=False)
class StepCost:
    """The cost of a run, such as a training step.

    Attributes
    ----------
    design
        The system.
    run
        The energy of the run, by parts.
    steps
        Steps of the run: passes of a workload.
    tokens
        Tokens of all steps; None if the run trains no model with tokens.
    """

    design: DesignCost
    run: RunEnergy
    steps: int
    tokens: int | None

    @property
    def seconds(self) -> float:
        """Simulated time, s."""
        return self.run.seconds

    @property
    def energy(self) -> Estimate:
        """Energy with the data centre's share, J."""
        return self.run.at_the_wall

    @property
    def power(self) -> Estimate:
        """Mean power with the data centre's share, W; zero for a run without time."""
        return self.energy / self.seconds if self.seconds else Estimate.of(0)

    @property
    def energy_per_bit(self) -> Estimate | None:
        """Energy of the network per delivered bit, J."""
        return self.run.per_bit

    @property
    def energy_dollars(self) -> Estimate:
        """Price of the electricity, dollars."""
        return self.energy * self.design.figures.electricity

    @property
    def system_dollars(self) -> Estimate:
        """Share of the price of the system, dollars. Raises InputError for a part without a price."""
        return self.design.dollars_per_second * self.seconds

    @property
    def dollars(self) -> Estimate:
        """Electricity and share of the price, dollars. Raises InputError for a part without a price."""
        return self.energy_dollars + self.system_dollars

    @property
    def energy_per_token(self) -> Estimate | None:
        """Energy per token, J; None without tokens."""
        return self.energy / self.tokens if self.tokens else None

    @property
    def dollars_per_token(self) -> Estimate | None:
        """Price per token, dollars; None without tokens. Raises InputError for a part without a price."""
        return self.dollars / self.tokens if self.tokens else None

    def json(self) -> dict[str, Any]:
        """Return the cost for JSON; null where a price is not known."""
        priced = self.design.known("capex")[0] is not None
        per_token = None if self.energy_per_token is None else self.energy_per_token.json()
        dollars_per_token = self.dollars_per_token if priced else None
        return {
            **self.run.json(),
            "power": self.power.json(),
            "steps": self.steps,
            "tokens": self.tokens,
            "energy_per_token": per_token,
            "electricity_dollars": self.energy_dollars.json(),
            "system_dollars": self.system_dollars.json() if priced else None,
            "dollars": self.dollars.json() if priced else None,
            "dollars_per_token": None if dollars_per_token is None else dollars_per_token.json(),
        }


def step_cost(design: DesignCost, result: Result) -> StepCost:
    """Return the cost of a run on a system.

    Parameters
    ----------
    design
        The system, from `design_cost`.
    result
        The run, on any backend, or read from a file.

    Raises
    ------
    InputError
        For a power that neither [cost] nor the catalogue has, and for a result of another network.
    """
    row = result.training[0] if result.training else {}
    steps = int(row.get("steps", 1))
    tokens = int(row.get("tokens", 0)) * steps
    return StepCost(design, energy(result, design=design), steps, tokens or None)
