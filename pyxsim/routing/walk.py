"""Whether every pair has a route."""

from pyxsim.routing.explore import BATCH
from pyxsim.routing.journeys import check_routes

__all__ = ["BATCH", "check_routes"]
