"""The walks that a proof explores: of all packets or of given pairs, dimension by dimension where that suffices.

At its via a packet changes from its first plane to its last. There, walks on the first plane and walks on the last
plane are connected by a *join*: a packet that arrives at it may hold its incoming channel and request an outgoing one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from pyxsim.arrays import Int32Array, IntArray
from pyxsim.errors import InputError, UnreachableError
from pyxsim.routing.explore import Explorer, Lost, Moves, Walks, decide
from pyxsim.routing.planes import distinct, ranges
from pyxsim.routing.relation import ALWAYS, EACH, SKIP, Relation

Pairs = ArrayLike | Iterable[Sequence[int]]

MAX_JOINS = 1 << 22  # distinct (source, via, destination)


@dataclass(frozen=True, eq=False)
class Joins:
    """The joins in which walks end or begin. For walk w at router r their numbers are

    base + r                      if all packets of a router share a join (`npus` is 0), else
    base + r * npus + goals[i]    for i from first[w] to first[w + 1], one join per destination.
    """

    base: int
    npus: int = 0
    first: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    goals: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def joins(self, walk: IntArray, router: IntArray) -> tuple[IntArray, IntArray]:
        """Return (index into `walk`, join)."""
        if not self.npus:
            return np.arange(len(walk)), self.base + router
        count = self.first[walk + 1] - self.first[walk]
        who = np.repeat(np.arange(len(walk)), count)
        return who, self.base + router[who] * self.npus + self.goals[ranges(self.first[walk], count)]


@dataclass(frozen=True, eq=False)
class Journey:
    """Walks with the joins in which they end (`ends`) or begin (`begins`).

    `npu` is int64[walks], the destination of each walk; -1 for a walk in one dimension.
    """

    walks: Walks
    npu: IntArray
    ends: tuple[Joins, ...] = ()
    begins: tuple[Joins, ...] = ()

    @property
    def by_dimension(self) -> bool:
        """Whether walks have digits as targets, not NPUs."""
        return self.walks.home is None


@dataclass(frozen=True, eq=False)
class Journeys:
    """All journeys of a proof, and the number of joins.

    Attributes
    ----------
    all
        The journeys.
    joins
        Number of joins.
    exact
        Whether no join connects walks of packets that cannot exist.
    everything
        Whether all NPUs send to all others on all planes.
    """

    all: list[Journey]
    joins: int
    exact: bool
    everything: bool = False


def journeys(relation: Relation, pairs: Pairs | None, *, exact: bool = False) -> Journeys:
    """Return the journeys of the pairs (see `dependencies`); `exact`: distinguish packets by source and destination."""
    ways = [way for way in relation.ways if way.via != "none"]
    boxes = any(way.via == "box" for way in ways)
    if pairs is None and not (exact and boxes):
        return _everything(relation, not boxes)
    if pairs is None:
        rows = np.indices((relation.npus, relation.npus, relation.planes + 1), np.int64).reshape(3, -1).T
        rows[:, 2] -= 1
    else:
        rows = checked(relation, pairs)
    return _given(relation, rows, exact)


def checked(relation: Relation, pairs: Pairs) -> IntArray:
    """Return the pairs as distinct rows (source, destination, plane), plane -1 for those that choose a route option."""
    table = np.asarray(pairs if isinstance(pairs, np.ndarray) else list(pairs))  # type: ignore[arg-type]
    if not table.size:
        return np.zeros((0, 3), np.int64)
    if table.ndim != 2 or table.shape[1] not in (2, 3) or table.dtype.kind not in "iu":
        raise InputError("pairs for the deadlock proof must be rows (source, destination[, plane])")
    table = table.astype(np.int64)
    limits = (relation.npus, relation.npus, relation.planes)[: table.shape[1]]
    if (table < (0, 0, -1)[: table.shape[1]]).any() or (table >= limits).any():
        raise InputError(
            "a pair for the deadlock proof is outside the network",
            allowed=f"NPUs 0 to {relation.npus - 1}, planes 0 to {relation.planes - 1}, or -1 for the route options",
        )
    if table.shape[1] == 2:
        # On every plane and every route option.
        planes = np.arange(-1, relation.planes)
        table = np.column_stack([np.repeat(table, len(planes), axis=0), np.tile(planes, len(table))])
    code = (table[:, 2] + 1) * relation.npus**2 + table[:, 0] * relation.npus + table[:, 1]
    plane, pair = np.divmod(distinct(code), relation.npus**2)
    return np.column_stack([pair // relation.npus, pair % relation.npus, plane - 1])


def check_routes(relation: Relation, *, cycles: bool = False) -> None:
    """Raise UnreachableError if a pair has no route or, with `cycles`, a route that may never end."""
    for journey in journeys(relation, None).all:
        for _ in explored(Explorer(relation, escapes=True, compact=True), journey):
            pass
        if cycles:
            check_cycles(relation, journey)


def check_cycles(relation: Relation, journey: Journey) -> None:
    """Raise UnreachableError if a packet of the journey may reach the same state twice."""
    explorer = Explorer(relation, escapes=True, compact=True)
    src, dst, walk = ([np.zeros(0, np.int64)] for _ in range(3))
    starts: list[tuple[IntArray, IntArray, IntArray]] = []
    for moves in explored(explorer, journey):
        src.append(moves.node[moves.who])
        dst.append(moves.after)
        walk.append(moves.walk[moves.who])
        starts.append((moves.walk[moves.start], moves.router[moves.start], moves.node[moves.start]))
    edges = np.concatenate(src), np.concatenate(dst)
    behind = behind_cycles(*edges, explorer.count)
    inside = behind[edges[0]] & behind[edges[1]]
    if not inside.any():
        return
    cycle = one_cycle(edges[0][inside], edges[1][inside])
    walks = np.concatenate(walk)
    cyclic_walk = int(walks[np.flatnonzero(edges[0] == cycle[0])[0]])
    of_walk = walks == cyclic_walk
    follow: dict[int, list[int]] = {}
    for a, b in zip(edges[0][of_walk].tolist(), edges[1][of_walk].tolist(), strict=True):
        follow.setdefault(a, []).append(b)
    begins = [
        (router, node)
        for group in starts
        for start_walk, router, node in zip(*(part.tolist() for part in group), strict=True)
        if start_walk == cyclic_walk
    ]
    router = next(router for router, node in sorted(begins) if _reaches(follow, node, set(cycle)))
    src_npu, dst_npu = _ends(relation, journey, cyclic_walk, router)
    why = "the route contains a cycle"
    raise UnreachableError(f"plane {journey.walks.plane}: NPU {src_npu} cannot reach NPU {dst_npu}: {why}")


def explored(explorer: Explorer, journey: Journey) -> Iterator[Moves]:
    """Yield the moves of a journey. Raises UnreachableError if a packet has no next hop."""
    try:
        yield from explorer(journey.walks)
    except Lost as lost:
        relation, walks = explorer.relation, journey.walks
        starts = walks.start_router[walks.start_walk == lost.walk].tolist()
        router = lost.router
        if router not in starts:
            router = next(r for r in sorted(starts) if _passes(relation, walks, lost.walk, r, lost.router))
        src, dst = _ends(relation, journey, lost.walk, router)
        place = "" if router == lost.router else f" at router {lost.router}"
        raise UnreachableError(f"plane {lost.plane}: NPU {src} cannot reach NPU {dst}: {lost.why}{place}") from None


def behind_cycles(src: IntArray, dst: IntArray, size: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return bool[size]: nodes on a cycle or reachable from one (what remains of Kahn's algorithm, 1962)."""
    order = np.argsort(src, kind="stable")
    successors = dst[order]
    degree = np.bincount(src, minlength=size)
    first = np.cumsum(degree) - degree
    predecessors = np.bincount(dst, minlength=size)
    remaining = np.ones(size, np.bool_)
    front = np.flatnonzero(predecessors == 0)
    while len(front):
        remaining[front] = False
        reached = np.sort(successors[ranges(first[front], degree[front])])
        index = np.flatnonzero(np.diff(reached, prepend=-1))
        reached, times = reached[index], np.diff(index, append=len(reached))
        predecessors[reached] -= times
        front = reached[predecessors[reached] == 0]
    return remaining


