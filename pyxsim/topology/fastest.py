"""Routes by bandwidth: a packet takes the links on which its bytes take the least time in all."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from pyxsim.arrays import BoolArray, IntArray
from pyxsim.errors import InputError
from pyxsim.routing.relation import Relation
from pyxsim.topology.wires import Wires

_UNIT = 10**6  # the cost of the fastest link
_MOST = 10**12  # that of the slowest: a sum of 2^21 links stays in 64 bits
_NEVER = 2**62


def costs_of(bandwidths: Sequence[Fraction | None]) -> IntArray:
    """Return int64[links]: the time of a byte on each link, in millionths of that on the fastest one.

    A link of unknown bandwidth counts as fast. Of paths that take the same time, that with fewer links costs less.
    """
    fastest = max((rate for rate in bandwidths if rate), default=Fraction(1))
    return np.array([min(_MOST, int(_UNIT * fastest / rate)) if rate else _UNIT for rate in bandwidths], np.int64) + 1


def fastest(costs: IntArray, wires: Wires, select: str = "random") -> Relation:
    """Take any of the paths of least cost, in VC classes that count the turns from down to up.

    A link to an NPU that passes the packet on counts twice, because that NPU writes it to memory and reads it again.

    A link leads up if it leads away from the NPUs. Within a class, packets go up and then down, so that no cycle
    exists; a packet that turns up once more changes to the next class. In trees of switches one class is enough.

    Parameters
    ----------
    costs
        int64[links].
    wires
        The network.
    select
        How one of several links is selected.
    """
    allowed = _reached(_cheapest(costs, wires), wires)
    turns = _turns(allowed, _leads_up(wires), wires)
    most = int(turns[allowed].max(initial=0))
    return wires.relation(allowed, np.where(allowed, most - turns, 0), classes=most + 1, select=select)


def _cheapest(costs: IntArray, wires: Wires) -> BoolArray:
    """bool[links, homes]: links that begin a path of least cost (Bellman and Ford, for all destinations at once)."""
    homes = wires.homes
    total = np.full((wires.routers, len(homes)), _NEVER, np.int64)
    total[homes, np.arange(len(homes))] = 0
    order = np.argsort(wires.src, kind="stable")
    begins = np.flatnonzero(np.diff(wires.src[order], prepend=-1))
    cost = np.where(np.isin(wires.dst, homes), 2 * costs, costs)[:, None].repeat(len(homes), axis=1)
    ends = wires.dst[:, None] == homes
    cost[ends] = np.broadcast_to(costs[:, None], cost.shape)[ends]
    while True:
        through = total[wires.dst[order]] + cost[order]
        best = np.minimum.reduceat(through, begins, axis=0) if len(begins) else through
        at = wires.src[order][begins]
        better = np.minimum(total[at], best)
        if np.array_equal(better, total[at]):
            break
        total[at] = better
    if (total[homes] >= _NEVER).any():
        raise InputError("the graph is not connected: some NPUs have no path between them")
    flags: BoolArray = (total[wires.src] == total[wires.dst] + cost) & (total[wires.src] < _NEVER)
    return flags


def _reached(allowed: BoolArray, wires: Wires) -> BoolArray:
    """bool[links, homes]: allowed links that packets of some NPU come to."""
    at = np.zeros((wires.routers, len(wires.homes)), np.bool_)
    at[wires.homes] = True
    order = np.argsort(wires.dst, kind="stable")
    begins = np.flatnonzero(np.diff(wires.dst[order], prepend=-1))
    while True:
        taken: BoolArray = allowed & at[wires.src]
        more = at.copy()
        if len(begins):
            more[wires.dst[order][begins]] |= np.logical_or.reduceat(taken[order], begins, axis=0)
        if np.array_equal(more, at):
            return taken
        at = more


def _leads_up(wires: Wires) -> BoolArray:
    """bool[links]: whether a link leads away from the nearest NPU; between equals, to the higher number."""
    height = wires.distances().min(axis=1)
    rank = np.empty(wires.routers, np.int64)
    rank[np.lexsort((np.arange(wires.routers), height))] = np.arange(wires.routers)
    up: BoolArray = rank[wires.dst] > rank[wires.src]
    return up


def _turns(allowed: BoolArray, up: BoolArray, wires: Wires) -> IntArray:
    """int64[links, homes]: the most turns from down to up behind a link, on the way to a home."""
    turns = np.zeros(allowed.shape, np.int64)
    order = np.argsort(wires.src, kind="stable")
    begins = np.flatnonzero(np.diff(wires.src[order], prepend=-1))
    arriving = [np.zeros((wires.routers, len(wires.homes)), np.int64) for _ in range(2)]  # by a link down, by one up
    while len(begins):
        for by_up, most in enumerate(arriving):
            behind = np.where(allowed, turns + (up[:, None] & (not by_up)), 0)
            most[wires.src[order][begins]] = np.maximum.reduceat(behind[order], begins, axis=0)
        found = np.where(up[:, None], arriving[1][wires.dst], arriving[0][wires.dst])
        found[wires.dst[:, None] == wires.homes[None, :]] = 0
        found[~allowed] = 0
        if np.array_equal(found, turns):
            break
        turns = found
    return turns
