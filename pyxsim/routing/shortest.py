"""Routing tables for any graph: shortest paths."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import AnyIntArray, Int32Array


def shortest_paths(routers: int, npus: int, src: AnyIntArray, dst: AnyIntArray) -> Int32Array:
    """Return int32[routers, npus]: the first link of a shortest path from a router to an NPU, or -1.

    `src`, `dst` are the routers at the ends of each directed link; the NPUs are routers 0 to npus - 1. Of several such
    links the one listed first is taken, so the order of the links decides which dimension comes first. The routes may
    deadlock; see `prove`.
    """
    hops = np.full((routers, npus), -1, np.int32)
    hops[np.arange(npus), np.arange(npus)] = 0
    table = np.full((routers, npus), -1, np.int32)
    distance = 0
    while True:
        # Links that lead from an unreached router to one at the current distance, for all destinations at once.
        link, goal = np.nonzero((hops[src] < 0) & (hops[dst] == distance))
        if not len(link):
            return table
        distance += 1
        # Of several values assigned to one index NumPy keeps the last one; in reverse order, that is the first link.
        table[src[link[::-1]], goal[::-1]] = link[::-1]
        hops[src[link], goal] = distance
