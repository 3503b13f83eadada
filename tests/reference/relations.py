"""Routing relations with choices, at random, over small networks: sets, planes that are `any`, escapes, ways, vias.

They are made for comparing two machines and not for use: all of them lead to the destination, most of them deadlock.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from pyxsim.core.engine_options import EACH, RANDOM, VIA_ALIGNED, VIA_ANY, VIA_BOX, VIA_NONE
from tests.reference.networks import ALWAYS, SKIP, Entry, Net, Plane, Row, Turn, Way, Wire, crowd

Coordinates = list[tuple[int, ...]]


@dataclass(frozen=True)
class Manner:
    """How a plane is to be made: one entry each, sets, or sets of every digit that differs; and what it leaves open."""

    entries: str = "one"  # or "sets"
    any: bool = False
    select: int = RANDOM
    escape: bool = False
    sticky: bool = False
    equal: bool = False


def digraph(routers: int, chords: int, switches: int, seed: int) -> Net:
    """A directed cycle through all routers in some order, and links across. The last `switches` have no node.

    Plane 0 goes round the cycle.
    """
    rng = random.Random(seed)
    order = rng.sample(range(routers), routers)
    after = {order[i - 1]: order[i] for i in range(routers)}
    wires = [Wire(a, b) for a, b in after.items()]
    wires += [Wire(*rng.sample(range(routers), 2)) for _ in range(chords)]
    number = {wire.src: i for i, wire in enumerate(wires[:routers])}
    nodes = routers - switches
    table: list[Row] = [
        [(r if r < nodes else rng.choice([r, ALWAYS]), [Turn(number[r])] * routers)] for r in range(routers)
    ]
    return Net("digraph", routers, list(range(nodes)), [(n,) for n in range(nodes)], wires, [table])


def places(net: Net) -> Coordinates:
    """The coordinates of the routers: those of their nodes; a switch has its number."""
    known = dict(zip(net.homes, net.digits, strict=True))
    return [known.get(r, (r,)) for r in range(net.routers)]


def hops(net: Net) -> dict[tuple[int, int, int], list[int]]:
    """(router, dimension, digit) -> the links that bring it nearer, along lines that change this digit alone."""
    at = places(net)
    dimensions = len(at[0])
    along: list[list[tuple[int, int, int]]] = [[] for _ in range(dimensions)]  # (link, from, to)
    for link, wire in enumerate(net.wires):
        moved = [i for i in range(dimensions) if at[wire.src][i] != at[wire.dst][i]]
        if len(moved) == 1:
            along[moved[0]].append((link, wire.src, wire.dst))

    @cache
    def distances(dimension: int, digit: int) -> dict[int, int]:
        """Of the routers, to the nearest one with this digit."""
        far = {r: 0 for r in range(net.routers) if at[r][dimension] == digit}
        reached = list(far)
        for r in reached:
            for _, a, b in along[dimension]:
                if b == r and a not in far:
                    far[a] = far[r] + 1
                    reached.append(a)
        return far

    found: dict[tuple[int, int, int], list[int]] = {}
    for dimension in range(dimensions):
        for digit in {place[dimension] for place in at}:
            far = distances(dimension, digit)
            for link, a, b in along[dimension]:
                if far[b] == far[a] - 1:
                    found.setdefault((a, dimension, digit), []).append(link)
    return found


def loosen(
    net: Net, manners: Sequence[Manner], *, classes: int, columns: Sequence[int], groups: bool, nodes: int, seed: int
) -> Net:
    """The network with a plane of each manner besides those that it has, `nodes` nodes at a router, and new classes.

    columns   the dimension that each digit is for; a dimension may have several, which take turns
    groups    links are put into groups at random; they then all have the same number of classes
    """
    rng = random.Random(seed)
    nearer, at = hops(net), places(net)
    dimensions = len(at[0])
    before = len(net.tables)
    if classes > 1:
        net.wires = [
            replace(
                wire, classes=classes if groups else rng.randint(1, classes), group=rng.randint(-1, 1) if groups else -1
            )
            for wire in net.wires
        ]

    def turn(link: int) -> Turn:
        return Turn(link, rng.randrange(net.wires[link].classes))

    def entry(manner: Manner, router: int, dimension: int, digit: int) -> Entry:
        links = nearer.get((router, dimension, digit))
        if not links:
            return Turn(0)  # the digit is right, or never asked for
        if manner.entries == "one":
            return turn(rng.choice(links))
        return tuple(turn(rng.choice(links)) for _ in range(rng.choice([1, 2, 2, 3, 4])))

    def row(manner: Manner, router: int) -> Row:
        made: Row = []
        for place, dimension in enumerate(columns):
            others = [c for c, other in enumerate(columns) if other == dimension and c > place]
            size = 1 + max(place[dimension] for place in at)
            if others and rng.random() < 0.4:
                made.append((SKIP, []))
                continue
            entries = [entry(manner, router, dimension, digit) for digit in range(size)]
            if manner.any and others:
                entries = [None if rng.random() < 0.3 else e for e in entries]
            own = at[router][dimension]
            made.append((ALWAYS if dimensions == 1 and router not in net.homes else own, entries))
        return made

    # The planes that were there: their digits come once, in their own order, in the first of their columns.
    firsts = {columns.index(dimension): dimension for dimension in range(dimensions)}

    def old(row: Row) -> Row:
        moved: Row = []
        for place in range(len(columns)):
            if place not in firsts:
                moved.append((SKIP, []))
                continue
            own, entries = row[firsts[place]]
            # New classes: those of the tables may not be there any more.
            kept = entries if classes == 1 else [turn(e.link) if isinstance(e, Turn) else e for e in entries]
            moved.append((own, kept))
        return moved

    net.tables = [[old(row) for row in plane] for plane in net.tables]
    for plane, manner in enumerate(manners, before):
        net.tables.append([row(manner, r) for r in range(net.routers)])
        escape = rng.randrange(plane) if manner.escape and manner.select == EACH else -1
        net.manners[plane] = Plane(manner.any, manner.select, escape, manner.sticky, manner.equal)
    net.digits = [tuple(digits[dimension] for dimension in columns) for digits in net.digits]
    crowd(net, nodes)
    sizes = [1 + max(place[i] for place in at) for i in range(dimensions)]
    net.wrap = [rng.choice([0, sizes[dimension]]) for dimension in columns]
    # A node is the first one at its router in the box of its digits.
    steps = [nodes * at_once(sizes[:i]) for i in range(dimensions)]
    net.stride = [steps[dimension] if place in firsts else 0 for place, dimension in enumerate(columns)]
    return net


def at_once(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def give_ways(net: Net, count: int, seed: int, *, least: bool) -> Net:
    """Ways at random over all planes. Boxes only where every router has nodes."""
    rng = random.Random(seed)
    vias = [VIA_NONE, VIA_NONE, VIA_ANY, VIA_ALIGNED] + [VIA_BOX] * 2 * (set(net.homes) == set(range(net.routers)))
    for _ in range(count):
        via = rng.choice(vias)
        first = -1 if via == VIA_NONE else rng.randrange(net.planes)
        net.ways.append(Way(rng.randrange(net.planes), first, via, rng.choice([0, 0, 1, 3, 10])))
    net.choose_least = (1 + seed % 2) * least
    return net


def cut(vcs: int, vnets: int, classes: int, rng: random.Random) -> list[list[tuple[int, int]]]:
    """Ranges of the VCs of a link at random: disjoint, in any order, with gaps."""
    edges = sorted(rng.sample(range(vcs + 1), vnets * classes + 1))
    pairs = [(a, rng.randint(a + 1, b)) for a, b in pairwise(edges)]
    rng.shuffle(pairs)
    return [pairs[v * classes : (v + 1) * classes] for v in range(vnets)]
