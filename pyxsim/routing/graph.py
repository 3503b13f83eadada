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

FAR = np.iinfo(np.int32).max // 2  # the distance where no path exists


class Wired(Protocol):
    """A network without its routes: number of routers, router of each NPU, ends and name of each link."""

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
    """A `Wired` network of its own, for tests and for graphs without a topology."""

    routers: int
    home: Int32Array
    src: Int32Array
    dst: Int32Array
    name: Sequence[str]

    @classmethod
    def of(cls, links: ArrayLike, home: ArrayLike | None = None, names: Sequence[str] | None = None) -> Graph:
        """Make a graph from rows (router, router), one for each direction. Default: NPU i is at router i."""
        ends = np.asarray(links, np.int32).reshape(-1, 2)
        routers = int(ends.max(initial=-1)) + 1
        at = np.arange(routers, dtype=np.int32) if home is None else np.asarray(home, np.int32)
        routers = max(routers, int(at.max(initial=-1)) + 1)
        link_names = names if names is not None else [f"({a})->({b})" for a, b in ends.tolist()]
        return cls(routers, at, ends[:, 0].copy(), ends[:, 1].copy(), link_names)


def shortest(graph: Wired, select: Select = "random") -> Relation:
    """All shortest paths: at each hop, one of the links that begin one. They may deadlock; see `prove`."""
    distance = distances(graph)
    _check_reached(graph, distance, "no path")
    return _table(graph, [_plane(graph, _nearer(graph, distance), select=select)])


def up_down(graph: Wired, root: int = -1, select: Select = "random") -> Relation:
    """Each packet takes links up toward a root, then links down (up*/down*: Autonet 1991).

    A link is up if it leads nearer to the root, or to a router of equal distance with a lower number. No packet takes
    a link up after one down, so no cycle exists and no VC classes are needed. The next hop does not depend on the
    previous one: a packet takes the shortest path down where one exists, else a link up that begins the shortest
    legal path.

    Parameters
    ----------
    graph
        The network; every link must have one in the opposite direction.
    root
        A router; -1: the center of the graph, the router with the smallest maximal distance and the lowest number.
    select
        How one of several such links is chosen; "first" makes the routes deterministic.
    """
    order = _order(graph, root)
    return _table(graph, [_plane(graph, _up_then_down(graph, order), select=select)], ranks=order)


def nca(
    graph: Wired, level: ArrayLike, select: Select = "random", seed: int = 0, only_first_up: bool = False
) -> Relation:
    """Each packet goes up to the nearest common ancestor in a tree of switches, then down (Leiserson 1985).

    A packet takes links up until its destination is below it, then the path down.

    Parameters
    ----------
    graph
        The network.
    level
        Level of each router, growing upward; links connect different levels.
    select
        How a link up is chosen: "random"; "two", the less used of two random ones; "hash", at each switch always the
        same link for a destination, drawn once with `seed` (ECMP).
    only_first_up
        Whether packets take only the first link up of a switch, as in BookSim2's tree4; links down are still chosen.
    """
    height = np.asarray(level, np.int64)
    flat = np.flatnonzero(height[graph.src] == height[graph.dst])
    if len(flat):
        raise InputError(f"not a tree: link {graph.name[int(flat[0])]} connects two routers of one level", key=ROUTING)
    # Links up lead to lower numbers of the order, as in up_down.
    order = np.empty(graph.routers, np.int64)
    order[np.lexsort((np.arange(graph.routers), -height))] = np.arange(graph.routers)
    allowed = _up_then_down(graph, order)
    if only_first_up:
        up = np.flatnonzero(height[graph.dst] > height[graph.src])
        first = up[np.unique(graph.src[up], return_index=True)[1]]
        allowed[np.setdiff1d(up, first)] = False
    return _table(graph, [_plane(graph, allowed, select=select, seed=seed)], ranks=order)


