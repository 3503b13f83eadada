"""Bounds of a network without simulation: hops, channel load, throughput, bisection.

Terms: Dally and Towles, *Principles and Practices of Interconnection Networks* (2004), chapter 3. All values are
counted from the routing relation, so they hold for any network; the tests compare them with the closed forms.
Traffic is a matrix: flits per cycle from each NPU (row) to each NPU (column). Uniform traffic includes the NPU itself,
as in the book: each sends one flit per cycle, `1/npus` to every NPU.

Where packets choose by load, the load of a link is not known in advance; the bounds are then those that hold for every
routing (`least_load`).
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
    """Bounds of uniform traffic, and the bisection.

    Attributes
    ----------
    mean_hops, max_hops
        Links that a packet crosses; it visits one router more.
    channel_load
        Flits per cycle on the busiest link.
    load_exact
        Whether `channel_load` is that of this routing, not the minimum over all routings.
    throughput
        Upper bound in flits per NPU and cycle, with one injection and one ejection lane per NPU.
    bisection
        Directed links between two halves of the routers with NPUs.
    bisection_exact
        Whether no smaller bisection exists.
    """

    mean_hops: float
    max_hops: int
    channel_load: float
    load_exact: bool
    throughput: float
    bisection: int
    bisection_exact: bool


def summary(topology: Topology) -> Bounds:
    """Return all bounds of a network. Raises UnreachableError if a pair of NPUs has no route."""
    channels, exact = bisection(topology)
    if oblivious(topology.relation):
        load, hops, max_hops = _uniform(topology)
        gamma = float(load.max(initial=0))
    else:
        check_routes(topology.relation)
        link_distance = _distances(topology)
        gamma, hops, max_hops = least_load(topology), float(link_distance.mean()), int(link_distance.max())
    known = oblivious(topology.relation)
    return Bounds(hops, max_hops, gamma, known, min(1.0, 1 / gamma) if gamma else 1.0, channels, exact)


def uniform(npus: int) -> Loads:
    """Return the matrix of uniform traffic, float64[npus, npus]."""
    return np.full((npus, npus), 1 / npus)


def channel_loads(topology: Topology, matrix: ArrayLike | None = None) -> Loads:
    """Return the mean load of each link under `matrix` (default: uniform traffic): float64[links], flits per cycle.

    Raises InputError if packets choose their routes by load.
    """
    if not oblivious(topology.relation):
        problem = f"channel loads of {topology.routing} depend on the state of the network"
        raise InputError(problem, allowed="least_load")
    if matrix is None:
        return _uniform(topology)[0]
    return _loads(topology.relation, _checked(topology, matrix))


def mean_hops(topology: Topology) -> float:
    """Return the mean number of links that a packet of uniform traffic crosses (two for a hop through a switch)."""
    return _uniform(topology)[1]


def hop_counts(topology: Topology, plane: int = 0) -> Int32Array:
    """Return int32[npus, npus]: the length in links of the longest route from each NPU (row) to each NPU (column)."""
    relation = topology.relation
    check_routes(relation)
    homes, goals = np.unique(relation.home, return_index=True)
    dims = range(relation.digits.shape[1])
    hops = [flow.hops[homes] for flow in flows(relation, plane, relation.digits[goals], dims)]
    home_index = np.searchsorted(homes, relation.home)
    return np.concatenate(hops, axis=1)[home_index][:, home_index].astype(np.int32)


def least_load(topology: Topology, matrix: ArrayLike | None = None, rates: ArrayLike = 1.0) -> float:
    """Return a lower bound, over all routings, of the utilization of the busiest link.

    It is the larger of two bounds: packets cross at least the links of a shortest path, so the mean utilization is
    bounded; and traffic between the two sides of a cut crosses the links of the cut. `rates`: flits per cycle that each
    link can carry.
    """
    traffic = uniform(topology.npus) if matrix is None else _checked(topology, matrix)
    capacity = np.broadcast_to(np.asarray(rates, np.float64), topology.links)
    if not topology.links:
        return 0.0
    utilizations = [float((traffic * _distances(topology)).sum() / capacity.sum())]
    for side, routers in cuts(topology):
        crosses_cut = routers[topology.link_src] & ~routers[topology.link_dst]
        sent = float(traffic[side][:, ~side].sum())
        if sent > 0:
            utilizations.append(sent / float(capacity[crosses_cut].sum()) if crosses_cut.any() else np.inf)
    return max(utilizations)


def throughput(
    topology: Topology,
    matrix: ArrayLike | None = None,
    *,
    rates: ArrayLike = 1.0,
    injection: ArrayLike = 1.0,
    ejection: ArrayLike = 1.0,
) -> float:
    """Return the factor by which the traffic can be multiplied before a link or lane is saturated.

    Parameters
    ----------
    topology, matrix
        The network and its traffic; default: uniform traffic.
    rates
        Flits per cycle of each link.
    injection, ejection
        Flits per cycle of all lanes of each NPU together.
    """
    sent = received = np.ones(topology.npus)
    if matrix is not None:
        sent, received = (_checked(topology, matrix).sum(axis=axis) for axis in (1, 0))
    utilizations = [sent / np.asarray(injection), received / np.asarray(ejection)]
    if oblivious(topology.relation):
        utilizations.append(channel_loads(topology, matrix) / np.asarray(rates))
    else:
        utilizations.append(np.array([least_load(topology, matrix, rates)]))
    busiest = max(float(utilization.max(initial=0)) for utilization in utilizations)
    return 1 / busiest if busiest else np.inf


def _checked(topology: Topology, matrix: ArrayLike) -> Loads:
    traffic = np.asarray(matrix, np.float64)
    if traffic.shape != (topology.npus, topology.npus) or not (traffic >= 0).all():
        allowed = f"{topology.npus} x {topology.npus} non-negative numbers"
        raise InputError(f"invalid traffic matrix of shape {traffic.shape} for {topology}", allowed=allowed)
    return traffic


def _loads(relation: Relation, traffic: Loads) -> Loads:
    """Mean loads of the links. NPUs of one router count as one where all routers have the same number of NPUs."""
    homes, first, count = np.unique(relation.home, return_index=True, return_counts=True)
    if (count == count[0]).all() and count[0] > 1:
        home_index = np.searchsorted(homes, relation.home)
        home_traffic = np.zeros((len(homes), len(homes)))
        np.add.at(home_traffic, (home_index[:, None], home_index[None, :]), traffic)
        # Without strides: the relation derives them from the digits.
        digits, none = relation.digits[first], np.zeros(0, np.int32)
        relation, traffic = replace(relation, npus=len(homes), digits=digits, home=homes, stride=none), home_traffic
    load = expected_loads(relation, traffic)[0]
    return np.zeros(relation.links) if load is None else load


def _distances(topology: Topology) -> Loads:
    """Length in links of the shortest path from each NPU to each other."""
    relation = topology.relation
    wires = Wires(topology.routers, relation.home, topology.link_src, topology.link_dst, topology.link_name)
    homes = wires.homes
    home_index = np.searchsorted(homes, relation.home)
    link_distances: Loads = distances(wires)[homes][home_index][:, home_index].astype(np.float64)
    if (link_distances >= FAR).any():
        check_routes(relation)
    return link_distances


def _uniform(topology: Topology) -> tuple[Loads, float, int]:
    """Channel loads, mean hops and the length of the longest route."""
    relation = topology.relation
    check_routes(relation)
    if any(way.via == "box" for way in relation.ways):
        load = _loads(relation, uniform(topology.npus))
        return load, float(load.sum() / topology.npus), int(_distances(topology).max())
    # With a via that may be any NPU, each half of a route is uniform traffic.
    planes = [[plane for plane in (way.first, way.last) if plane >= 0] for way in relation.ways]
    used = [plane for option_planes in planes for plane in option_planes]
    by_plane = {plane: _uniform_plane(topology, plane) for plane in set(used)}
    load = sum((by_plane[plane][0] for plane in used), np.zeros(relation.links)) / len(planes)
    max_hops = max(sum(by_plane[plane][1] for plane in option_planes) for option_planes in planes)
    return load, float(load.sum() / topology.npus), max_hops


def _uniform_plane(topology: Topology, plane: int) -> tuple[Loads, int]:
    """Channel loads and longest route of one plane."""
    relation, npus = topology.relation, topology.npus
    homes, first, count = np.unique(relation.home, return_index=True, return_counts=True)
    if relation.separable and (count == count[0]).all():
        # The route in one dimension does not depend on the digits of the others, so the dimensions are counted one by
        # one.
        load, longest = np.zeros(relation.links), 0
        for dim in range(relation.digits.shape[1]):
            size = int(relation.digits[:, dim].max()) + 1
            digits = np.arange(size, dtype=np.int32)[:, None]
            longest_in_dim = 0
            for flow in flows(relation, plane, digits, (dim,)):
                load += flow.load * (npus / (len(homes) * size))
                longest_in_dim = max(longest_in_dim, int(flow.hops[homes].max()))
            longest += longest_in_dim
        return load, longest
    load, longest = np.zeros(relation.links), 0
    dims = range(relation.digits.shape[1])
    weights = np.zeros(relation.routers)
    weights[homes] = count
    for flow in flows(relation, plane, relation.digits[first], dims, weights, count / npus):
        load += flow.load
        longest = max(longest, int(flow.hops[homes].max()))
    return load, longest
