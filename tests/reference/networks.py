"""Small networks by hand, for the oracle and for the comparison with the engine.

A `Net` is written down in three lists (network links, injection lanes, ejection lanes) and one routing table per
plane; `links()` and `routes()` turn it into the arrays that both machines read. Nothing of `pyxsim.topology` or
`pyxsim.routing` is used: a fault there must not hide one here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from pyxsim.core.engine_options import RANDOM, VIA_NONE, Links, RouterOptions, Routes

SKIP = -2  # own digit of a router that has no say in a dimension
ALWAYS = -1  # own digit of a router that always decides in a dimension


@dataclass(frozen=True)
class Stages:
    """The stage delays of a router, of which rc and va are options and the others part of the links' delays."""

    bw: int = 0
    rc: int = 1
    va: int = 1
    sa: int = 1
    st: int = 1

    @property
    def total(self) -> int:
        return self.bw + self.rc + self.va + self.sa + self.st


BOOKSIM = Stages()


def garnet(r: int = 1) -> Stages:
    return Stages(bw=r - 1, rc=0, va=0, sa=1, st=0)


@dataclass(frozen=True)
class Style:
    """What a link is like apart from where it lies; `delay` and `credit_delay` as the engine wants them."""

    vcs: int = 1
    depth: int = 4
    s: Fraction = Fraction(1)
    delay: int = 1
    credit_delay: int = 2
    output_queue: bool = False
    pool: int = 0


def style(
    stages: Stages,
    latency: int,
    *,
    kind: str = "network",
    vcs: int = 1,
    depth: int = 64,
    s: Fraction | int = 1,
    serdes: int = 0,
    output_queue: bool = False,
    pool: int = 0,
    speedup: int = 1,
) -> Style:
    """The style of a link of latency `latency`, with the stage delays that "Time on a link" adds to it."""
    s = Fraction(s)
    extra = serdes if s > 1 else 0
    delay = latency + extra
    # With an internal speed-up st is no part of it.
    delay += 0 if kind == "injection" or speedup > 1 else stages.st
    delay += 0 if kind == "ejection" else stages.bw + stages.sa - 1
    credit_delay = 1 + latency + (extra + math.ceil(s) - 1 if extra else 0)
    return Style(vcs, depth, s, delay, credit_delay, output_queue, pool)


@dataclass(frozen=True)
class Wire:
    """A network link without its style."""

    src: int
    dst: int
    classes: int = 1
    group: int = -1


@dataclass(frozen=True)
class Turn:
    """One entry of a digit table: the link to take and the VC class to ask for."""

    link: int
    vc_class: int = 0


Entry = Turn | tuple[Turn, ...] | None  # one way on, a set of them, none
Row = list[tuple[int, Sequence[Entry]]]  # for each dimension of a router: its own digit, entries by digit


@dataclass(frozen=True)
class Plane:
    """How a plane chooses where its tables leave a choice."""

    any: bool = False
    select: int = RANDOM
    escape: int = -1
    sticky: bool = False
    equal: bool = False


@dataclass(frozen=True)
class Way:
    last: int
    first: int = -1
    via: int = VIA_NONE
    bias: int = 0


