"""What a network consists of: its links with their bandwidths, and which routers are switches.

It is read from a topology and its settings, or from a result, also one from a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pyxsim.arrays import BoolArray, FloatArray, Int32Array, IntArray
from pyxsim.results.result import Result
from pyxsim.settings import Network
from pyxsim.topology.topology import Topology
from pyxsim.units import parse_bandwidth


@dataclass(frozen=True, eq=False)
class Inventory:
    """The parts of a network.

    Attributes
    ----------
    npus, routers
        Numbers of NPUs and routers.
    src, dst, kind
        int32[links]: routers at both ends, -1 for an NPU at a host link, and the kind of the link.
    bandwidth
        float64[links], bytes per second.
    kinds
        Names of the kinds of links.
    is_switch
        bool[routers]: routers that are no part of an NPU.
    """

    npus: int
    routers: int
    src: Int32Array
    dst: Int32Array
    kind: Int32Array
    bandwidth: FloatArray
    kinds: tuple[str, ...]
    is_switch: BoolArray

    @cached_property
    def into(self) -> FloatArray:
        """float64[routers]: bytes per second of all links into each router."""
        linked = self.dst >= 0
        return np.bincount(self.dst[linked], self.bandwidth[linked], self.routers).astype(np.float64)

    @cached_property
    def ports(self) -> IntArray:
        """int64[routers]: links into each router, or out of it if these are more."""
        into, out = (np.bincount(ends[ends >= 0], minlength=self.routers) for ends in (self.dst, self.src))
        return np.maximum(into, out).astype(np.int64)

    @cached_property
    def router_kind(self) -> IntArray:
        """int64[routers]: the last kind of the links into each router; 0 without any."""
        kinds = np.zeros(self.routers, np.int64)
        linked = self.dst >= 0
        np.maximum.at(kinds, self.dst[linked], self.kind[linked])
        return kinds

    def with_lanes(self, lanes: int | None) -> tuple[IntArray, IntArray]:
        """Return int64[routers]: inputs and outputs with the lanes of NPUs; None: as many as links."""
        into, out = (np.bincount(ends[ends >= 0], minlength=self.routers) for ends in (self.dst, self.src))
        if lanes is None:
            more_in, more_out = np.where(self.is_switch, 0, out), np.where(self.is_switch, 0, into)
        else:
            more_in = more_out = np.where(self.is_switch, 0, lanes)
        return (into + more_in).astype(np.int64), (out + more_out).astype(np.int64)


def inventory_of_topology(topology: Topology, settings: Network) -> Inventory:
    """Return the parts of a topology; bandwidths are those of the settings."""
    speeds = [float(speed) for speed in settings.bandwidths(len(topology.link_kinds))]
    rows = topology.link_rows()
    own = [speeds[kind] if bandwidth is None else float(parse_bandwidth(bandwidth)) for kind, _, bandwidth, _ in rows]
    homes = topology.home if topology.hosts else np.zeros(0, np.int32)
    nowhere = np.full_like(homes, -1)
    switches = np.ones(topology.routers, np.bool_)
    if not topology.indirect:
        switches[topology.home] = False
    return Inventory(
        topology.npus,
        topology.routers,
        np.concatenate([topology.link_src, nowhere, homes]),
        np.concatenate([topology.link_dst, homes, nowhere]),
        np.concatenate([topology.link_dim, np.zeros(2 * len(homes), np.int32)]),
        np.array([*own, *[speeds[0]] * (2 * len(homes))], np.float64),
        topology.link_kinds,
        switches,
    )


def inventory_of_result(result: Result) -> Inventory:
    """Return the parts of the network of a result.

    Without its topology, routers with a number below that of NPUs belong to NPUs, unless NPUs have host links.
    """
    links, npus = result.links, int(result.counts.get("npus", 0))
    routers = int(max(links.src.max(initial=-1), links.dst.max(initial=-1)) + 1)
    known = result.topology
    if known is not None:
        routers = max(routers, known.routers)
    switches = np.ones(routers, np.bool_)
    if known is not None and not known.indirect:
        switches[known.home] = False
    elif known is None and not (links.src < 0).any():
        switches[:npus] = False
    count = int(links.dim.max(initial=0)) + 1
    kinds = tuple(result.link_kinds) or tuple(f"d{kind}" for kind in range(count))
    return Inventory(npus, routers, links.src, links.dst, links.dim, links.bandwidth, kinds, switches)