def adaptive_up_down(
    graph: Wired, root: int = -1, adaptive_vcs: int = 0, sticky: bool = True, equal: bool = False
) -> Relation:
    """Adaptive routing over all shortest paths, with up*/down* as the escape (Silla and Duato 1997).

    Class 0 is the escape, with one VC; class 1 has `adaptive_vcs` VCs, or (0) all others. A packet that takes the
    escape stays there (`sticky`): if it could go up again after going down, cycles would be possible.
    """
    distance = distances(graph)
    _check_reached(graph, distance, "no path")
    adaptive = _plane(graph, _nearer(graph, distance), vc_class=1, escape=1, sticky=int(sticky), equal=int(equal))
    order = _order(graph, root)
    escape = _plane(graph, _up_then_down(graph, order))
    return _table(graph, [adaptive, escape], classes=2, fixed_vcs=(1, adaptive_vcs), ranks=order)


def by_links(graph: Wired, allowed: BoolArray, select: Select, vc_class: int = 0, classes: int = 1) -> Relation:
    """Return the relation in which a packet takes one of the links with allowed[link, home]; some homes may have none.

    Parameters
    ----------
    graph
        The network.
    allowed
        bool[links, homes].
    select
        How one of several links is chosen.
    vc_class, classes
        The VC class on all links, and their number.
    """
    return _table(graph, [_plane(graph, allowed, vc_class, select=select)], classes=classes)


