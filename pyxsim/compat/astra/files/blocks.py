"""ASTRA-sim's dimensions (Ring, FullyConnected, Switch) as settings. Units: GB/s of 2^30 bytes, ns."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from pyxsim.units import format_bandwidth, format_time

BLOCKS = {"Ring": "ring", "FullyConnected": "fully-connected", "Switch": "switch"}


def dimension(block: str, npus: int, gib_per_second: Fraction, nanoseconds: Fraction) -> dict[str, Any]:
    """Return a table [[network.dims]]."""
    return {
        "block": block,
        "npus": npus,
        "bandwidth": format_bandwidth(gib_per_second * 2**30),
        "latency": time(nanoseconds),
    }


def time(nanoseconds: Fraction) -> str:
    """Return a time as a setting."""
    return format_time(nanoseconds / 10**9)
