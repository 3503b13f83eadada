"""What theory says of a network before anything is simulated: hops, channel load, bisection.

Terms and closed forms: Dally and Towles, *Principles and Practices of Interconnection Networks* (2004), chapter 3.
Everything here is counted from the routing relation, so it holds for any network; the closed forms are for the tests.
Uniform traffic includes the node itself, as in the book: each NPU sends one flit per cycle, `1/npus` to every NPU.
Traffic is spread evenly over the planes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pyxsim.routing.relation import Flags, Ints, Longs, Relation
from pyxsim.routing.walk import BATCH, check_routes
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
    relation = topology.relation
    check_routes(relation)
    dims = range(relation.digits.shape[1])
    hops = [flow.hops for flow in _flows(relation, plane, relation.digits, dims)]
    return np.concatenate(hops, axis=1)[: topology.npus].astype(np.int32)


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
    check_routes(relation)
    dims = range(relation.digits.shape[1])
    # In a separable relation the way in each dimension is the same for npus / size pairs that only differ elsewhere:
    # it is enough to look at the digits of one dimension after the other.
    rounds: list[tuple[Ints, Sequence[int], int]] = [(relation.digits, dims, 1)]
    if relation.separable:
        rounds = [(np.arange(n, dtype=np.int32)[:, None], (i,), npus // n) for i, n in enumerate(topology.shape)]
    flits = np.zeros(relation.links)
    longest = 0
    for digits, columns, weight in rounds:
        most = 0
        for plane in range(relation.planes):
            for flow in _flows(relation, plane, digits, columns):
                moves = flow.link >= 0
                flits += weight * np.bincount(flow.link[moves], flow.passing[moves], relation.links)
                most = max(most, int(flow.hops[:npus].max()))
        longest += most
    load = flits / (npus * relation.planes)
    return load, float(load.sum() / npus), longest


@dataclass(frozen=True, eq=False)
class _Flow:
    """All packets to some destinations on one plane, as arrays [routers, destinations].

    link: taken at a router (-1: none); passing: packets that come by, of one from each NPU; hops: links to go from here
    """

    link: Ints
    passing: Loads
    hops: Longs


def _flows(relation: Relation, plane: int, digits: Ints, dims: Sequence[int]) -> Iterator[_Flow]:
    """Follows every route to its end, in batches of destinations. Raises UnreachableError for routes without an end.

    Routes to one destination form a tree, in which each router points to the next one. Whatever is summed along the
    routes is found by pointer doubling: after `m` steps everything has gone `2 ** m` links, and no route has more
    links than there are routers.
    """
    batch = max(1, BATCH // relation.routers)
    for begin in range(0, len(digits), batch):
        goals = digits[begin : begin + batch]
        shape = (relation.routers, len(goals))
        router, goal = np.indices(shape).reshape(2, -1)
        link, _, _ = relation.decide(plane * relation.routers + router, goals[goal], dims)
        end = len(link)  # an extra place, where everything goes that is at home
        ahead = np.full(end + 1, end)
        moves = np.flatnonzero(link >= 0)
        ahead[moves] = relation.link_dst[link[moves]].astype(np.int64) * shape[1] + goal[moves]
        passing = np.append(router < relation.npus, False).astype(np.float64)
        hops = (ahead != end).astype(np.int64)
        for _ in range(relation.routers.bit_length()):
            passing[:end] += np.bincount(ahead, passing, end + 1)[:end]
            hops += hops[ahead]
            ahead = ahead[ahead]
        if (ahead[: relation.npus * shape[1]] != end).any():
            check_routes(relation, circles=True)
        yield _Flow(link.reshape(shape), passing[:end].reshape(shape), hops[:end].reshape(shape))
