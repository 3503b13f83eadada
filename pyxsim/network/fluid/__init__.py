"""The flow backend: messages are fluids that share links fairly (docs/flow.md)."""

from pyxsim.network.fluid import flow as flow
