"""L5, the system layer: collectives as chunks, chunks as phases, phases in the queues of a dimension, messages out.

It drives any `Network` (pyxsim/network/protocol.py) and never sees a flit.
"""

from __future__ import annotations

from pyxsim.system.options import Options, resolve
from pyxsim.system.system import System
from pyxsim.system.work import Collective

__all__ = ["Collective", "Options", "System", "resolve"]
