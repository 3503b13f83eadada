"""Partition the routers of a network for threads (docs/threads.md).

Partitions run independently for as many cycles as the shortest link between two of them takes, then synchronise. So
short links are not cut if possible, and partitions have equal work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine_options import Links

UNEVEN = 1.25  # how much larger than the mean a part may be


@dataclass(frozen=True)
class RouterPartition:
    """`part_of`: of each router. `uneven`: the largest part over the mean, by links. `lookahead`: cycles for which they
    run independently, at most the `most` of `cut`."""

    part_of: IntArray
    count: int
    uneven: float
    lookahead: int


def cut(routers: int, links: Links, count: int, most: int) -> RouterPartition:
    """At most `count` parts, with as long a way between them as leaves them even; more than `most` cycles are no gain.

    Neighbours in number stay together: in products of blocks a cut then goes through few links.
    """
    src, dst = np.asarray(links.src), np.asarray(links.dst)
    inside = (src >= 0) & (dst >= 0)
    reach = np.minimum(links.credit_delay, -(-np.asarray(links.s_num) // links.s_den) + links.delay)
    reach = np.minimum(reach, most)
    weight = np.bincount(dst[dst >= 0], minlength=routers) + np.bincount(src[src >= 0], minlength=routers)
    found = RouterPartition(np.zeros(routers, np.int64), 1, 1.0, most)
    for least in np.unique(reach[inside])[::-1].tolist():
        short = inside & (reach < least)
        part_of, uneven = _share(_together(routers, src[short], dst[short]), weight, count)
        across = inside & (part_of[src] != part_of[dst])
        lookahead = int(reach[across].min(initial=most))
        found = RouterPartition(part_of, int(part_of.max(initial=0)) + 1, uneven, lookahead)
        if found.count == count and uneven <= UNEVEN:
            break
    return found


def _together(routers: int, src: NDArray[np.integer], dst: NDArray[np.integer]) -> IntArray:
    """Of each router, the first of those that links join it with."""
    label = np.arange(routers)
    while True:
        least = np.minimum(label[src], label[dst])
        found = label.copy()
        np.minimum.at(found, label[src], least)
        np.minimum.at(found, label[dst], least)
        found = found[found]
        if np.array_equal(found, label):
            return found
        label = found


def _share(label: IntArray, weight: NDArray[np.integer], count: int) -> tuple[IntArray, float]:
    """Groups of routers to parts, in order of their first routers: each to the part in which its middle lies. Returns
    the part of each router, and how uneven they are."""
    groups, group_of = np.unique(label, return_inverse=True)
    heavy = np.bincount(group_of, weights=weight, minlength=len(groups))
    middle = np.cumsum(heavy) - heavy / 2
    part = np.minimum(middle * count // max(1, heavy.sum()), count - 1).astype(np.int64)
    _, part = np.unique(part, return_inverse=True)  # none is empty
    loads = np.bincount(part, weights=heavy)
    return part[group_of], float(loads.max(initial=1) / max(1.0, loads.mean()))
