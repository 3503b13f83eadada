"""What a system costs and which energy a run takes: prices and powers from a catalogue and from [cost]."""

from __future__ import annotations

from pyxsim.costs.design import DesignCost, design_cost
from pyxsim.costs.energy import RunEnergy, energy
from pyxsim.costs.step import StepCost, step_cost

__all__ = ["DesignCost", "RunEnergy", "StepCost", "design_cost", "energy", "step_cost"]
