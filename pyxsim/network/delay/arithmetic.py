"""Arithmetic of the delays: exact fractions, or rounded as ASTRA-sim 1 or 2 does (`compat`)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.network.delay.rule import Doubles, Exact, Rule, Summands
from pyxsim.network.link_paths import Fractions, in_cycles
from pyxsim.settings import Network, per_dimension

COMPATS = ("astra-sim-1", "astra-sim-2")
GIB = 2**30


def check_compat(network: Network, compat: str | None) -> None:
    """Raise InputError for an unknown `compat`, or keys of `[network.analytical]` that it does not use."""
    if compat not in (None, *COMPATS):
        raise InputError(f"the analytical backends do not reproduce the arithmetic of '{compat}'", key="system.compat")
    summands = network.analytical.summands
    if summands and compat != "astra-sim-1":
        raise InputError(
            "applies only to the delays of ASTRA-sim 1",
            key=f"network.analytical.{summands[0]}",
            allowed='no value, or system.compat = "astra-sim-1"',
        )


class Arithmetic:
    """Makes the rule of a `compat`, and converts latencies to its unit. `rates`: bytes per cycle of each kind."""

    def __init__(self, network: Network, compat: str | None, rates: Fractions, latencies: Fractions) -> None:
        self.exact = compat is None
        self.unit = lcm(*(latency.denominator for latency in latencies)) if self.exact else 1
        self._network = network
        self._rates = rates
        self._compat = compat

    def rule(self, switched: Sequence[bool]) -> Rule:
        """Return the rule; `switched`: whether messages of each kind pass a switch."""
        if self.exact:
            try:
                return Exact(self._rates, self.unit)
            except InputError as error:
                raise error.at(key="network.bandwidth") from None
        rates = [_as_astra_sim(rate * self._network.clock, self._network.clock) for rate in self._rates]
        if self._compat == "astra-sim-2":
            return Doubles(rates)
        return Summands(rates, _summands(self._network, switched))

    def latency(self, values: Fractions) -> NDArray[Any]:
        """Return latencies in the unit of the rule: integers of 1 / `unit` cycles, or floating-point cycles."""
        if self.exact:
            return np.array([int(value * self.unit) for value in values], np.int64)
        return np.array([float(value) for value in values], np.float64)


def _as_astra_sim(bandwidth: Fraction, clock: Fraction) -> float:
    """Bytes per cycle in floating point, rounded as in ASTRA-sim: first GB/s of 2^30 bytes, then per ns."""
    return float(bandwidth / GIB) * GIB / float(clock)


def _summands(network: Network, switched: Sequence[bool]) -> list[tuple[float, ...]]:
    """The terms of interface, switch and memory in each dimension (see `Summands`)."""
    extra, clock, dims = network.analytical, network.clock, len(switched)
    for name in extra.summands:
        value = getattr(extra, name)
        if isinstance(value, tuple) and len(value) != dims:
            raise InputError(
                f"the list has {len(value)} entries, but the network has {dims} dimensions",
                key=f"network.analytical.{name}",
                allowed=f"one value for all, or a list of {dims}",
            )
    scales = per_dimension(extra.hbm_scale, dims)
    if any(scales) and extra.hbm_bandwidth is None:
        raise InputError("is missing, but hbm_scale is not 0", key="network.analytical.hbm_bandwidth")
    memory = per_dimension(extra.hbm_bandwidth or Fraction(clock), dims)
    columns = zip(
        per_dimension(extra.nic_latency, dims),
        per_dimension(extra.router_latency, dims),
        per_dimension(extra.hbm_latency, dims),
        memory,
        scales,
        switched,
        strict=True,
    )
    return [
        (
            2 * float(in_cycles(nic, clock)),
            float(in_cycles(router, clock)) if has_switch else 0.0,
            float(in_cycles(late, clock)),
            float(width / clock),
            float(scale),
        )
        for nic, router, late, width, scale, has_switch in columns
    ]
