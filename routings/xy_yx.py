"""O1TURN: dimensions in ascending or in descending order (Seo and others 2005)."""

from pyxsim.registry import grid_routings
from pyxsim.routing import xy_yx
from pyxsim.topology.routings import SEVERAL_DIMENSIONS

grid_routings.register("xy-yx", order=20, vc_classes="twice those of dimension-order", **SEVERAL_DIMENSIONS)(xy_yx)
