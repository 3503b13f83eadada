"""The flow backend: messages are fluids with max-min fair rates (docs/flow.md)."""

from pyxsim.plugins import Target, backends

backends.register("flow", cost=3)(Target("pyxsim.network.fluid.flow:FlowNetwork"))
