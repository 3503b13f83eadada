"""Link loads and hop counts of packets from all routers to a batch of destinations, divided evenly over candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.routing.explore import decide
from pyxsim.routing.journeys import check_routes
from pyxsim.routing.planes import ranges
from pyxsim.routing.relation import Relation

BATCH = 1 << 18  # routers times destinations that are evaluated together


@dataclass(frozen=True, eq=False)
class Flow:
    """Loads and hops of packets to a batch of destinations on one plane.

    Attributes
    ----------
    load
        float64[links].
    hops
        int64[routers, destinations]: links of the longest route from each router, 0 where no packet passes.
    """

    load: NDArray[np.float64]
    hops: IntArray


def flows(
    relation: Relation,
    plane: int,
    digits: Int32Array,
    dims: Sequence[int],
    weights: ArrayLike | None = None,
    shares: ArrayLike | None = None,
) -> Iterator[Flow]:
    """Yield the Flow to each batch of destinations.

    Routes to one destination form no cycle, so each router is evaluated once, after all its predecessors.

    Parameters
    ----------
    relation, plane
        The routes.
    digits
        int32[destinations, len(dims)].
    dims
        Dimensions of the digits.
    weights
        Traffic that starts at each router (default: 1 at a router with an NPU), times
    shares
        the share for each destination (default: 1).

    Raises
    ------
    UnreachableError
        If a destination cannot be reached.
    """
    weight = np.zeros(relation.routers)
    weight[relation.home] = 1
    weight = weight if weights is None else np.asarray(weights, np.float64)
    share = np.ones(len(digits)) if shares is None else np.asarray(shares, np.float64)
    batch = max(1, BATCH // relation.routers)
    for begin in range(0, len(digits), batch):
        batch_slice = slice(begin, begin + batch)
        yield _flow(relation, plane, digits[batch_slice], dims, weight, share[batch_slice])


def _flow(
    relation: Relation,
    plane: int,
    digits: Int32Array,
    dims: Sequence[int],
    weight: NDArray[np.float64],
    share: NDArray[np.float64],
) -> Flow:
    goals = len(digits)
    size = relation.routers * goals
    router, goal = np.divmod(np.arange(size), goals)
    from_entry, link, _, _ = decide(relation, plane, router, digits[goal], dims)
    order = np.argsort(from_entry, kind="stable")
    from_entry, link = from_entry[order], link[order]
    next_entry = relation.link_dst[link].astype(np.int64) * goals + goal[from_entry]
    count = np.bincount(from_entry, minlength=size)
    first = np.cumsum(count) - count

    starts = np.flatnonzero(np.isin(router, np.unique(relation.home)))
    reached = np.zeros(size, np.bool_)
    reached[starts] = True
    front = starts
    while len(front):
        successors = next_entry[ranges(first[front], count[front])]
        front = np.unique(successors[~reached[successors]])
        reached[front] = True

    pending = np.bincount(next_entry[reached[from_entry]], minlength=size)
    traffic = np.where(reached, weight[router] * share[goal], 0.0)
    load = np.zeros(relation.links)
    front = np.flatnonzero(reached & (pending == 0))
    fronts = []
    unvisited = int(reached.sum())
    while len(front):
        fronts.append(front)
        unvisited -= len(front)
        edge = ranges(first[front], count[front])
        moved = np.repeat(traffic[front] / np.maximum(count[front], 1), count[front])
        load += np.bincount(link[edge], moved, relation.links)
        np.add.at(traffic, next_entry[edge], moved)
        np.subtract.at(pending, next_entry[edge], 1)
        front = np.unique(next_entry[edge][pending[next_entry[edge]] == 0])
    if unvisited:
        check_routes(relation, cycles=True)
    hops = np.zeros(size, np.int64)
    for front in reversed(fronts):
        edge = ranges(first[front], count[front])
        np.maximum.at(hops, from_entry[edge], hops[next_entry[edge]] + 1)
    return Flow(load, hops.reshape(relation.routers, goals))
