"""L5, the system layer: cuts collectives into chunks, runs their phases in queues, sends messages.

It drives any `Backend` (pyxsim/network/protocol.py) and never sees a flit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyxsim import plugins
from pyxsim.network.protocol import Backend
from pyxsim.system.options import Options, resolve
from pyxsim.system.protocol import SystemLayer
from pyxsim.system.system import System
from pyxsim.system.work import Collective, PointToPoint

__all__ = ["Collective", "Options", "PointToPoint", "System", "SystemLayer", "make_system", "resolve"]


def make_system(network: Backend, shape: Sequence[int], options: Options) -> SystemLayer:
    """Return the system layer for a network of this shape: pyxsim's own, or the one that `options.compat` names."""
    layer: Callable[..., SystemLayer] = System if options.compat is None else plugins.system_layers.get(options.compat)
    return layer(network, shape, options)
