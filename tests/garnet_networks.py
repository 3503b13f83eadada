"""Garnet's networks, from their file on the shelf."""

from __future__ import annotations

from importlib import import_module

from pyxsim import library

library.load_all()
_FILE = import_module("pyxsim_library.topologies.garnet")
garnet_torus, garnet_switch = _FILE.garnet_torus, _FILE.garnet_switch
