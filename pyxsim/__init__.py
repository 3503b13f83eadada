"""pyxsim: a flit-level simulator of collective communication on accelerator networks."""

from __future__ import annotations

__version__ = "0.1.0"
