"""Messages that share no link and no lane, so that each group can be simulated by itself (network/apart.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.core.engine_options import Links
from pyxsim.network.link_paths import routes
from pyxsim.network.packet.split_engine import Groups
from pyxsim.routing.spread import fixed
from pyxsim.topology.topology import Topology

LONG = 10_000  # cycles that the longest message takes, at least: what is shorter hardly repeats itself
PERIODS = 4  # the longest message has at least this many periods: several engines are slower than one that skips little
ROOMS = (
    20  # and at least this many times the flits that its path holds: the arrival of the last ones cannot be predicted
)
MOST_DIMS = 62  # bits of a mask
MOST_PAIRS = 2**16
MOST_BYTES = 2**28  # of all engines together


def independent_groups(
    topology: Topology,
    links: Links,
    traffic: IntArray,
    lanes_of: Callable[[IntArray, IntArray, IntArray], tuple[IntArray, IntArray]],
    cut: Callable[[int], tuple[int, int, int]],
    engine_bytes: int,
) -> Groups | None:
    """Find the groups of messages that share no link and no lane, where simulating each by itself pays.

    Parameters
    ----------
    traffic
        int64[rows, 5]: source, destination, plane, bytes, how many; all messages of the run.
    lanes_of
        The injection and ejection lanes of messages.
    cut
        (packets, flits of each, flits of the last one) of a message.
    engine_bytes
        Memory of one engine.
    """
    relation = topology.relation
    pairs, pair = np.unique(traffic[:, :3], axis=0, return_inverse=True)
    if not 0 < len(pairs) <= MOST_PAIRS or not all(fixed(relation, plane) for plane in np.unique(pairs[:, 2]).tolist()):
        return None
    if len(topology.link_kinds) > MOST_DIMS or (not relation.deterministic and (pairs[:, 2] < 0).any()):
        return None
    steps = routes(relation, *pairs.T)
    if _share_links(steps):
        return None
    inject, eject = lanes_of(*pairs.T)
    group = _connected(_dimensions(topology.link_dim.astype(np.int64), steps), inject, eject)
    count = int(group.max()) + 1
    if count < 2 or count * engine_bytes > MOST_BYTES:
        return None
    ways = np.column_stack([links.network + inject, steps, links.network + links.injection + eject])
    pace, room, way = zip(*(_slowest(links, ways[group == each]) for each in range(count)), strict=True)
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, group[pair.ravel()], traffic[:, 3])
    vcs = int(links.vcs[links.network + inject].max())
    cuts = [cut(int(size)) for size in longest]
    if not any(_repeats(*each, vcs) for each in zip(cuts, pace, room, strict=True)):
        return None
    lane, into = np.full(links.injection, -1), np.full(links.ejection, -1)
    lane[inject], into[eject] = group, group
    own = [np.unique(steps[group == each]) for each in range(count)]
    return Groups(lane, into, [some[some >= 0] for some in own], pace, room, way)


def _repeats(cut: tuple[int, int, int], pace: Fraction, room: int, vcs: int) -> bool:
    """Whether a message, cut into packets, is long, and long beside a period: all VCs of its lane have had their turn
    then, and no fraction of a cycle is left. And beside its way: while flits of it stand there alone, it may arrive at
    any time, and the engines wait for each other every few cycles."""
    packets, flits, _ = cut
    least = max(PERIODS * math.lcm(pace.denominator, flits * vcs), ROOMS * room)
    return packets * flits * pace >= LONG and packets * flits >= least


def _share_links(steps: IntArray) -> bool:
    """Whether a link is on several ways. Then messages wait for each other, and hardly anything repeats itself: what
    the parts cost would be lost."""
    taken = steps[steps >= 0]
    return len(np.unique(taken)) < len(taken)


def _dimensions(link_dim: IntArray, steps: IntArray) -> IntArray:
    """int64[pairs]: the dimensions of the links of a way, as a mask."""
    bits = np.where(steps >= 0, np.int64(1) << np.append(link_dim, 0)[steps], 0)
    found: IntArray = np.bitwise_or.reduce(bits, axis=1)
    return found


def _connected(masks: IntArray, inject: IntArray, eject: IntArray) -> IntArray:
    """int64[pairs]: the group of each. Pairs of one group are those that a dimension or a lane leads from to others."""
    masks = masks.copy()
    while True:
        before = masks.copy()
        for lanes in (inject, eject):
            shared = np.zeros(int(lanes.max()) + 1, np.int64)
            np.bitwise_or.at(shared, lanes, masks)
            masks |= shared[lanes]
        for mask in np.unique(masks).tolist():
            masks[(masks & mask) != 0] |= mask
        if (masks == before).all():
            found: IntArray = np.unique(masks, return_inverse=True)[1].astype(np.int64)
            return found


def _slowest(links: Links, ways: IntArray) -> tuple[Fraction, int, int]:
    """Of ways, as links with -1 in between: (cycles per flit of their slowest links, at least; flits that find a place
    from there on, at most; cycles on all links of one, at least)."""
    num, den = (np.append(column, 1).astype(np.int64) for column in (links.s_num, links.s_den))
    room = np.append(links.vcs.astype(np.int64) * links.depth + links.pool, 0)
    paces, rooms = [], []
    for way in np.unique(np.column_stack([num[ways], den[ways], room[ways], ways >= 0]), axis=0).tolist():
        each = len(way) // 4
        rows = [(Fraction(way[i], way[each + i]), way[2 * each + i]) for i in range(each) if way[3 * each + i]]
        slow = max(range(len(rows)), key=lambda i: rows[i][0])
        paces.append(rows[slow][0])
        rooms.append(sum(flits for _, flits in rows[slow:]))
    return min(paces), max(rooms), int(np.append(links.delay, 0).astype(np.int64)[ways].sum(axis=1).min())
