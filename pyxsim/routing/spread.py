"""What becomes of a message that is so large that it takes all the paths it may take: each link's share of it.

Each of several candidates, and each way or via that is drawn, gets its share, as in `loads`. Packets that adapt are
taken to use their candidates alike, and of ways that are chosen by what is in use those without a via.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.routing.explore import BATCH
from pyxsim.routing.loads import Paths, ways_of
from pyxsim.routing.planes import plane as taken_out
from pyxsim.routing.relation import EACH, Relation, Way

TRIPS = 1 << 18  # from NPU to NPU, over one way and via each, that are looked at together


@dataclass(frozen=True, eq=False)
class Spread:
    """Of K pairs: how many links each uses, the links and their shares, one pair behind the other; and the length of
    the longest path of each, as the sum of the lengths of its links."""

    count: IntArray
    link: IntArray
    share: FloatArray
    longest: IntArray


def fixed(relation: Relation, plane: int) -> bool:
    """Whether all that is sent on a plane, or (-1) on the ways, keeps to one route."""
    ways = relation.ways if plane < 0 else (Way(plane),)
    if len(ways) > 1 or ways[0].via != "none" or relation.plane_any[ways[0].last]:
        return False
    number = ways[0].last
    escapes = relation.plane_select[number] == EACH and relation.plane_escape[number] >= 0
    candidates = np.diff(taken_out(relation, number).start) if relation.sets else np.zeros(1)
    return bool(not escapes and candidates.max(initial=0) <= 1)


def spread(relation: Relation, src: IntArray, dst: IntArray, plane: int, lengths: IntArray) -> Spread:
    """What the links carry of each pair, on a plane or (-1) on the ways. `lengths`: int64[links].

    Raises UnreachableError.
    """
    ways = ways_of(relation, plane)
    most = sum(1 if way.via == "none" else relation.npus for way in ways)
    rows = max(1, TRIPS // most)
    parts = [
        _batch(relation, ways, src[begin : begin + rows], dst[begin : begin + rows], lengths)
        for begin in range(0, len(src), rows)
    ]
    return Spread(
        np.concatenate([part.count for part in parts]),
        np.concatenate([part.link for part in parts]),
        np.concatenate([part.share for part in parts]),
        np.concatenate([part.longest for part in parts]),
    )


def _batch(relation: Relation, ways: tuple[Way, ...], src: IntArray, dst: IntArray, lengths: IntArray) -> Spread:
    longest = np.zeros(len(src), np.int64)
    key: IntArray = np.zeros(0, np.int64)
    share: FloatArray = np.zeros(0)
    for way in ways:
        pair, via, chance = _vias(relation, way, src, dst)
        chance = chance / len(ways)
        legs = [(way.last, src[pair], dst[pair])]
        if way.via != "none":
            legs = [(way.first, src[pair], via), (way.last, via, dst[pair])]
        reach = np.zeros(len(pair), np.int64)
        for plane, begin, end in legs:
            trip, link, part, far = _legs(relation, plane, begin, end, lengths)
            reach += far
            parts = np.concatenate([share, chance[trip] * part])
            key, place = np.unique(np.concatenate([key, pair[trip] * relation.links + link]), return_inverse=True)
            share = np.bincount(place, parts, len(key)).astype(np.float64)
        np.maximum.at(longest, pair, reach)
    pair, link = np.divmod(key, max(relation.links, 1))
    # Parts of a whole, summed up in floating point, are the whole.
    share[np.abs(share - 1) < 2.0**-30] = 1
    return Spread(np.bincount(pair, minlength=len(src)).astype(np.int64), link, share, longest)


def _legs(
    relation: Relation, plane: int, src: IntArray, dst: IntArray, lengths: IntArray
) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """(trip, link, share) of what goes from NPU to NPU on a plane, and the longest path of each trip."""
    pairs, number = np.unique(src * relation.npus + dst, return_inverse=True)
    begin, end = np.divmod(pairs, relation.npus)
    rows = max(1, BATCH // relation.routers)
    leg, link, share = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0)]
    longest = np.zeros(len(pairs), np.int64)
    for first in range(0, len(pairs), rows):
        part = slice(first, min(first + rows, len(pairs)))
        target, home = end[part], relation.home[end[part]]
        starts = np.arange(len(target)) * relation.routers + relation.home[begin[part]]
        paths = Paths(relation, plane, relation.digits[target], home, starts)
        sent = np.zeros(paths.size)
        sent[starts] = 1
        who, over, amount = paths.amounts(sent)
        leg.append(who + first)
        link.append(over)
        share.append(amount)
        longest[part] = paths.longest(lengths)[starts]
    legs, links, shares = np.concatenate(leg), np.concatenate(link).astype(np.int64), np.concatenate(share)
    order = np.argsort(legs, kind="stable")
    count = np.bincount(legs, minlength=len(pairs))
    start = np.cumsum(count) - count
    # Every trip has the rows of its leg.
    many = count[number]
    place = np.repeat(start[number] - (np.cumsum(many) - many), many) + np.arange(int(many.sum()))
    row = order[place]
    return np.repeat(np.arange(len(src)), many), links[row], shares[row], longest[number]


def _vias(relation: Relation, way: Way, src: IntArray, dst: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """(pair, via, chance): every NPU that a pair may go over."""
    if way.via == "none":
        return np.arange(len(src)), dst, np.ones(len(src))
    if way.via == "any":
        pair, via = np.divmod(np.arange(len(src) * relation.npus), relation.npus)
        return pair, via, np.full(len(pair), 1 / relation.npus)
    pair, via, chance = np.arange(len(src)), np.zeros(len(src), np.int64), np.ones(len(src))
    for dim in np.flatnonzero(relation.stride).tolist():
        a, b = relation.digits[src[pair], dim].astype(np.int64), relation.digits[dst[pair], dim].astype(np.int64)
        n = int(relation.wrap[dim])
        up, down = ((b - a) % n, (a - b) % n) if n else (b - a, a - b)
        upward = up <= down if n else b >= a
        count = np.where(upward, up, down) + 1
        which = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        digit = np.repeat(a, count) + np.repeat(np.where(upward, 1, -1), count) * which
        pair, via = np.repeat(pair, count), np.repeat(via, count)
        chance = np.repeat(chance / count, count)
        via = via + (digit % n if n else digit) * int(relation.stride[dim])
    return pair, via, chance