@dataclass
class Net:
    """`homes[n]` is the router of node n, `digits[n]` its address.

    `tables[plane][router]` is a `Row`; entries may be missing where never read. `manners[plane]` is for choices, and
    plain where it is missing. `ranges[link][virtual network][class]` are pairs; links without have even shares.
    """

    name: str
    routers: int
    homes: list[int]
    digits: list[tuple[int, ...]]
    wires: list[Wire]
    tables: list[list[Row]]
    styles: list[Style] = field(default_factory=list)
    injection: list[tuple[int, Style]] = field(default_factory=list)  # (node, style)
    ejection: list[tuple[int, Style]] = field(default_factory=list)
    manners: dict[int, Plane] = field(default_factory=dict)
    ways: list[Way] = field(default_factory=list)
    choose_least: int = 0  # 1: least; 2: of equals by a draw
    early: bool = False
    bubble: bool = False
    wrap: list[int] = field(default_factory=list)
    stride: list[int] = field(default_factory=list)
    vnets: int = 1
    ranges: dict[int, list[list[tuple[int, int]]]] = field(default_factory=dict)

    @property
    def planes(self) -> int:
        return len(self.tables)

    def dress(
        self,
        wires: Callable[[int], Style],
        injection: Sequence[tuple[int, Style]],
        ejection: Sequence[tuple[int, Style]],
    ) -> Net:
        """Give every link its style and every node its lanes."""
        for i, wire in enumerate(self.wires):
            like = wires(i)
            # Each class of each virtual network needs at least one VC of its own.
            self.styles.append(replace(like, vcs=max(like.vcs, self.vnets * wire.classes)))
        self.injection, self.ejection = (
            [(n, replace(like, vcs=max(like.vcs, self.vnets))) for n, like in lanes] for lanes in (injection, ejection)
        )
        return self

    def plain(self, wire: Style, injection: Style | None = None, ejection: Style | None = None) -> Net:
        """All links alike and one lane each way per node."""
        nodes = range(len(self.homes))
        return self.dress(
            lambda _: wire, [(n, injection or wire) for n in nodes], [(n, ejection or wire) for n in nodes]
        )

    def links(self) -> Links:
        rows = [
            *((w.src, w.dst, w.classes, w.group, s) for w, s in zip(self.wires, self.styles, strict=True)),
            *((-1, self.homes[n], 1, -1, s) for n, s in self.injection),
            *((self.homes[n], -1, 1, -1, s) for n, s in self.ejection),
        ]

        def ints(values: list[int]) -> np.ndarray:
            return np.array(values, dtype=np.int32)

        styles = [row[4] for row in rows]
        ranges = [self.ranges.get(i) or even(row[4].vcs, self.vnets, row[2]) for i, row in enumerate(rows)]
        flat = [[vcs for classes in vnets for vcs in classes] for vnets in ranges]
        return Links(
            network=len(self.wires),
            injection=len(self.injection),
            ejection=len(self.ejection),
            src=ints([row[0] for row in rows]),
            dst=ints([row[1] for row in rows]),
            vcs=ints([s.vcs for s in styles]),
            depth=ints([s.depth for s in styles]),
            s_num=ints([s.s.numerator for s in styles]),
            s_den=ints([s.s.denominator for s in styles]),
            delay=np.array([s.delay for s in styles], dtype=np.int64),
            credit_delay=np.array([s.credit_delay for s in styles], dtype=np.int64),
            output_queue=ints([s.output_queue for s in styles]),
            group=ints([row[3] for row in rows]),
            pool=ints([s.pool for s in styles]),
            classes=ints([row[2] for row in rows]),
            ranges=ints([sum(len(vcs) for vcs in flat[:i]) for i in range(len(flat))]),
            low=ints([low for vcs in flat for low, _ in vcs]),
            high=ints([high for vcs in flat for _, high in vcs]),
        )

    def routes(self) -> Routes:
        own: list[list[int]] = []
        offset: list[list[int]] = []
        turns: list[Turn] = []
        sets: list[tuple[Turn, ...]] = []

        def turn(entry: Entry) -> Turn:
            if entry is None:
                return Turn(-1)
            if isinstance(entry, tuple):
                sets.append(entry)
                return Turn(-1 - len(sets))
            return entry

        for plane in self.tables:
            for router in plane:
                own.append([digit for digit, _ in router])
                offset.append([])
                for _, entries in router:
                    offset[-1].append(len(turns))
                    turns += map(turn, entries)
        manners = [self.manners.get(plane, Plane()) for plane in range(self.planes)]
        dimensions = len(self.digits[0])

        def ints(values: list[int]) -> np.ndarray:
            return np.array(values, dtype=np.int32)

        return Routes(
            home=ints(self.homes),
            digits=np.array(self.digits, dtype=np.int32),
            own=np.array(own, dtype=np.int32),
            offset=np.array(offset, dtype=np.int64),
            link=ints([t.link for t in turns] or [0]),
            vc_class=ints([t.vc_class for t in turns] or [0]),
            set_start=np.array([sum(map(len, sets[:k])) for k in range(len(sets) + 1)], dtype=np.int64),
            set_link=ints([t.link for some in sets for t in some]),
            set_class=ints([t.vc_class for some in sets for t in some]),
            plane_any=ints([p.any for p in manners]),
            plane_select=ints([p.select for p in manners]),
            plane_escape=ints([p.escape for p in manners]),
            plane_sticky=ints([p.sticky for p in manners]),
            plane_equal=ints([p.equal for p in manners]),
            way_first=ints([w.first for w in self.ways]),
            way_last=ints([w.last for w in self.ways]),
            way_via=ints([w.via for w in self.ways]),
            way_bias=ints([w.bias for w in self.ways]),
            choose=self.choose_least,
            early=self.early,
            bubble=self.bubble,
            wrap=ints(self.wrap or [0] * dimensions),
            stride=ints(self.stride or [0] * dimensions),
        )


