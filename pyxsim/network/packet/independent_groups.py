"""Find independent groups: messages that share no link and no lane (`split_engine.py` simulates each by itself)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from pyxsim.arrays import IntArray, unique_rows
from pyxsim.core.engine_options import Links
from pyxsim.network.link_paths import routes
from pyxsim.network.packet.split_engine import Groups
from pyxsim.routing.spread import fixed
from pyxsim.topology.topology import Topology

LONG = 10_000  # minimum duration of the longest message in cycles: shorter ones hardly repeat
PERIODS = 4  # minimum periods of the longest message: below, several engines are slower than one that skips little
# Minimum size of the longest message, in multiples of the slots on its path: the arrival of the last flits cannot be
# predicted.
PATH_FILLINGS = 20
MOST_DIMS = 62  # bits of a mask
MOST_PAIRS = 2**16
MOST_BYTES = 2**28  # memory of all engines together


def independent_groups(
    topology: Topology,
    links: Links,
    traffic: IntArray,
    lanes_of: Callable[[IntArray, IntArray, IntArray], tuple[IntArray, IntArray]],
    cut: Callable[[int], tuple[int, int, int]],
    engine_bytes: int,
) -> Groups | None:
    """Find the groups of messages that share no link and no lane; None if simulating each by itself does not pay.

    Parameters
    ----------
    traffic
        int64[rows, 5]: source, destination, plane, bytes, number of messages; all messages of the run.
    lanes_of
        Function from (src, dst, plane) to the injection and ejection lanes of messages.
    cut
        (packets, flits of each, flits of the last one) of a message.
    engine_bytes
        Memory of one engine.
    """
    relation = topology.relation
    pairs, pair = unique_rows(traffic[:, :3])
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
    paths = np.column_stack([links.network + inject, steps, links.network + links.injection + eject])
    pace, slots, latency = zip(*(slowest(links, paths[group == number]) for number in range(count)), strict=True)
    longest = np.zeros(count, np.int64)
    np.maximum.at(longest, group[pair], traffic[:, 3])
    vcs = int(links.vcs[links.network + inject].max())
    cuts = [cut(int(size)) for size in longest]
    if not any(_repeats(*terms, vcs) for terms in zip(cuts, pace, slots, strict=True)):
        return None
    inject_group, eject_group = np.full(links.injection, -1), np.full(links.ejection, -1)
    inject_group[inject], eject_group[eject] = group, group
    counted = np.where(paths < topology.counted_links, paths, -1)
    used_links = [np.unique(counted[(group == number)[:, None] & (counted >= 0)]) for number in range(count)]
    return Groups(inject_group, eject_group, used_links, pace, slots, latency)


def _repeats(cut: tuple[int, int, int], pace: Fraction, room: int, vcs: int) -> bool:
    """Whether a message is long enough to repeat: in cycles, in periods, and in multiples of the slots on its path.

    A period uses each VC of the lane once and is a whole number of cycles. While the last flits of a message are on the
    path, it may arrive at any time, and the engines synchronize every few cycles.
    """
    packets, flits, _ = cut
    minimum = max(PERIODS * math.lcm(pace.denominator, flits * vcs), PATH_FILLINGS * room)
    return packets * flits * pace >= LONG and packets * flits >= minimum


def _share_links(steps: IntArray) -> bool:
    """Whether a link is on several paths: messages then wait for each other and hardly repeat."""
    taken = steps[steps >= 0]
    return len(np.unique(taken)) < len(taken)


def _dimensions(link_dim: IntArray, steps: IntArray) -> IntArray:
    """int64[pairs]: bit mask of the dimensions of the links of each path."""
    bits = np.where(steps >= 0, np.int64(1) << np.append(link_dim, 0)[steps], 0)
    masks: IntArray = np.bitwise_or.reduce(bits, axis=1)
    return masks


def _connected(masks: IntArray, inject: IntArray, eject: IntArray) -> IntArray:
    """int64[pairs]: the group of each pair. Pairs that share a dimension or a lane are in one group."""
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
            group: IntArray = np.unique(masks, return_inverse=True)[1].astype(np.int64)
            return group


def slowest(links: Links, paths: IntArray) -> tuple[Fraction, int, int]:
    """(least cycles per flit, upper bound of the slots from the slowest link on, minimum latency) of paths.

    Paths are rows of links, with -1 for no link.
    """
    num, den = (np.append(column, 1).astype(np.int64) for column in (links.s_num, links.s_den))
    slots = np.append(links.vcs.astype(np.int64) * links.depth + links.pool, 0)
    paces, slot_sums = [], []
    for path in np.unique(np.column_stack([num[paths], den[paths], slots[paths], paths >= 0]), axis=0).tolist():
        hops = len(path) // 4
        rows = [(Fraction(path[i], path[hops + i]), path[2 * hops + i]) for i in range(hops) if path[3 * hops + i]]
        slow = max(range(len(rows)), key=lambda i: rows[i][0])
        paces.append(rows[slow][0])
        slot_sums.append(sum(flits for _, flits in rows[slow:]))
    return min(paces), max(slot_sums), int(np.append(links.delay, 0).astype(np.int64)[paths].sum(axis=1).min())
