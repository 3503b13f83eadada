"""What theory says of a network before anything is simulated: hops, channel load, bisection.

Terms and closed forms: Dally and Towles, *Principles and Practices of Interconnection Networks* (2004), chapter 3.
Everything here is counted from the routing relation, so it holds for any network; the closed forms are for the tests.
Uniform traffic includes the node itself, as in the book: each NPU sends one flit per cycle, `1/npus` to every NPU.
Traffic is spread evenly over the planes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pyxsim.routing.relation import Flags, Ints
from pyxsim.routing.walk import all_walks, pair_walks
from pyxsim.topology.topology import Topology

MAX_EXACT = 16  # NPUs up to which every even cut is tried: 6435 cuts

Loads = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """`throughput`: flits per NPU and cycle that uniform traffic cannot exceed, with one full-rate injection lane."""

    mean_hops: float
    max_hops: int
    channel_load: float
    throughput: float
    bisection: int
    bisection_exact: bool


def summary(topology: Topology) -> Bounds:
    """All numbers of this module. Raises UnreachableError when some pair has no route."""
    load, hops, most = _uniform(topology)
    gamma = float(load.max(initial=0))
    channels, exact = bisection(topology)
    return Bounds(hops, most, gamma, min(1.0, 1 / gamma) if gamma else 1.0, channels, exact)


def channel_loads(topology: Topology) -> Loads:
    """float64[links]: flits per cycle over each link under uniform traffic of one flit per NPU and cycle."""
    return _uniform(topology)[0]


def mean_hops(topology: Topology) -> float:
    """Links that a packet of uniform traffic crosses on average; switches make two links of one hop of a group."""
    return _uniform(topology)[1]


def hop_counts(topology: Topology, plane: int = 0) -> Ints:
    """int32[npus, npus]: links from each NPU (row) to each other (column)."""
    npus = np.arange(topology.npus, dtype=np.int32)
    src, dst = np.repeat(npus, topology.npus), np.tile(npus, topology.npus)
    counts = []
    for walk in pair_walks(topology.relation, src, dst, np.full(len(src), plane, np.int32)):
        count = np.zeros(len(walk.src), np.int32)
        for hop in walk:
            count[hop.walker] += 1
        counts.append(count)
    return np.concatenate(counts).reshape(topology.npus, topology.npus)


def bisection(topology: Topology) -> tuple[int, bool]:
    """The fewest directed channels between two halves of the NPUs, and whether that is exact.

    A switch stands on the side where it costs less. Up to MAX_EXACT NPUs all cuts are tried. Beyond that only the
    straight ones are, through the middle of one dimension: for tori and meshes they are the best (chapter 3.1.2), in
    general they are an upper bound. With an odd number of NPUs the halves differ by one.
    """
    if topology.npus <= MAX_EXACT:
        # Between switches the sides are found greedily.
        between_switches = (topology.link_src >= topology.npus) & (topology.link_dst >= topology.npus)
        exact = not between_switches.any()
        return min((_cut(topology, side) for side in _even_cuts(topology.npus)), default=0), exact
    halves = []
    for dim, size in enumerate(topology.shape):
        # Nodes in the middle of an odd dimension are shared out in order of their ids.
        place = 2 * topology.coords[:, dim] + 1 - size
        middle = np.flatnonzero(place == 0)
        side = place > 0
        side[middle[len(middle) // 2 :]] = True
        if size > 1:
            halves.append(_cut(topology, side))
    return min(halves), False


def _even_cuts(npus: int) -> list[Flags]:
    """Every way to put half of the NPUs (rounded up) on the side of NPU 0."""
    cuts = []
    for others in combinations(range(1, npus), (npus + 1) // 2 - 1):
        side = np.ones(npus, np.bool_)
        side[[0, *others]] = False
        cuts.append(side)
    return cuts if npus > 1 else []


def _cut(topology: Topology, npu_side: Flags) -> int:
    """Directed links between the sides. Each switch joins the side that most of its placed neighbours are on."""
    src, dst = topology.link_src, topology.link_dst
    side = np.zeros(topology.routers, np.int64)  # -1 and 1; 0 is not placed yet
    side[: topology.npus] = np.where(npu_side, 1, -1)
    for _ in range(topology.switches):
        pull = np.bincount(src, side[dst], topology.routers) + np.bincount(dst, side[src], topology.routers)
        placed = np.where(side == 0, np.sign(pull), side).astype(np.int64)
        if (placed == side).all():
            break
        side = placed
    side[side == 0] = 1
    return int(np.count_nonzero(side[src] != side[dst]))


def _uniform(topology: Topology) -> tuple[Loads, float, int]:
    """Channel loads, mean hops and the longest route."""
    relation, npus = topology.relation, topology.npus
    flits = np.zeros(relation.links, np.int64)
    longest: dict[tuple[int, ...], int] = {}
    for walk in all_walks(relation):
        hops = 0
        for hop in walk:
            flits += walk.weight * np.bincount(hop.link, minlength=relation.links)
            hops += 1
        longest[tuple(walk.dims)] = max(longest.get(tuple(walk.dims), 0), hops)
    load = flits / (npus * relation.planes)
    return load, float(load.sum() / npus), sum(longest.values())