def one_cycle(src: IntArray, dst: IntArray) -> list[int]:
    """Return the nodes of one cycle, in order. Every node must have a predecessor."""
    # Following predecessors must return. The first predecessor is of the lowest dimension, so the cycle lies within a
    # single ring where possible.
    back = dict(zip(dst[::-1].tolist(), src[::-1].tolist(), strict=True))
    if not back:
        return []
    seen: dict[int, int] = {}
    at = min(back)
    while at not in seen:
        seen[at] = len(seen)
        at = back[at]
    path = list(seen)[seen[at] :][::-1]
    begin = path.index(min(path))
    return path[begin:] + path[:begin]


def _everything(relation: Relation, exact: bool) -> Journeys:
    """All pairs on all planes, and over all vias."""
    ways = [way for way in relation.ways if way.via != "none"]
    all_journeys: list[Journey] = []
    npus = np.arange(relation.npus, dtype=np.int64)
    routers = np.unique(relation.home if ways else relation.starts).astype(np.int64)
    targets = _Targets(relation, npus)
    for plane in range(relation.planes):
        ends = tuple(Joins(i * relation.routers) for i, way in enumerate(ways) if way.first == plane)
        begins = tuple(Joins(i * relation.routers) for i, way in enumerate(ways) if way.last == plane)
        simple = relation.plane_select[plane] != EACH and not relation.plane_any[plane]
        # A packet reaches its via once: where a plane serves both parts of a route, they are separate journeys.
        for to_via, from_via in [(ends, ()), ((), begins)] if ends and begins else [(ends, begins)]:
            if relation.separable and simple:
                all_journeys += _by_dimension(relation, plane, to_via, from_via)
                continue
            walk = np.repeat(np.arange(targets.count), len(routers))
            walks = targets.walks(plane, walk, np.tile(routers, targets.count))
            all_journeys.append(Journey(walks, targets.npu, to_via, from_via))
    return Journeys(all_journeys, len(ways) * relation.routers, exact, everything=True)


