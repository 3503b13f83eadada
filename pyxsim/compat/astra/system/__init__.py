"""The system layers of ASTRA-sim 1 and 2, event by event (docs/compat.md)."""

from pyxsim.compat.astra.system.astra_system import AstraSystem

__all__ = ["AstraSystem"]
