"""Power and area of routers and wires on a chip, with the model of BookSim2 (Balfour and Dally 2006)."""

from __future__ import annotations

from pyxsim.costs.noc.power import Activity, NocDesign, NocPower, noc_power
from pyxsim.costs.noc.technology import Technology

__all__ = ["Activity", "NocDesign", "NocPower", "Technology", "noc_power"]
