"""up*/down*: toward a root, then away from it (Autonet 1991)."""

from pyxsim.registry import graph_routings
from pyxsim.routing import up_down

graph_routings.register("up-down", order=0, vc_classes="1")(up_down)
