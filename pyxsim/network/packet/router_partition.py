"""Partition the routers of a network for threads (docs/threads.md).

Partitions run independently for the latency of the shortest link between two of them, then synchronize. The partition
therefore avoids cutting short links and balances the work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine_options import Links

UNEVEN = 1.25  # maximum of the largest part over the mean


@dataclass(frozen=True)
class RouterPartition:
    """A partition of the routers.

    Attributes
    ----------
    part_of
        int64[routers], the part of each router.
    count
        Number of parts.
    uneven
        The largest part over the mean, by links.
    lookahead
        Cycles for which parts run independently, at most `most` of `cut`.
    """

    part_of: IntArray
    count: int
    uneven: float
    lookahead: int


def cut(routers: int, links: Links, count: int, most: int) -> RouterPartition:
    """Return at most `count` parts of even size with the largest lookahead; more than `most` cycles are no gain.

    Routers with consecutive numbers stay together: in products of blocks this cuts few links.
    """
    src, dst = np.asarray(links.src), np.asarray(links.dst)
    inside = (src >= 0) & (dst >= 0)
    reach = np.minimum(links.credit_delay, -(-np.asarray(links.s_num) // links.s_den) + links.delay)
    reach = np.minimum(reach, most)
    weight = np.bincount(dst[dst >= 0], minlength=routers) + np.bincount(src[src >= 0], minlength=routers)
    best = RouterPartition(np.zeros(routers, np.int64), 1, 1.0, most)
    for minimum in np.unique(reach[inside])[::-1].tolist():
        short = inside & (reach < minimum)
        part_of, uneven = _share(_together(routers, src[short], dst[short]), weight, count)
        across = inside & (part_of[src] != part_of[dst])
        lookahead = int(reach[across].min(initial=most))
        best = RouterPartition(part_of, int(part_of.max(initial=0)) + 1, uneven, lookahead)
        if best.count == count and uneven <= UNEVEN:
            break
    return best


def _together(routers: int, src: NDArray[np.integer], dst: NDArray[np.integer]) -> IntArray:
    """int64[routers]: the lowest router that is connected with each by these links."""
    label = np.arange(routers)
    while True:
        minimum = np.minimum(label[src], label[dst])
        lowest = label.copy()
        np.minimum.at(lowest, label[src], minimum)
        np.minimum.at(lowest, label[dst], minimum)
        lowest = lowest[lowest]
        if np.array_equal(lowest, label):
            return lowest
        label = lowest


def _share(label: IntArray, weight: NDArray[np.integer], count: int) -> tuple[IntArray, float]:
    """Assign groups of routers to parts in order, each to the part that contains its middle.

    Returns the part of each router, and the largest part over the mean.
    """
    groups, group_of = np.unique(label, return_inverse=True)
    heavy = np.bincount(group_of, weights=weight, minlength=len(groups))
    middle = np.cumsum(heavy) - heavy / 2
    part = np.minimum(middle * count // max(1, heavy.sum()), count - 1).astype(np.int64)
    _, part = np.unique(part, return_inverse=True)  # without empty parts
    loads = np.bincount(part, weights=heavy)
    return part[group_of], float(loads.max(initial=1) / max(1.0, loads.mean()))
