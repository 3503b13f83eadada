"""The clock of a network whose experiment gives none."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np

from pyxsim.settings import Network
from pyxsim.topology.topology import Topology
from pyxsim.units import format_bandwidth, format_bytes, format_frequency, parse_bandwidth

_STEP = 10**9  # Hz: latencies in ns remain whole cycles


def with_clock(network: Network, topology: Topology) -> tuple[Network, list[str]]:
    """Return the settings with a clock at which no link is wider than a flit per cycle, and a note if it is not 1 GHz.

    Settings with a clock of their own are returned as they are; the engine refuses wider links. Raises InputError for
    a link whose bandwidth is invalid.
    """
    if "clock" in network.model_fields_set:
        return network, []
    width = _widest(network, topology)
    clock = max(network.clock, Fraction(ceil(width / network.flit / _STEP) * _STEP))
    note = (
        f"network.clock: {format_frequency(clock)} instead of {format_frequency(network.clock)}, so that a flit of "
        f"{format_bytes(network.flit)} per cycle carries {format_bandwidth(width)}"
    )
    return network.model_copy(update={"clock": clock}), [note] if clock > network.clock else []


def _widest(network: Network, topology: Topology) -> Fraction:
    """The bytes per second of the widest link or lane."""
    of_kind = network.bandwidths(len(topology.link_kinds))
    own = topology.link_bandwidth or (None,) * topology.links
    by_kind = np.array([width is None for width in own], bool) if topology.link_bandwidth else slice(None)
    widths = [of_kind[kind] for kind in np.unique(topology.link_dim[by_kind]).tolist()]
    widths += [parse_bandwidth(width) for width in set(own) if width is not None]
    lane = of_kind[0] if topology.hosts else network.lane_bandwidth or Fraction(0)
    width: Fraction = max([*(widths or of_kind), lane])
    return width
