"""Routing tables for any graph: shortest paths."""

from __future__ import annotations

import numpy as np

from pyxsim.arrays import AnyIntArray, Int32Array


def shortest_paths(routers: int, npus: int, src: AnyIntArray, dst: AnyIntArray) -> Int32Array:
    """int32[routers, npus]: the link that begins a shortest path from a router to an NPU; -1 at home or without one.

    `src`, `dst`: routers at the ends of each directed link; the NPUs are routers 0 to npus - 1. Of several such links
    the one listed first is taken, so the order of the links is the way to say which dimension comes first.
    Nothing here promises freedom from deadlock: that is for `prove` to say.
    """
    away = np.full((routers, npus), -1, np.int32)
    away[np.arange(npus), np.arange(npus)] = 0
    table = np.full((routers, npus), -1, np.int32)
    distance = 0
    while True:
        # Links that lead from a router not reached yet to one at the present distance, for all destinations at once.
        link, goal = np.nonzero((away[src] < 0) & (away[dst] == distance))
        if not len(link):
            return table
        distance += 1
        # Of several values assigned to one place numpy keeps the last one: turned round, that is the first link.
        table[src[link[::-1]], goal[::-1]] = link[::-1]
        away[src[link], goal] = distance