def even(vcs: int, vnets: int, classes: int) -> list[list[tuple[int, int]]]:
    """Even shares of the VCs of a link for its virtual networks, and of each of these for its classes."""
    ranges = []
    for v in range(vnets):
        low, high = v * vcs // vnets, (v + 1) * vcs // vnets
        n = high - low
        ranges.append([(low + c * n // classes, low + (c + 1) * n // classes) for c in range(classes)])
    return ranges


def options(stages: Stages = BOOKSIM, **others: Any) -> RouterOptions:
    st = stages.st if others.get("speedup", 1) > 1 else 0
    return RouterOptions(rc=stages.rc, va=stages.va, st=st, **others)


def hub(nodes: int) -> Net:
    """One router, all nodes at it."""
    return Net("hub", 1, [0] * nodes, [(0,)] * nodes, [], [[[(0, [])]]])


def crowd(net: Net, nodes: int) -> Net:
    """The same network with `nodes` nodes at each router that had one."""
    net.homes = [home for home in net.homes for _ in range(nodes)]
    net.digits = [digits for digits in net.digits for _ in range(nodes)]
    return net


def line(routers: int) -> Net:
    """Routers 0 .. n-1 in a row, a pair of links between neighbours: the odd ones lead down. One node each."""
    net = grid([routers], wrap=[False])
    net.name = "line"
    return net


def ring(routers: int, *, bidirectional: bool = True, datelines: bool = True, keep: bool = True) -> Net:
    net = grid([routers], wrap=[True], bidirectional=bidirectional, datelines=datelines, keep=keep)
    net.name = "ring"
    return net


def star(nodes: int) -> Net:
    """A router per node and a switch in the middle, which is router `nodes`. Link 2i leads up, 2i+1 down."""
    wires = [w for i in range(nodes) for w in (Wire(i, nodes), Wire(nodes, i))]
    up = [[(i, [Turn(2 * i)] * nodes)] for i in range(nodes)]
    middle = [(ALWAYS, [Turn(2 * i + 1) for i in range(nodes)])]
    return Net("star", nodes + 1, list(range(nodes)), [(i,) for i in range(nodes)], wires, [[*up, middle]])


def full(nodes: int) -> Net:
    """Every pair of routers joined directly."""
    wires = [Wire(i, j) for i in range(nodes) for j in range(nodes) if i != j]
    number = {(w.src, w.dst): k for k, w in enumerate(wires)}
    table = [[(i, [Turn(number.get((i, j), 0)) for j in range(nodes)])] for i in range(nodes)]
    return Net("full", nodes, list(range(nodes)), [(i,) for i in range(nodes)], wires, [table])


def grid(
    shape: list[int], *, wrap: list[bool], bidirectional: bool = True, datelines: bool = True, keep: bool = True
) -> Net:
    """Lines and rings multiplied, dimension order, dimension 0 fastest; with two planes that break ties differently.

    Datelines: class 1 for a packet that has still to pass from the last router of its ring to the first (direction +)
    or from the first to the last (-). With `keep` the class is chosen once, on entering the ring, by the links' group.
    """
    total = math.prod(shape)
    coords = [tuple(r // math.prod(shape[:i]) % k for i, k in enumerate(shape)) for r in range(total)]
    wires: list[Wire] = []
    number: dict[tuple[int, int, int], int] = {}  # (router, dimension, direction) -> link
    for i, k in enumerate(shape):
        classed = wrap[i] and datelines
        for r in range(total):
            for step in (1, -1):
                x = coords[r][i] + step
                if k == 1 or (not wrap[i] and not 0 <= x < k) or (wrap[i] and step < 0 and not bidirectional):
                    continue
                number[r, i, step] = len(wires)
                to = r + (x % k - coords[r][i]) * math.prod(shape[:i])
                wires.append(Wire(r, to, 2 if classed else 1, i if classed and keep else -1))

    def turn(r: int, i: int, d: int, plane: int) -> Turn:
        here, k = coords[r][i], shape[i]
        if here == d:
            return Turn(0)  # never read: the digit is already right
        if not wrap[i]:
            return Turn(number[r, i, 1 if d > here else -1])
        ahead, tie = (d - here) % k, (0, 1)[plane]
        step = 1 if not bidirectional or 2 * ahead + tie <= k else -1
        wraps = d < here if step > 0 else d > here
        return Turn(number[r, i, step], int(wraps and datelines))

    tables = [
        [[(coords[r][i], [turn(r, i, d, plane) for d in range(k)]) for i, k in enumerate(shape)] for r in range(total)]
        for plane in range(2 if bidirectional and any(wrap) else 1)
    ]
    return Net("grid", total, list(range(total)), coords, wires, tables)


def ring_of_stars(across: int, along: int) -> Net:
    """`across` nodes on each of `along` rings' positions: dimension 0 a ring, dimension 1 a switch per ring position.

    The switches skip dimension 0 (own digit -2): a packet reaches them only with its last digit to mend.
    """
    net = grid([across, along], wrap=[True, False])
    rings = [w for w in net.wires if w.group == 0]
    nodes = across * along
    wires = list(rings)
    up = {r: len(wires) + 2 * r for r in range(nodes)}
    wires += [w for r in range(nodes) for w in (Wire(r, nodes + r % across), Wire(nodes + r % across, r))]
    tables = []
    for plane in net.tables:
        # The ring's links come first in both nets, so its turns keep their numbers.
        rows = [[row[0], (row[1][0], [Turn(up[r])] * along)] for r, row in enumerate(plane)]
        for column in range(across):
            rows.append([(SKIP, []), (ALWAYS, [Turn(up[column + y * across] + 1) for y in range(along)])])
        tables.append(rows)
    return Net("ring of stars", nodes + across, list(range(nodes)), net.digits, wires, tables)