def distances(graph: Wired) -> Int32Array:
    """Return int32[routers, homes]: links of a shortest path from a router to each router with an NPU, else FAR."""
    homes = np.unique(graph.home)
    distance = np.full((graph.routers, len(homes)), FAR, np.int32)
    distance[homes, np.arange(len(homes))] = 0
    # A breadth-first search from all homes at once, one bit for each.
    padded = np.zeros((graph.routers, -(-len(homes) // 64) * 64), np.bool_)
    padded[homes, np.arange(len(homes))] = True
    front = np.packbits(padded, axis=1).view(np.uint64)
    unreached = ~front
    by_src = np.argsort(graph.src, kind="stable")
    src, dst = graph.src[by_src], graph.dst[by_src]
    begins = np.flatnonzero(np.diff(src, prepend=-1))
    hops = 0
    while len(src) and front.any():
        hops += 1
        reached = np.zeros_like(front)
        reached[src[begins]] = np.bitwise_or.reduceat(front[dst], begins, axis=0)
        front = reached & unreached
        unreached &= ~front
        distance[np.unpackbits(front.view(np.uint8), axis=1)[:, : len(homes)].view(np.bool_)] = hops
    return distance


def _nearer(graph: Wired, distance: Int32Array) -> BoolArray:
    """bool[links, homes]: links that begin a shortest path."""
    flags: BoolArray = distance[graph.dst] == distance[graph.src] - 1
    return flags


def _order(graph: Wired, root: int) -> AnyIntArray:
    """int64[routers]: rank of each router, 0 for the root; links up lead to lower ranks."""
    _check_pairs(graph)
    hops = distances(Graph(graph.routers, np.arange(graph.routers, dtype=np.int32), graph.src, graph.dst, graph.name))
    if root == -1:
        root = int(np.argmin(hops.max(axis=0, initial=0)))
    if not 0 <= root < graph.routers:
        raise InputError(
            f"unknown router {root}",
            key=f"{ROUTING}_options.root",
            allowed=f"0 to {graph.routers - 1}, or -1 for the center",
        )
    order = np.empty(graph.routers, np.int64)
    order[np.lexsort((np.arange(graph.routers), hops[:, root]))] = np.arange(graph.routers)
    return order


def _up_then_down(graph: Wired, order: AnyIntArray) -> BoolArray:
    """bool[links, homes]: the links that a packet may take, first up, then down, by the ranks of the routers."""
    allowed, hops = legal_paths(graph, order)
    _check_reached(graph, hops, "no path leads up and then down")
    return allowed


def legal_paths(graph: Wired, order: AnyIntArray) -> tuple[BoolArray, Int32Array]:
    """Return the shortest paths that lead up and then down, by the ranks of the routers.

    A packet takes the shortest path down where one exists, else a link up that begins the shortest legal path.

    Parameters
    ----------
    graph
        The network.
    order
        int[routers]: links up lead to lower ranks.

    Returns
    -------
    allowed, hops
        bool[links, homes], the links that a packet may take; int32[routers, homes], the links of its path, or FAR.
    """
    homes = np.unique(graph.home)
    down = np.full((graph.routers, len(homes)), FAR, np.int32)  # links of the shortest path down
    down[homes, np.arange(len(homes))] = 0
    goes_down = order[graph.dst] > order[graph.src]
    by_src = np.argsort(graph.src, kind="stable")
    begins = np.searchsorted(graph.src[by_src], np.arange(graph.routers + 1))
    sequence = np.argsort(order, kind="stable").tolist()
    out_links = [by_src[begins[router] : begins[router + 1]] for router in range(graph.routers)]
    for router in reversed(sequence):
        lower = graph.dst[out_links[router][goes_down[out_links[router]]]]
        if len(lower):
            down[router] = np.minimum(down[router], down[lower].min(axis=0) + 1)
    up_and_down = down.copy()  # links of the shortest path; up first where none leads down
    climbs = down >= FAR
    for router in sequence:
        upper = graph.dst[out_links[router][~goes_down[out_links[router]]]]
        if len(upper):
            up_and_down[router] = np.where(climbs[router], up_and_down[upper].min(axis=0) + 1, up_and_down[router])
    hops = np.minimum(up_and_down, FAR)
    falls = goes_down[:, None] & (down[graph.dst] == down[graph.src] - 1) & ~climbs[graph.src]
    rises = ~goes_down[:, None] & (hops[graph.dst] == hops[graph.src] - 1) & climbs[graph.src]
    allowed: BoolArray = (falls | rises) & (hops[graph.src] < FAR)
    return allowed, hops


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
    """The plane on which a packet takes one of the links with allowed[link, home]; with an escape, any free one."""
    if select not in SELECT:
        key = f"{ROUTING}_options.select"
        raise InputError(f"unknown choice '{select}'", key=key, allowed=list(SELECT), given=select)
    homes = np.unique(graph.home)
    goal, link = np.nonzero(allowed.T)
    entry = graph.src[link].astype(np.int64) * len(homes) + goal
    own_digit = np.full((graph.routers, 1), ALWAYS, np.int32)
    own_digit[homes, 0] = np.arange(len(homes))
    offset = np.arange(graph.routers, dtype=np.int64)[:, None] * len(homes)
    count = np.bincount(entry, minlength=graph.routers * len(homes))
    order = np.argsort(entry, kind="stable")
    if select == "hash":
        order = order[np.lexsort((_hashed(link[order] * len(homes) + goal[order], seed), entry[order]))]
    if select in ("first", "hash"):
        order = order[np.flatnonzero(np.diff(entry[order], prepend=-1))]
        count = np.minimum(count, 1)
    return Plane(
        own=own_digit,
        offset=offset,
        start=np.concatenate([np.zeros(1, np.int64), np.cumsum(count)]),
        link=link[order].astype(np.int32),
        vc_class=np.full(len(order), vc_class, np.int32),
        select=EACH if escape >= 0 else SELECT[select],
        escape=escape,
        sticky=sticky,
        equal=equal,
    )


def _table(
    graph: Wired,
    planes: Sequence[Plane],
    *,
    classes: int = 1,
    fixed_vcs: tuple[int, ...] = (),
    ranks: AnyIntArray | None = None,
) -> Relation:
    """A relation with one digit: the index of a router among those with an NPU."""
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
        ranks=np.zeros(0, np.int32) if ranks is None else ranks.astype(np.int32),
    )
    return rebuilt(empty, planes)


def _check_pairs(graph: Wired) -> None:
    """Refuse a link without one in the opposite direction: up and down would not be opposites."""
    forward = graph.src.astype(np.int64) * graph.routers + graph.dst
    backward = graph.dst.astype(np.int64) * graph.routers + graph.src
    alone = np.flatnonzero(~np.isin(forward, backward))
    if len(alone):
        name = graph.name[int(alone[0])]
        raise InputError(f"up-down requires links in both directions; {name} has no opposite link", key=ROUTING)


def _check_reached(graph: Wired, distance: Int32Array, why: str) -> None:
    homes = np.unique(graph.home)
    lost = np.argwhere(distance[homes] >= FAR)
    if len(lost):
        src, dst = (int(np.flatnonzero(graph.home == homes[i])[0]) for i in lost[0])
        raise UnreachableError(f"NPU {src} cannot reach NPU {dst}: {why}")


def _hashed(numbers: IntArray, seed: int) -> NDArray[np.uint64]:
    """Hashes of the numbers, the same in every run (SplitMix64, Steele and others 2014)."""
    x = numbers.astype(np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed
