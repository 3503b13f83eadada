"""ASTRA-sim's dimensions (Ring, FullyConnected, Switch) as settings. Units: GB/s of 2^30 bytes, ns."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from pyxsim.settings import Network
from pyxsim.units import format_bandwidth, format_bytes, format_time, parse_bandwidth, parse_bytes

DEFAULT_FLIT, DEFAULT_PACKET = (parse_bytes(Network.model_fields[key].default) for key in ("flit", "packet"))
BLOCKS = {"Ring": "ring", "FullyConnected": "fully-connected", "Switch": "switch"}


def dimension(block: str, npus: int, gib_per_second: Fraction, nanoseconds: Fraction) -> dict[str, Any]:
    """Return a table [[network.dims]]."""
    return {
        "block": block,
        "npus": npus,
        "bandwidth": format_bandwidth(gib_per_second * 2**30),
        "latency": time(nanoseconds),
    }


def flit_setting(dims: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the setting `flit` at which no dimension is wider than a flit per ns; empty where the default serves.

    The clock remains 1 GHz: ASTRA-sim counts whole nanoseconds.
    """
    width = max(parse_bandwidth(dim["bandwidth"]) for dim in dims)
    flit = DEFAULT_FLIT
    while flit * 10**9 < width:
        flit *= 2
    if flit == DEFAULT_FLIT:
        return {}
    return {"flit": format_bytes(flit), "packet": format_bytes(max(DEFAULT_PACKET, flit))}


def time(nanoseconds: Fraction) -> str:
    """Return a time as a setting."""
    return format_time(nanoseconds / 10**9)
