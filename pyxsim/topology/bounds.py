"""What theory says of a network before anything is simulated: hops, channel load, throughput, bisection.

Terms and closed forms: Dally and Towles, *Principles and Practices of Interconnection Networks* (2004), chapter 3.
Everything here is counted from the routing relation, so it holds for any network; the closed forms are for the tests.
Traffic is a matrix: flits per cycle from each NPU (row) to each NPU (column). Uniform traffic includes the NPU itself,
as in the book: each sends one flit per cycle, `1/npus` to every NPU.

Where packets choose by load, the load of a link is not known in advance. Then the bounds are those that
hold for every routing (`least_load`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import Int32Array
from pyxsim.errors import InputError
from pyxsim.routing.graph import FAR, distances
from pyxsim.routing.journeys import check_routes
from pyxsim.routing.loads import expected_loads, oblivious
from pyxsim.routing.relation import Relation
from pyxsim.topology.cuts import bisection, cuts
from pyxsim.topology.flows import flows
from pyxsim.topology.topology import Topology
from pyxsim.topology.wires import Wires

Loads = NDArray[np.float64]

__all__ = [
    "Bounds",
    "bisection",
    "channel_loads",
    "hop_counts",
    "least_load",
    "mean_hops",
    "oblivious",
    "summary",
    "throughput",
    "uniform",
]


@dataclass(frozen=True)
class Bounds:
    """Of uniform traffic, and the bisection.

    mean_hops, max_hops  links that a packet crosses; it visits one router more
    channel_load  flits per cycle on the busiest link; `load_exact`: by this routing, else the least by any routing
    throughput    flits per NPU and cycle that cannot be exceeded, with one injection and one ejection lane per NPU
    """

    mean_hops: float
    max_hops: int
    channel_load: float
    load_exact: bool
    throughput: float
    bisection: int
    bisection_exact: bool


def summary(topology: Topology) -> Bounds:
    """All numbers of this module. Raises UnreachableError when some pair has no route."""
    channels, exact = bisection(topology)
    if oblivious(topology.relation):
        load, hops, most = _uniform(topology)
        gamma = float(load.max(initial=0))
    else:
        check_routes(topology.relation)
        away = _distances(topology)
        gamma, hops, most = least_load(topology), float(away.mean()), int(away.max())
    known = oblivious(topology.relation)
    return Bounds(hops, most, gamma, known, min(1.0, 1 / gamma) if gamma else 1.0, channels, exact)


def uniform(npus: int) -> Loads:
    """The matrix of uniform traffic."""
    return np.full((npus, npus), 1 / npus)


def channel_loads(topology: Topology, matrix: ArrayLike | None = None) -> Loads:
    """float64[links]: flits per cycle over each link, on average; left out: under uniform traffic.

    Raises InputError where packets choose by what is in use.
    """
    if not oblivious(topology.relation):
        raise InputError(f"the load of links by {topology.routing} depends on what is in use", allowed="least_load")
    if matrix is None:
        return _uniform(topology)[0]
    return _loads(topology.relation, _checked(topology, matrix))


def mean_hops(topology: Topology) -> float:
    """Links that a packet of uniform traffic crosses on average; switches make two links of one hop of a group."""
    return _uniform(topology)[1]


def hop_counts(topology: Topology, plane: int = 0) -> Int32Array:
    """int32[npus, npus]: the most links from each NPU (row) to each other (column)."""
    relation = topology.relation
    check_routes(relation)
    homes, goals = np.unique(relation.home, return_index=True)
    dims = range(relation.digits.shape[1])
    hops = [flow.hops[homes] for flow in flows(relation, plane, relation.digits[goals], dims)]
    place = np.searchsorted(homes, relation.home)
    return np.concatenate(hops, axis=1)[place][:, place].astype(np.int32)


def least_load(topology: Topology, matrix: ArrayLike | None = None, rates: ArrayLike = 1.0) -> float:
    """The busiest link carries at least this share of what it could, whatever the routing.

    Two reasons: packets need at least the links of a shortest way, and all links together carry no more than they can;
    and what goes from one side of a cut to the other goes over the links between them. `rates`: flits per cycle that
    each link can carry.
    """
    traffic = uniform(topology.npus) if matrix is None else _checked(topology, matrix)
    capacity = np.broadcast_to(np.asarray(rates, np.float64), topology.links)
    if not topology.links:
        return 0.0
    found = [float((traffic * _distances(topology)).sum() / capacity.sum())]
    for side, routers in cuts(topology):
        over = routers[topology.link_src] & ~routers[topology.link_dst]
        sent = float(traffic[side][:, ~side].sum())
        if sent > 0:
            found.append(sent / float(capacity[over].sum()) if over.any() else np.inf)
    return max(found)


def throughput(
    topology: Topology,
    matrix: ArrayLike | None = None,
    *,
    rates: ArrayLike = 1.0,
    injection: ArrayLike = 1.0,
    ejection: ArrayLike = 1.0,
) -> float:
    """By how much the traffic may be multiplied before a link or lane carries more than it can.

    rates  flits per cycle of each link; `injection`, `ejection`: of all lanes of each NPU together
    """
    sent = received = np.ones(topology.npus)
    if matrix is not None:
        sent, received = (_checked(topology, matrix).sum(axis=axis) for axis in (1, 0))
    shares = [sent / np.asarray(injection), received / np.asarray(ejection)]
    if oblivious(topology.relation):
        shares.append(channel_loads(topology, matrix) / np.asarray(rates))
    else:
        shares.append(np.array([least_load(topology, matrix, rates)]))
    most = max(float(share.max(initial=0)) for share in shares)
    return 1 / most if most else np.inf


def _checked(topology: Topology, matrix: ArrayLike) -> Loads:
    traffic = np.asarray(matrix, np.float64)
    if traffic.shape != (topology.npus, topology.npus) or not (traffic >= 0).all():
        wanted = f"{topology.npus} x {topology.npus} numbers from 0"
        raise InputError(f"a matrix of the shape {traffic.shape} is no traffic of {topology}", allowed=wanted)
    return traffic


def _loads(relation: Relation, traffic: Loads) -> Loads:
    """Mean loads of the links. NPUs of one router send as one, where all routers have as many."""
    homes, first, count = np.unique(relation.home, return_index=True, return_counts=True)
    if (count == count[0]).all() and count[0] > 1:
        place = np.searchsorted(homes, relation.home)
        whole = np.zeros((len(homes), len(homes)))
        np.add.at(whole, (place[:, None], place[None, :]), traffic)
        # Without strides: they are worked out from the digits.
        digits, none = relation.digits[first], np.zeros(0, np.int32)
        relation, traffic = replace(relation, npus=len(homes), digits=digits, home=homes, stride=none), whole
    load = expected_loads(relation, traffic)[0]
    return np.zeros(relation.links) if load is None else load


def _distances(topology: Topology) -> Loads:
    """Links on the shortest way from each NPU to each other."""
    relation = topology.relation
    wires = Wires(topology.routers, relation.home, topology.link_src, topology.link_dst, topology.link_name)
    homes = wires.homes
    place = np.searchsorted(homes, relation.home)
    away: Loads = distances(wires)[homes][place][:, place].astype(np.float64)
    if (away >= FAR).any():
        check_routes(relation)
    return away


def _uniform(topology: Topology) -> tuple[Loads, float, int]:
    """Channel loads, mean hops and the longest route."""
    relation = topology.relation
    check_routes(relation)
    if any(way.via == "box" for way in relation.ways):
        load = _loads(relation, uniform(topology.npus))
        return load, float(load.sum() / topology.npus), int(_distances(topology).max())
    # A via that may be any NPU makes uniform traffic twice over.
    planes = [[plane for plane in (way.first, way.last) if plane >= 0] for way in relation.ways]
    found = {plane: _uniform_plane(topology, plane) for plane in {p for own in planes for p in own}}
    load = sum((found[plane][0] for own in planes for plane in own), np.zeros(relation.links)) / len(planes)
    most = max(sum(found[plane][1] for plane in own) for own in planes)
    return load, float(load.sum() / topology.npus), most


def _uniform_plane(topology: Topology, plane: int) -> tuple[Loads, int]:
    """Channel loads and longest route of one plane."""
    relation, npus = topology.relation, topology.npus
    homes, first, count = np.unique(relation.home, return_index=True, return_counts=True)
    if relation.separable and (count == count[0]).all():
        # The way in each dimension is the same for all pairs that only differ elsewhere: it is enough to look at the
        # digits of one dimension after the other.
        load, longest = np.zeros(relation.links), 0
        for dim in range(relation.digits.shape[1]):
            size = int(relation.digits[:, dim].max()) + 1
            digits = np.arange(size, dtype=np.int32)[:, None]
            most = 0
            for flow in flows(relation, plane, digits, (dim,)):
                load += flow.load * (npus / (len(homes) * size))
                most = max(most, int(flow.hops[homes].max()))
            longest += most
        return load, longest
    load, longest = np.zeros(relation.links), 0
    dims = range(relation.digits.shape[1])
    weights = np.zeros(relation.routers)
    weights[homes] = count
    for flow in flows(relation, plane, relation.digits[first], dims, weights, count / npus):
        load += flow.load
        longest = max(longest, int(flow.hops[homes].max()))
    return load, longest
