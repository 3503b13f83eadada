"""What theory says of a network under a traffic pattern: the latency without load, and the load that the links bound.

A flow of packets is followed from router to router by the routing tables, split evenly where a candidate is chosen at
random. For routes that depend on the load there is no such flow; only the lanes bound them then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyxsim.core.options import STORE_AND_FORWARD
from pyxsim.network.machine import Machine
from pyxsim.routing import Relation
from pyxsim.routing.planes import candidates
from pyxsim.routing.relation import RANDOM, SKIP
from pyxsim.settings.traffic import TrafficClass
from pyxsim.topology import Topology
from pyxsim.traffic import Pattern

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

PAIRS = 1 << 18  # of routers and destinations that are followed at a time
SAMPLED = 64  # destinations, where all of them were too many


@dataclass(frozen=True)
class Flow:
    """Where the packets of a matrix go: `load` float64[links], per unit of the matrix; `exact`: not only one choice of
    several that depend on the load."""

    load: Floats
    exact: bool


@dataclass(frozen=True)
class Demand:
    """Who sends how much to whom for a load of one flit per node and cycle: float64[npus, npus], per cycle."""

    flits: Floats
    packets: Floats


def demand(classes: Sequence[TrafficClass], patterns: Sequence[Pattern], npus: int) -> Demand:
    """What several classes together send. Requests are answered."""
    total = sum(each.load or 0.0 for each in classes)
    flits, packets = np.zeros((npus, npus)), np.zeros((npus, npus))
    for each, pattern in zip(classes, patterns, strict=True):
        rates = pattern.rates()
        matrix = pattern.matrix() * ((each.load or 0.0) / total / each.mean_flits)
        if rates is not None:
            matrix = matrix * rates[:, None]
        if each.replies is None:
            flits += matrix * each.mean_flits
            packets += matrix
        else:
            flits += each.replies.request_flits * matrix + each.replies.reply_flits * matrix.T
            packets += matrix + matrix.T
    return Demand(flits, packets)


def follow(relation: Relation, matrix: Floats, only: Longs | None = None) -> Flow:
    """The flow of a matrix (flits per cycle from row to column); of some destinations, if they are named."""
    exact = relation.choose == "random" or len(relation.ways) == 1
    ways = relation.ways if exact else (min(relation.ways, key=lambda way: way.bias),)
    load = np.zeros(relation.links)
    for way in ways:
        legs = [(way.last, matrix)]
        if way.via == "any":
            some = np.full(relation.npus, 1 / relation.npus)
            legs = [
                (way.first, np.outer(matrix.sum(axis=1), some)),
                (way.last, np.outer(some, matrix.sum(axis=0))),
            ]
        exact &= way.via != "box"
        for plane, part in legs:
            exact &= relation.plane_select[plane] == RANDOM and not relation.plane_any[plane]
            load += _spread(relation, plane, part, only) / len(ways)
    return Flow(load, bool(exact))


def _spread(relation: Relation, plane: int, matrix: Floats, only: Longs | None) -> Floats:
    load = np.zeros(relation.links)
    dsts = np.arange(relation.npus) if only is None else only
    step = max(1, PAIRS // relation.routers)
    for first in range(0, len(dsts), step):
        load += _towards(relation, plane, matrix, dsts[first : first + step])
    return load


def _towards(relation: Relation, plane: int, matrix: Floats, dsts: Longs) -> Floats:
    """Loads of the links by what goes to some destinations."""
    routers, width = relation.routers, len(dsts)
    router, column = np.divmod(np.arange(routers * width), width)
    entry = _entries(relation, plane, router, dsts[column])
    moves = np.flatnonzero(entry >= 0)
    start, link, _ = candidates(relation, entry[moves])
    count = np.diff(start)
    share = np.repeat(1 / np.maximum(count, 1), count)
    whence = np.repeat(moves, count)
    whither = relation.link_dst[link].astype(np.int64) * width + column[whence]
    flow = np.zeros((routers, width))
    np.add.at(flow, relation.home, matrix[:, dsts])
    load = np.zeros(relation.links)
    here: Floats = flow.ravel()
    for _ in range(routers):
        moved = here[whence] * share
        if not moved.any():
            break
        load += np.bincount(link, moved, minlength=relation.links)
        here = np.asarray(np.bincount(whither, moved, minlength=routers * width), dtype=np.float64)
    return load


def _entries(relation: Relation, plane: int, router: Longs, dst: Longs) -> Longs:
    """The table entry that decides at each router for each destination; -1 where the packet is at home."""
    row = plane * relation.routers + router
    entry = np.full(len(row), -1, dtype=np.int64)
    for dim in range(relation.digits.shape[1]):
        mine, digit = relation.own[row, dim], relation.digits[dst, dim]
        found = relation.offset[row, dim] + digit
        goes = (entry < 0) & (mine != SKIP) & (mine != digit)
        # Where any digit may decide, one without a link leaves it to the next.
        goes &= (relation.plane_any[plane] == 0) | (relation.link[np.where(goes, found, 0)] != -1)
        entry[goes] = found[goes]
    entry[router == relation.home[dst]] = -1
    return entry


@dataclass(frozen=True)
class Theory:
    """`zero_load`: mean cycles of a packet that meets no other, from its creation on. `bound`: flits per node and cycle
    that links and lanes carry at most; `by_links`: the links are in it, which needs routes that do not depend on the
    load. `hops`: routers that a packet passes, on average, without load."""

    zero_load: float
    bound: float
    by_links: bool
    hops: float


def theory(topology: Topology, machine: Machine, demand: Demand, *, bound: bool = True) -> Theory:
    """Of a demand. `bound=False`: only the latency, of a sample of the destinations where there are many."""
    relation, npus = topology.relation, topology.npus
    only = None
    if not bound and relation.routers * npus > PAIRS:
        only = np.linspace(0, npus - 1, SAMPLED).astype(np.int64)
    asked = demand.packets if only is None else demand.packets[:, only]
    total = float(asked.sum()) or 1.0
    flow = follow(relation, demand.packets, only)
    links = machine.links
    s = np.asarray(links.s_num) / np.asarray(links.s_den)
    wire = np.ceil(s) + np.asarray(links.delay)
    network, lanes = links.network, links.network + links.injection
    hops = float(flow.load.sum()) / total
    head = float(flow.load @ wire[:network]) / total + (hops + 1) * machine.head_wait
    head += float(wire[network:lanes].mean()) + float(wire[lanes:].mean())
    slowest = float(s.max()) if len(s) else 1.0
    times = hops + 2 if machine.options.flow == STORE_AND_FORWARD else 1
    flits = float(demand.flits.sum() / demand.packets.sum())
    zero_load = head + (flits - 1) * slowest * times
    most = _bound(follow(relation, demand.flits), demand.flits, machine, s) if bound else math.nan
    return Theory(zero_load, most, flow.exact, hops + 1)


def _bound(flow: Flow, matrix: Floats, machine: Machine, s: Floats) -> float:
    links = machine.links
    most = math.inf
    if flow.exact:
        used = flow.load > 0
        most = float((1 / s[: links.network][used] / flow.load[used]).min(initial=most))
    for lanes, first, sums in (
        (machine.inject, links.network, matrix.sum(axis=1)),
        (machine.eject, links.network + links.injection, matrix.sum(axis=0)),
    ):
        for npu, mine in enumerate(lanes):
            rate = sum(1 / s[first + lane] for lane in mine.values())
            if sums[npu] > 0:
                most = min(most, float(rate / sums[npu]))
    return most
