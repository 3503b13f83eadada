"""Packets from all routers to some destinations at once, spread evenly where they draw their way: loads and hops."""

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

BATCH = 1 << 18  # routers times destinations that are followed together


@dataclass(frozen=True, eq=False)
class Flow:
    """What packets to some destinations do on one plane.

    load  float64[links]               what goes over each link
    hops  int64[routers, destinations] the most links to go from each router (0 where no packet comes by)
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
    """Follows what goes to destinations with these digits, in batches of them. Raises UnreachableError.

    digits   int32[destinations, len(dims)]
    weights  what starts at each router (default: 1 where there is an NPU), times
    shares   what goes to each destination (default: 1)

    Routes to one destination have no circle. So each router can be dealt with once, when all that comes by it has come.
    """
    weight = np.zeros(relation.routers)
    weight[relation.home] = 1
    weight = weight if weights is None else np.asarray(weights, np.float64)
    share = np.ones(len(digits)) if shares is None else np.asarray(shares, np.float64)
    batch = max(1, BATCH // relation.routers)
    for begin in range(0, len(digits), batch):
        part = slice(begin, begin + batch)
        yield _flow(relation, plane, digits[part], dims, weight, share[part])


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
    who, link, _, _ = decide(relation, plane, router, digits[goal], dims)
    order = np.argsort(who, kind="stable")
    who, link = who[order], link[order]
    after = relation.link_dst[link].astype(np.int64) * goals + goal[who]
    count = np.bincount(who, minlength=size)
    first = np.cumsum(count) - count

    starts = np.flatnonzero(np.isin(router, np.unique(relation.home)))
    seen = np.zeros(size, np.bool_)
    seen[starts] = True
    front = starts
    while len(front):
        there = after[ranges(first[front], count[front])]
        front = np.unique(there[~seen[there]])
        seen[front] = True

    waits = np.bincount(after[seen[who]], minlength=size)
    mass = np.where(seen, weight[router] * share[goal], 0.0)
    load = np.zeros(relation.links)
    front = np.flatnonzero(seen & (waits == 0))
    fronts = []
    left = int(seen.sum())
    while len(front):
        fronts.append(front)
        left -= len(front)
        edge = ranges(first[front], count[front])
        moved = np.repeat(mass[front] / np.maximum(count[front], 1), count[front])
        load += np.bincount(link[edge], moved, relation.links)
        np.add.at(mass, after[edge], moved)
        np.subtract.at(waits, after[edge], 1)
        front = np.unique(after[edge][waits[after[edge]] == 0])
    if left:
        check_routes(relation, circles=True)
    hops = np.zeros(size, np.int64)
    for front in reversed(fronts):
        edge = ranges(first[front], count[front])
        np.maximum.at(hops, who[edge], hops[after[edge]] + 1)
    return Flow(load, hops.reshape(relation.routers, goals))
