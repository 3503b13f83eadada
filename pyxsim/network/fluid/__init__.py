"""The flow backend: messages are fluids that share links fairly (docs/flow.md)."""

from pyxsim.plugins import Target, backends

backends.register("flow", cost=3)(Target("pyxsim.network.fluid.flow:FlowNetwork"))
