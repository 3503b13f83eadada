"""L5, the system layer: collectives as chunks, chunks as phases, phases in the queues of a dimension, messages out.

It drives any `Backend` (pyxsim/network/protocol.py) and never sees a flit.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyxsim.compat.astra.system import AstraSystem
from pyxsim.network.protocol import Backend
from pyxsim.system.options import Options, resolve
from pyxsim.system.protocol import SystemLayer
from pyxsim.system.system import System
from pyxsim.system.work import Collective, PointToPoint

__all__ = ["AstraSystem", "Collective", "Options", "PointToPoint", "System", "SystemLayer", "make_system", "resolve"]


def make_system(network: Backend, shape: Sequence[int], options: Options) -> SystemLayer:
    """The system layer for a network of this shape: ours, or that of the simulator that `options.compat` names."""
    if options.compat is not None:
        return AstraSystem(network, shape, options)
    return System(network, shape, options)
