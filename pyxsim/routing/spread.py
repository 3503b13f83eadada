"""The share of a large message on each link if its packets use all their routes.

Traffic divides evenly over candidates, route options and vias, as in `pyxsim/routing/loads.py`. Adaptive packets count
as if they used all candidates equally and, where they choose route options by load, only options without a via.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.routing.explore import BATCH
from pyxsim.routing.loads import Paths, ways_of
from pyxsim.routing.planes import table_parts
from pyxsim.routing.product_table import FIRST_SET
from pyxsim.routing.relation import EACH, Relation, Way

TRIPS = 1 << 18  # (pair, route option, via) combinations per batch


@dataclass(frozen=True, eq=False)
class Spread:
    """The links of K pairs.

    Attributes
    ----------
    count
        int64[K], number of links of each pair.
    link, share
        The links of all pairs, in order of pairs, and their shares of a message.
    longest
        int64[K], length of the longest path of each pair: the sum of the lengths of its links.
    """

    count: IntArray
    link: IntArray
    share: FloatArray
    longest: IntArray


def fixed(relation: Relation, plane: int) -> bool:
    """Return whether each pair has a single route on a plane, or (-1) over the route options."""
    ways = relation.ways if plane < 0 else (Way(plane),)
    if len(ways) > 1 or ways[0].via != "none" or relation.plane_any[ways[0].last]:
        return False
    number = ways[0].last
    escapes = relation.plane_select[number] == EACH and relation.plane_escape[number] >= 0
    if escapes or not relation.sets:
        return not escapes
    several = np.append(np.diff(relation.set_start) > 1, False)  # by FIRST_SET - link; the last one is no set
    tables = (relation.link[entry] for _, _, entry in table_parts(relation, number))
    return not any(several[np.where(link <= FIRST_SET, FIRST_SET - link, -1)].any() for link in tables)


def spread(relation: Relation, src: IntArray, dst: IntArray, plane: int, lengths: IntArray) -> Spread:
    """Return the links of each pair with their shares, on a plane or (-1) over the route options.

    `lengths` is int64[links]. Raises UnreachableError.
    """
    ways = ways_of(relation, plane)
    max_trips = sum(1 if way.via == "none" else relation.npus for way in ways)
    rows = max(1, TRIPS // max_trips)
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
        path_length = np.zeros(len(pair), np.int64)
        for plane, begin, end in legs:
            trip, link, part, leg_length = _legs(relation, plane, begin, end, lengths)
            path_length += leg_length
            parts = np.concatenate([share, chance[trip] * part])
            key, index = np.unique(np.concatenate([key, pair[trip] * relation.links + link]), return_inverse=True)
            share = np.bincount(index, parts, len(key)).astype(np.float64)
        np.maximum.at(longest, pair, path_length)
    pair, link = np.divmod(key, max(relation.links, 1))
    # Shares whose floating-point sum is nearly 1 are 1.
    share[np.abs(share - 1) < 2.0**-30] = 1
    return Spread(np.bincount(pair, minlength=len(src)).astype(np.int64), link, share, longest)


def _legs(
    relation: Relation, plane: int, src: IntArray, dst: IntArray, lengths: IntArray
) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """(trip, link, share) of traffic from NPU to NPU on a plane, and the longest path of each trip."""
    pairs, number = np.unique(src * relation.npus + dst, return_inverse=True)
    begin, end = np.divmod(pairs, relation.npus)
    rows = max(1, BATCH // relation.routers)
    leg, link, share = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0)]
    longest = np.zeros(len(pairs), np.int64)
    for first in range(0, len(pairs), rows):
        part = slice(first, min(first + rows, len(pairs)))
        target, home = end[part], relation.home[end[part]]
        starts = np.arange(len(target)) * relation.routers + relation.starts[begin[part]]
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
    # A trip has the rows of its leg.
    rows_per = count[number]
    position = np.repeat(start[number] - (np.cumsum(rows_per) - rows_per), rows_per) + np.arange(int(rows_per.sum()))
    row = order[position]
    return np.repeat(np.arange(len(src)), rows_per), links[row], shares[row], longest[number]


def _vias(relation: Relation, way: Way, src: IntArray, dst: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """(pair, via, probability) of every via of each pair."""
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