def _by_dimension(
    relation: Relation, plane: int, ends: tuple[Joins, ...], begins: tuple[Joins, ...]
) -> Iterator[Journey]:
    """The journeys of a separable relation, one per dimension.

    The walk in dimension i from a router to a digit is the same for every pair whose digits before i are correct. That
    makes npus * sum(n_i) walks instead of npus ** 2.
    """
    for dim in range(relation.digits.shape[1]):
        size = int(relation.digits[:, dim].max(initial=0)) + 1
        own_digit = relation.own[plane * relation.routers + relation.home, dim]
        starts = relation.home[(own_digit != ALWAYS) & (own_digit != SKIP)].astype(np.int64)
        digits = np.arange(size, dtype=np.int32)[:, None]
        walk = np.repeat(np.arange(size), len(starts))
        walks = Walks(plane, (dim,), digits, None, walk, np.tile(starts, size))
        yield Journey(walks, np.full(size, -1), ends, begins)


def _given(relation: Relation, rows: IntArray, exact: bool) -> Journeys:
    """The journeys of rows (source, destination, plane)."""
    npus = relation.npus
    targets = _Targets(relation, np.arange(npus))
    direct = rows[rows[:, 2] >= 0]
    undecided = rows[rows[:, 2] == -1]
    direct_planes = {way.last for way in relation.ways if way.via == "none"}
    for plane in direct_planes:
        direct = np.concatenate([direct, np.column_stack([undecided[:, :2], np.full(len(undecided), plane)])])
    all_journeys = [
        Journey(targets.walks(plane, targets.number[part[:, 1]], relation.starts[part[:, 0]]), targets.npu)
        for plane in np.unique(direct[:, 2]).tolist()
        for part in [direct[direct[:, 2] == plane]]
    ]
    ways = [way for way in relation.ways if way.via != "none"] if len(undecided) else []
    if not exact:
        sources, goals = np.unique(undecided[:, 0]), np.unique(undecided[:, 1])
        for i, way in enumerate(ways):
            joins = (Joins(i * relation.routers),)
            src = relation.starts[np.tile(sources, targets.count)]
            walks = targets.walks(way.first, np.repeat(np.arange(targets.count), len(sources)), src)
            all_journeys.append(Journey(walks, targets.npu, ends=joins))
            goal = np.unique(targets.number[goals])
            homes = np.unique(relation.home)
            walks = targets.walks(way.last, np.repeat(goal, len(homes)), np.tile(homes, len(goal)))
            all_journeys.append(Journey(walks, targets.npu, begins=joins))
        return Journeys(all_journeys, len(ways) * relation.routers, not ways)
    size = relation.routers * npus
    for i, way in enumerate(ways):
        src, via, dst = _triples(relation, undecided, way.via)
        # A walk for each (source, via), which ends in the joins of its destinations.
        pair, walk = np.unique(src * npus + via, return_inverse=True)
        order = np.argsort(walk, kind="stable")
        first = np.searchsorted(walk[order], np.arange(len(pair) + 1))
        walks = Walks(
            way.first,
            range(relation.digits.shape[1]),
            relation.digits[pair % npus],
            relation.home[pair % npus],
            np.arange(len(pair)),
            relation.starts[pair // npus].astype(np.int64),
        )
        all_journeys.append(Journey(walks, pair % npus, ends=(Joins(i * size, npus, first, dst[order]),)))
        every_npu = np.arange(npus, dtype=np.int64)
        pair = np.unique(dst * relation.routers + relation.home[via])
        walks = Walks(
            way.last,
            range(relation.digits.shape[1]),
            relation.digits,
            relation.home,
            pair // relation.routers,
            pair % relation.routers,
        )
        all_journeys.append(Journey(walks, every_npu, begins=(Joins(i * size, npus, np.arange(npus + 1), every_npu),)))
    return Journeys(all_journeys, len(ways) * size, True)


def _triples(relation: Relation, rows: IntArray, via: str) -> tuple[IntArray, IntArray, IntArray]:
    """(source, via, destination) of all packets that choose a route option."""
    src = np.repeat(rows[:, 0], relation.npus)
    dst = np.repeat(rows[:, 1], relation.npus)
    between = np.tile(np.arange(relation.npus), len(rows))
    if via in ("any", "aligned"):  # a proof for all covers some
        return src, between, dst
    inside = np.ones(len(src), np.bool_)
    digits = relation.digits.astype(np.int64)
    for dim in np.flatnonzero(relation.stride).tolist():
        a, v, b = (digits[npu, dim] for npu in (src, between, dst))
        n = int(relation.wrap[dim])
        if n:
            up, down = (b - a) % n, (a - b) % n
            inside &= np.where(up <= down, (v - a) % n <= up, (a - v) % n <= down)
        else:
            inside &= (np.minimum(a, b) <= v) & (v <= np.maximum(a, b))
    return src[inside], between[inside], dst[inside]


class _Targets:
    """NPUs as targets; NPUs with the same digits and router share one."""

    def __init__(self, relation: Relation, npus: IntArray) -> None:
        table = np.column_stack([relation.digits, relation.home])
        _, self.npu, self.number = np.unique(table, axis=0, return_index=True, return_inverse=True)
        self.number = self.number.reshape(len(npus))
        self.relation = relation
        self.count = len(self.npu)

    def walks(self, plane: int, walk: IntArray, router: Int32Array | IntArray) -> Walks:
        starts = distinct(walk.astype(np.int64) * self.relation.routers + router)
        dims = range(self.relation.digits.shape[1])
        digits, home = self.relation.digits[self.npu], self.relation.home[self.npu]
        return Walks(plane, dims, digits, home, *np.divmod(starts, self.relation.routers))


def _ends(relation: Relation, journey: Journey, walk: int, router: int) -> tuple[int, int]:
    """A source and a destination that use a walk from a router."""
    src = int(np.flatnonzero(relation.home == router)[0])
    if not journey.by_dimension:
        return src, int(journey.npu[walk])
    # A walk in one dimension: the destination has the source's digits except in that dimension.
    dst_digits = relation.digits[src].copy()
    dst_digits[list(journey.walks.dims)] = journey.walks.digits[walk]
    return src, int(np.flatnonzero((relation.digits == dst_digits).all(axis=1))[0])


def _reaches(follow: dict[int, list[int]], begin: int, goals: set[int]) -> bool:
    seen, front = {begin}, [begin]
    while front:
        if goals & seen:
            return True
        front = [b for a in front for b in follow.get(a, ()) if b not in seen]
        seen.update(front)
    return bool(goals & seen)


def _passes(relation: Relation, walks: Walks, walk: int, begin: int, router: int) -> bool:
    """Whether a packet of a walk that starts at `begin` may reach a router, on its plane or an escape."""
    planes = {walks.plane, *relation.plane_escape[walks.plane : walks.plane + 1].tolist()} - {-1}
    seen = {begin}
    front = np.array([begin])
    while len(front) and router not in seen:
        ahead: set[int] = set()
        for plane in planes:
            digits = np.repeat(walks.digits[walk : walk + 1], len(front), axis=0)
            _, link, _, _ = decide(relation, plane, front, digits, walks.dims)
            ahead.update(relation.link_dst[link].tolist())
        front = np.array(sorted(ahead - seen), np.int64)
        seen |= ahead
    return router in seen
