"""Routes for any graph whose links come in pairs: shortest paths, up*/down*, nearest common ancestors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import AnyIntArray, BoolArray, Int32Array, IntArray
from pyxsim.errors import InputError, UnreachableError
from pyxsim.routing.planes import ROUTING, Plane, rebuilt
from pyxsim.routing.relation import ALWAYS, EACH, LEAST, RANDOM, TWO, Relation, Way

Select = Literal["first", "hash", "random", "least", "two"]
SELECT: dict[str, int] = {"first": RANDOM, "hash": RANDOM, "random": RANDOM, "least": LEAST, "two": TWO}

FAR = np.iinfo(np.int32).max // 2  # a distance where there is no way


class Wired(Protocol):
    """What is needed of a network: how many routers, the router of each NPU, and for each link its ends and name."""

    @property
    def routers(self) -> int: ...
    @property
    def home(self) -> Int32Array: ...
    @property
    def src(self) -> Int32Array: ...
    @property
    def dst(self) -> Int32Array: ...
    @property
    def name(self) -> Sequence[str]: ...


@dataclass(frozen=True, eq=False)
class Graph:
    """Routers and links, where there is nothing else that tells them."""

    routers: int
    home: Int32Array
    src: Int32Array
    dst: Int32Array
    name: Sequence[str]

    @classmethod
    def of(cls, links: ArrayLike, home: ArrayLike | None = None, names: Sequence[str] | None = None) -> Graph:
        """From rows (router, router), one for each direction; left out, NPU i is at router i, for all of them."""
        ends = np.asarray(links, np.int32).reshape(-1, 2)
        routers = int(ends.max(initial=-1)) + 1
        at = np.arange(routers, dtype=np.int32) if home is None else np.asarray(home, np.int32)
        routers = max(routers, int(at.max(initial=-1)) + 1)
        link_names = names if names is not None else [f"({a})->({b})" for a, b in ends.tolist()]
        return cls(routers, at, ends[:, 0].copy(), ends[:, 1].copy(), link_names)


def shortest(graph: Wired, select: Select = "random") -> Relation:
    """All shortest paths: at each hop one of the links that begin one. Nothing here promises freedom from deadlock."""
    away = distances(graph)
    _check_reached(graph, away, "there is no way")
    return _table(graph, [_plane(graph, _nearer(graph, away), select=select)])


def up_down(graph: Wired, root: int = -1, select: Select = "random") -> Relation:
    """up*/down*: each packet goes toward the root for some links, and away from it from there on (Autonet 1991).

    A link goes up if it leads to a router that is nearer to the root, of equally far ones to the one with the lower
    number. No packet goes up again after it went down, so no circle can close: there are no VC classes. The next hop
    does not depend on where a packet came from, so it goes down wherever it can: over the shortest way down, else by a
    link up from which the whole way is shortest. `root`: a router; -1: one in the middle of the graph, the lowest
    numbered of those whose farthest router is nearest. `select`: how one of several such links is chosen; "first"
    makes the routes deterministic.
    """
    order = _order(graph, root)
    return _table(graph, [_plane(graph, _ordered_ways(graph, order), select=select)])


def nca(graph: Wired, level: ArrayLike, select: Select = "random", seed: int = 0) -> Relation:
    """Nearest common ancestors in a tree of switches: up by any shortest way, then down (Leiserson's fat tree, 1985).

    `level`: of each router, growing upward; links lead from one level to another. A packet climbs, over links up that
    `select` chooses among ("random", or "two": the less used of two random ones), until its destination is below it.
    "hash": at each switch always the same one for a destination, drawn once with `seed`, as switches do with ECMP.
    """
    height = np.asarray(level, np.int64)
    flat = np.flatnonzero(height[graph.src] == height[graph.dst])
    if len(flat):
        raise InputError(
            f"link {graph.name[int(flat[0])]} joins two routers of one level: that is no tree", key=ROUTING
        )
    # Up is toward lower numbers of the order, as in up_down.
    order = np.empty(graph.routers, np.int64)
    order[np.lexsort((np.arange(graph.routers), -height))] = np.arange(graph.routers)
    return _table(graph, [_plane(graph, _ordered_ways(graph, order), select=select, seed=seed)])


def adaptive_up_down(
    graph: Wired, root: int = -1, adaptive_vcs: int = 0, sticky: bool = True, equal: bool = False
) -> Relation:
    """All shortest paths, adaptively, with up*/down* as the escape (Silla and Duato 1997).

    Class 0 is the escape, with one VC; class 1 has `adaptive_vcs` or (0) all others. A packet that takes the escape
    stays there (`sticky`), as one that could go up again after it went down would close circles.
    """
    away = distances(graph)
    _check_reached(graph, away, "there is no way")
    adaptive = _plane(graph, _nearer(graph, away), vc_class=1, escape=1, sticky=int(sticky), equal=int(equal))
    escape = _plane(graph, _ordered_ways(graph, _order(graph, root)))
    return _table(graph, [adaptive, escape], classes=2, fixed_vcs=(1, adaptive_vcs))


def distances(graph: Wired) -> Int32Array:
    """int32[routers, homes]: links on a shortest way from a router to each router with an NPU; FAR without one."""
    homes = np.unique(graph.home)
    away = np.full((graph.routers, len(homes)), FAR, np.int32)
    away[homes, np.arange(len(homes))] = 0
    # A search in breadth for all homes at once, one bit for each.
    padded = np.zeros((graph.routers, -(-len(homes) // 64) * 64), np.bool_)
    padded[homes, np.arange(len(homes))] = True
    front = np.packbits(padded, axis=1).view(np.uint64)
    left = ~front
    by_src = np.argsort(graph.src, kind="stable")
    src, dst = graph.src[by_src], graph.dst[by_src]
    begins = np.flatnonzero(np.diff(src, prepend=-1))
    hops = 0
    while len(src) and front.any():
        hops += 1
        reached = np.zeros_like(front)
        reached[src[begins]] = np.bitwise_or.reduceat(front[dst], begins, axis=0)
        front = reached & left
        left &= ~front
        away[np.unpackbits(front.view(np.uint8), axis=1)[:, : len(homes)].view(np.bool_)] = hops
    return away


def _nearer(graph: Wired, away: Int32Array) -> BoolArray:
    """bool[links, homes]: links that begin a shortest way."""
    flags: BoolArray = away[graph.dst] == away[graph.src] - 1
    return flags


def _order(graph: Wired, root: int) -> AnyIntArray:
    """int64[routers]: links up lead to lower numbers; from number 0, the root, links down lead to all."""
    _check_pairs(graph)
    hops = distances(Graph(graph.routers, np.arange(graph.routers, dtype=np.int32), graph.src, graph.dst, graph.name))
    if root == -1:
        root = int(np.argmin(hops.max(axis=0, initial=0)))
    if not 0 <= root < graph.routers:
        raise InputError(
            f"there is no router {root}",
            key=f"{ROUTING}_options.root",
            allowed=f"0 to {graph.routers - 1}, or -1 for one in the middle",
        )
    order = np.empty(graph.routers, np.int64)
    order[np.lexsort((np.arange(graph.routers), hops[:, root]))] = np.arange(graph.routers)
    return order


def _ordered_ways(graph: Wired, order: AnyIntArray) -> BoolArray:
    """bool[links, homes]: the links that a packet may take, up and then down in an order of the routers."""
    homes = np.unique(graph.home)
    down = np.full((graph.routers, len(homes)), FAR, np.int32)  # links of the shortest way down
    down[homes, np.arange(len(homes))] = 0
    goes_down = order[graph.dst] > order[graph.src]
    by_src = np.argsort(graph.src, kind="stable")
    begins = np.searchsorted(graph.src[by_src], np.arange(graph.routers + 1))
    sequence = np.argsort(order, kind="stable").tolist()
    own = [by_src[begins[router] : begins[router + 1]] for router in range(graph.routers)]
    for router in reversed(sequence):
        lower = graph.dst[own[router][goes_down[own[router]]]]
        if len(lower):
            down[router] = np.minimum(down[router], down[lower].min(axis=0) + 1)
    whole = down.copy()  # of the whole way: where there is none down, up first
    climbs = down >= FAR
    for router in sequence:
        upper = graph.dst[own[router][~goes_down[own[router]]]]
        if len(upper):
            whole[router] = np.where(climbs[router], whole[upper].min(axis=0) + 1, whole[router])
    _check_reached(graph, whole, "there is no way up and then down")
    falls = goes_down[:, None] & (down[graph.dst] == down[graph.src] - 1) & ~climbs[graph.src]
    rises = ~goes_down[:, None] & (whole[graph.dst] == whole[graph.src] - 1) & climbs[graph.src]
    ways: BoolArray = falls | rises
    return ways


def _plane(
    graph: Wired,
    allowed: BoolArray,
    vc_class: int = 0,
    *,
    select: Select = "random",
    seed: int = 0,
    escape: int = -1,
    sticky: int = 0,
    equal: int = 0,
) -> Plane:
    """A packet at a router takes one of its links with allowed[link, home]; with an escape, any that is free."""
    if select not in SELECT:
        key = f"{ROUTING}_options.select"
        raise InputError(f"unknown choice '{select}'", key=key, allowed=list(SELECT), given=select)
    homes = np.unique(graph.home)
    goal, link = np.nonzero(allowed.T)
    entry = graph.src[link].astype(np.int64) * len(homes) + goal
    own = np.full((graph.routers, 1), ALWAYS, np.int32)
    own[homes, 0] = np.arange(len(homes))
    offset = np.arange(graph.routers, dtype=np.int64)[:, None] * len(homes)
    count = np.bincount(entry, minlength=graph.routers * len(homes))
    order = np.argsort(entry, kind="stable")
    if select == "hash":
        order = order[np.lexsort((_hashed(link[order] * len(homes) + goal[order], seed), entry[order]))]
    if select in ("first", "hash"):
        order = order[np.flatnonzero(np.diff(entry[order], prepend=-1))]
        count = np.minimum(count, 1)
    return Plane(
        own=own,
        offset=offset,
        start=np.concatenate([np.zeros(1, np.int64), np.cumsum(count)]),
        link=link[order].astype(np.int32),
        vc_class=np.full(len(order), vc_class, np.int32),
        select=EACH if escape >= 0 else SELECT[select],
        escape=escape,
        sticky=sticky,
        equal=equal,
    )


def _table(graph: Wired, planes: Sequence[Plane], *, classes: int = 1, fixed_vcs: tuple[int, ...] = ()) -> Relation:
    """A relation whose only digit is the number of a router among those with an NPU."""
    homes = np.unique(graph.home)
    empty = Relation(
        npus=len(graph.home),
        routers=graph.routers,
        planes=len(planes),
        digits=np.searchsorted(homes, graph.home).astype(np.int32)[:, None],
        own=np.zeros((0, 1), np.int32),
        offset=np.zeros((0, 1), np.int64),
        link=np.zeros(0, np.int32),
        vc_class=np.zeros(0, np.int32),
        link_src=np.asarray(graph.src, np.int32),
        link_dst=np.asarray(graph.dst, np.int32),
        link_classes=np.full(len(graph.src), classes, np.int32),
        link_group=np.full(len(graph.src), -1, np.int32),
        link_name=graph.name,
        home=np.asarray(graph.home, np.int32),
        ways=(Way(0),),
        fixed_vcs=fixed_vcs or (0,) * classes,
    )
    return rebuilt(empty, planes)


def _check_pairs(graph: Wired) -> None:
    """Every link must have one back: in a network without, what is above for one may not be below for the other."""
    there = graph.src.astype(np.int64) * graph.routers + graph.dst
    back = graph.dst.astype(np.int64) * graph.routers + graph.src
    alone = np.flatnonzero(~np.isin(there, back))
    if len(alone):
        raise InputError(
            f"up-down needs links in both directions; {graph.name[int(alone[0])]} has none back", key=ROUTING
        )


def _check_reached(graph: Wired, away: Int32Array, why: str) -> None:
    homes = np.unique(graph.home)
    lost = np.argwhere(away[homes] >= FAR)
    if len(lost):
        src, dst = (int(np.flatnonzero(graph.home == homes[i])[0]) for i in lost[0])
        raise UnreachableError(f"NPU {src} cannot reach NPU {dst}: {why}")


def _hashed(numbers: IntArray, seed: int) -> NDArray[np.uint64]:
    """The numbers, mixed: as good as drawn, and the same each time (splitmix64, Steele and others 2014)."""
    x = numbers.astype(np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed
