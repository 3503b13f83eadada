"""Links that are slow, lose packets or are down ([[network.ethernet.links]]): how the network changes over time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from pyxsim.arrays import BoolArray
from pyxsim.errors import InputError
from pyxsim.network.ethernet.config import EthernetConfig, picoseconds, routes_of
from pyxsim.network.name_patterns import matches
from pyxsim.settings import Network
from pyxsim.settings.ethernet import LinkFault
from pyxsim.topology.topology import Topology

_KEY = "network.ethernet.links"
_MOST_DENOMINATOR = 10**6  # of picoseconds per byte: the products of the engine stay below 2^63


class LinkChange(NamedTuple):
    """From `time` (ps) on, the network has these arrays."""

    time: int
    arrays: EthernetConfig


@dataclass(frozen=True, eq=False)
class _Entry:
    """An entry of the settings: which links, and when (ps; None: until the end of the run)."""

    key: str
    fault: LinkFault
    links: BoolArray
    start: int
    end: int | None
    convergence: int

    def holds(self, time: int) -> bool:
        """Whether the links are affected at a time."""
        return self.start <= time and (self.end is None or time < self.end)

    def avoided(self, time: int) -> bool:
        """Whether routes avoid the links at a time."""
        return self.reroutes and self.holds(time - self.convergence)

    @property
    def reroutes(self) -> bool:
        """Whether routes ever avoid the links."""
        lasts = self.end is None or self.end - self.start > self.convergence
        return self.fault.down and self.fault.routes == "avoid" and lasts


def link_changes(topology: Topology, network: Network, arrays: EthernetConfig) -> list[LinkChange]:
    """Return the arrays of the network from time 0 on, and at each time at which links or routes change.

    `arrays`: the network without faults of links. Raises InputError.
    """
    settings = network.ethernet
    entries = [
        _entry(topology, network, arrays, fault, f"{_KEY}[{number}]") for number, fault in enumerate(settings.links)
    ]
    if not arrays.rules["retry"] and any(_loses(entry.fault) for entry in entries):
        problem = "links lose packets, and without a timeout they are not sent again"
        raise InputError(problem, key="network.ethernet.timeout", allowed="above 0")
    times = {0}
    for entry in entries:
        ends = [entry.start] if entry.end is None else [entry.start, entry.end]
        times.update(ends)
        if entry.reroutes:
            times.update(time + entry.convergence for time in ends)
    routes: dict[bytes, EthernetConfig] = {}
    return [LinkChange(time, _arrays_at(time, entries, topology, arrays, routes)) for time in sorted(times)]


def _loses(fault: LinkFault) -> bool:
    return fault.down or bool(fault.packet_error_rate or fault.bit_error_rate)


def _entry(topology: Topology, network: Network, arrays: EthernetConfig, fault: LinkFault, key: str) -> _Entry:
    names = topology.counted_link_name
    links = np.fromiter((matches(name, fault.link) for name in names), np.bool_, len(names))
    if not links.any():
        raise InputError(f"no link has the name '{fault.link}'", key=f"{key}.link", allowed=names, given=fault.link)
    if fault.both_directions:
        links[arrays.ports[links, 2]] = True
    start = picoseconds(fault.start, network.clock)
    end = None if fault.end is None else picoseconds(fault.end, network.clock)
    if end is not None and end <= start:
        raise InputError("the end is not after the start", key=f"{key}.end", allowed="a time after `start`")
    return _Entry(key, fault, links, start, end, picoseconds(fault.convergence, network.clock))


def _arrays_at(
    time: int,
    entries: list[_Entry],
    topology: Topology,
    arrays: EthernetConfig,
    routes: dict[bytes, EthernetConfig],
) -> EthernetConfig:
    """The network at a time. `routes`: configurations by the links that their routes avoid."""
    ports, survival = arrays.ports.copy(), arrays.survival.copy()
    slower: dict[tuple[int, int, Fraction], tuple[int, int]] = {}
    factor: dict[int, Fraction] = {}
    for entry in entries:
        if not entry.holds(time):
            continue
        fault = entry.fault
        survival[entry.links, 0] += -np.inf if fault.down else np.log1p(-float(fault.packet_error_rate))
        survival[entry.links, 1] += 8 * np.log1p(-float(fault.bit_error_rate))
        if fault.rate_factor != 1:
            for link in np.flatnonzero(entry.links).tolist():
                factor[link] = factor.get(link, Fraction(1)) * fault.rate_factor
    for link, share in factor.items():
        key = int(ports[link, 3]), int(ports[link, 4]), share
        if key not in slower:
            per_byte = (Fraction(*key[:2]) / share).limit_denominator(_MOST_DENOMINATOR)
            slower[key] = per_byte.numerator, per_byte.denominator
        ports[link, 3:5] = slower[key]
    avoided = np.zeros(len(ports), np.bool_)
    for entry in entries:
        if entry.avoided(time):
            avoided |= entry.links
            last = entry.key
    if not avoided.any():
        return replace(arrays, ports=ports, survival=survival)
    packed = avoided.tobytes()
    if packed not in routes:
        routes[packed] = _rerouted(topology, arrays, avoided, last)
    return replace(routes[packed], ports=ports, survival=survival)


def _rerouted(topology: Topology, arrays: EthernetConfig, avoided: BoolArray, key: str) -> EthernetConfig:
    """The network whose routes avoid some links. Raises InputError if an NPU is cut off."""
    allowed = "links that leave every NPU reachable; or network.ethernet.routes = 'stale'"
    if avoided[topology.links :].any():
        name = topology.counted_link_name[topology.links + int(avoided[topology.links :].argmax())]
        raise InputError(f"the NPU of '{name}' has no other link", key=f"{key}.down", allowed=allowed)
    homes = np.unique(topology.home.astype(np.int64))
    try:
        kept = avoided[: topology.links]
        route, set_start, set_port = routes_of(topology, homes, kept, npus_forward=arrays.npus_forward)
    except InputError as error:
        raise InputError(f"without these links, {error.problem}", key=f"{key}.down", allowed=allowed) from None
    return replace(arrays, route=route, set_start=set_start, set_port=set_port)
