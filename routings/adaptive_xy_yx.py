"""O1TURN with the order chosen by the load at the source."""

from pyxsim.registry import grid_routings
from pyxsim.routing import adaptive_xy_yx
from pyxsim.topology.routings import SEVERAL_DIMENSIONS

grid_routings.register(
    "adaptive-xy-yx", order=30, adaptive=True, vc_classes="twice those of dimension-order", **SEVERAL_DIMENSIONS
)(adaptive_xy_yx)
