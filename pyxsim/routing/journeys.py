"""The walks that a proof must explore: of all packets or of some pairs, dimension by dimension where that is enough.

Packets that go over a via turn there from one plane to another. Where they do, the walks on the first plane and those
on the last one meet in a *join*: whoever arrives at one of them may hold what it came by and ask for what leaves it.
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
class Meeting:
    """Where walks end or begin in joins: walk w at router r in those of number

    base + r                          if all packets of a router may meet there; else
    base + r * npus + goals[i]        for i from first[w] to first[w + 1]: destinations are distinct
    """

    base: int
    npus: int = 0
    first: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    goals: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))

    def joins(self, walk: IntArray, router: IntArray) -> tuple[IntArray, IntArray]:
        """(place in the arrays given, join)."""
        if not self.npus:
            return np.arange(len(walk)), self.base + router
        count = self.first[walk + 1] - self.first[walk]
        who = np.repeat(np.arange(len(walk)), count)
        return who, self.base + router[who] * self.npus + self.goals[ranges(self.first[walk], count)]


@dataclass(frozen=True, eq=False)
class Journey:
    """Walks, and the joins into which they lead (`ends`) and out of which they come (`begins`).

    npu   int64[walks]   the NPU that each is for; -1 in a dimension
    """

    walks: Walks
    npu: IntArray
    ends: tuple[Meeting, ...] = ()
    begins: tuple[Meeting, ...] = ()

    @property
    def by_dimension(self) -> bool:
        return self.walks.home is None


@dataclass(frozen=True, eq=False)
class Journeys:
    """All of them, and how many joins there are.

    exact       no join is used by packets that cannot exist
    everything  all NPUs send to all others on all planes
    """

    all: list[Journey]
    joins: int
    exact: bool
    everything: bool = False


def journeys(relation: Relation, pairs: Pairs | None, *, exact: bool = False) -> Journeys:
    """What the pairs make necessary: see `dependencies`. `exact`: distinguish packets by source and destination."""
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
    """The pairs as distinct rows (source, destination, plane), plane -1 for those that choose a way."""
    table = np.asarray(pairs if isinstance(pairs, np.ndarray) else list(pairs))  # type: ignore[arg-type]
    if not table.size:
        return np.zeros((0, 3), np.int64)
    if table.ndim != 2 or table.shape[1] not in (2, 3) or table.dtype.kind not in "iu":
        raise InputError("pairs for the deadlock proof are rows (source, destination) or (source, destination, plane)")
    table = table.astype(np.int64)
    limits = (relation.npus, relation.npus, relation.planes)[: table.shape[1]]
    if (table < (0, 0, -1)[: table.shape[1]]).any() or (table >= limits).any():
        raise InputError(
            "a pair for the deadlock proof is outside of the network",
            allowed=f"NPUs 0 to {relation.npus - 1}, planes 0 to {relation.planes - 1}, or -1 for the ways",
        )
    if table.shape[1] == 2:
        # On every plane and on every way.
        planes = np.arange(-1, relation.planes)
        table = np.column_stack([np.repeat(table, len(planes), axis=0), np.tile(planes, len(table))])
    code = (table[:, 2] + 1) * relation.npus**2 + table[:, 0] * relation.npus + table[:, 1]
    plane, pair = np.divmod(distinct(code), relation.npus**2)
    return np.column_stack([pair // relation.npus, pair % relation.npus, plane - 1])


def check_routes(relation: Relation, *, circles: bool = False) -> None:
    """Raise UnreachableError where a pair has no route, or, if requested, one that may be a cycle."""
    for journey in journeys(relation, None).all:
        for _ in explored(Explorer(relation, escapes=True, compact=True), journey):
            pass
        if circles:
            check_circles(relation, journey)


def check_circles(relation: Relation, journey: Journey) -> None:
    """Raise UnreachableError if a packet of the journey may come to a router again as it was there before."""
    explorer = Explorer(relation, escapes=True, compact=True)
    src, dst, walk = ([np.zeros(0, np.int64)] for _ in range(3))
    starts: list[tuple[IntArray, IntArray, IntArray]] = []
    for moves in explored(explorer, journey):
        src.append(moves.node[moves.who])
        dst.append(moves.after)
        walk.append(moves.walk[moves.who])
        starts.append((moves.walk[moves.start], moves.router[moves.start], moves.node[moves.start]))
    edges = np.concatenate(src), np.concatenate(dst)
    left = behind_cycles(*edges, explorer.count)
    inside = left[edges[0]] & left[edges[1]]
    if not inside.any():
        return
    round_ = one_cycle(edges[0][inside], edges[1][inside])
    walks = np.concatenate(walk)
    lost = int(walks[np.flatnonzero(edges[0] == round_[0])[0]])
    mine = walks == lost
    follow: dict[int, list[int]] = {}
    for a, b in zip(edges[0][mine].tolist(), edges[1][mine].tolist(), strict=True):
        follow.setdefault(a, []).append(b)
    begins = [
        (router, node)
        for group in starts
        for other, router, node in zip(*(part.tolist() for part in group), strict=True)
        if other == lost
    ]
    router = next(router for router, node in sorted(begins) if _reaches(follow, node, set(round_)))
    src_npu, dst_npu = _ends(relation, journey, lost, router)
    why = "the route goes round in a circle"
    raise UnreachableError(f"plane {journey.walks.plane}: NPU {src_npu} cannot reach NPU {dst_npu}: {why}")


def explored(explorer: Explorer, journey: Journey) -> Iterator[Moves]:
    """The moves of a journey. Raises UnreachableError where a packet has nowhere to go."""
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
    """Nodes that stay when nodes without predecessors are taken away again and again (Kahn, 1962), level by level."""
    order = np.argsort(src, kind="stable")
    successors = dst[order]
    degree = np.bincount(src, minlength=size)
    first = np.cumsum(degree) - degree
    waits = np.bincount(dst, minlength=size)
    left = np.ones(size, np.bool_)
    front = np.flatnonzero(waits == 0)
    while len(front):
        left[front] = False
        reached = np.sort(successors[ranges(first[front], degree[front])])
        place = np.flatnonzero(np.diff(reached, prepend=-1))
        reached, times = reached[place], np.diff(place, append=len(reached))
        waits[reached] -= times
        front = reached[waits[reached] == 0]
    return left


def one_cycle(src: IntArray, dst: IntArray) -> list[int]:
    """Nodes of one cycle, in order. Every node given must have a predecessor that is given too."""
    # Going back must come round. The first predecessor is of the lowest dimension, so the cycle found is one of a
    # single ring where there is one.
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
    found: list[Journey] = []
    npus = np.arange(relation.npus, dtype=np.int64)
    routers = np.unique(relation.home).astype(np.int64)
    targets = _Targets(relation, npus)
    for plane in range(relation.planes):
        ends = tuple(Meeting(i * relation.routers) for i, way in enumerate(ways) if way.first == plane)
        begins = tuple(Meeting(i * relation.routers) for i, way in enumerate(ways) if way.last == plane)
        simple = relation.plane_select[plane] != EACH and not relation.plane_any[plane]
        # A packet turns once: those that have turned and those that will are apart, where a plane serves both.
        for leads, comes in [(ends, ()), ((), begins)] if ends and begins else [(ends, begins)]:
            if relation.separable and simple:
                found += _by_dimension(relation, plane, leads, comes)
                continue
            walk = np.repeat(np.arange(targets.count), len(routers))
            walks = targets.walks(plane, walk, np.tile(routers, targets.count))
            found.append(Journey(walks, targets.npu, leads, comes))
    return Journeys(found, len(ways) * relation.routers, exact, everything=True)


def _by_dimension(
    relation: Relation, plane: int, ends: tuple[Meeting, ...], begins: tuple[Meeting, ...]
) -> Iterator[Journey]:
    """In a separable relation the walk in dimension i from a router to a digit is the same for every pair that comes
    there with the digits before i corrected. That makes npus * sum(n_i) walks instead of npus ** 2."""
    for dim in range(relation.digits.shape[1]):
        size = int(relation.digits[:, dim].max(initial=0)) + 1
        own = relation.own[plane * relation.routers + relation.home, dim]
        starts = relation.home[(own != ALWAYS) & (own != SKIP)].astype(np.int64)
        digits = np.arange(size, dtype=np.int32)[:, None]
        walk = np.repeat(np.arange(size), len(starts))
        walks = Walks(plane, (dim,), digits, None, walk, np.tile(starts, size))
        yield Journey(walks, np.full(size, -1), ends, begins)


def _given(relation: Relation, rows: IntArray, exact: bool) -> Journeys:
    """Rows (source, destination, plane)."""
    npus = relation.npus
    targets = _Targets(relation, np.arange(npus))
    direct = rows[rows[:, 2] >= 0]
    open_ = rows[rows[:, 2] == -1]
    straight = {way.last for way in relation.ways if way.via == "none"}
    direct = np.concatenate([direct, *(np.column_stack([open_[:, :2], np.full(len(open_), p)]) for p in straight)])
    found = [
        Journey(targets.walks(plane, targets.number[part[:, 1]], relation.home[part[:, 0]]), targets.npu)
        for plane in np.unique(direct[:, 2]).tolist()
        for part in [direct[direct[:, 2] == plane]]
    ]
    ways = [way for way in relation.ways if way.via != "none"] if len(open_) else []
    if not exact:
        sources, goals = np.unique(open_[:, 0]), np.unique(open_[:, 1])
        for i, way in enumerate(ways):
            meeting = (Meeting(i * relation.routers),)
            src = relation.home[np.tile(sources, targets.count)]
            walks = targets.walks(way.first, np.repeat(np.arange(targets.count), len(sources)), src)
            found.append(Journey(walks, targets.npu, ends=meeting))
            goal = np.unique(targets.number[goals])
            homes = np.unique(relation.home)
            walks = targets.walks(way.last, np.repeat(goal, len(homes)), np.tile(homes, len(goal)))
            found.append(Journey(walks, targets.npu, begins=meeting))
        return Journeys(found, len(ways) * relation.routers, not ways)
    size = relation.routers * npus
    for i, way in enumerate(ways):
        src, via, dst = _triples(relation, open_, way.via)
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
            relation.home[pair // npus].astype(np.int64),
        )
        found.append(Journey(walks, pair % npus, ends=(Meeting(i * size, npus, first, dst[order]),)))
        each = np.arange(npus, dtype=np.int64)
        pair = np.unique(dst * relation.routers + relation.home[via])
        walks = Walks(
            way.last,
            range(relation.digits.shape[1]),
            relation.digits,
            relation.home,
            pair // relation.routers,
            pair % relation.routers,
        )
        found.append(Journey(walks, each, begins=(Meeting(i * size, npus, np.arange(npus + 1), each),)))
    return Journeys(found, len(ways) * size, True)


def _triples(relation: Relation, rows: IntArray, via: str) -> tuple[IntArray, IntArray, IntArray]:
    """(source, via, destination) of everything that packets without a plane may do."""
    src = np.repeat(rows[:, 0], relation.npus)
    dst = np.repeat(rows[:, 1], relation.npus)
    between = np.tile(np.arange(relation.npus), len(rows))
    if via == "any":
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
    """NPUs as targets; those with the same digits and the same router are one."""

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
    """A source and a destination for a walk from a router."""
    src = int(np.flatnonzero(relation.home == router)[0])
    if not journey.by_dimension:
        return src, int(journey.npu[walk])
    # Single digits: the destination meant is the source with that digit exchanged.
    wanted = relation.digits[src].copy()
    wanted[list(journey.walks.dims)] = journey.walks.digits[walk]
    return src, int(np.flatnonzero((relation.digits == wanted).all(axis=1))[0])


def _reaches(follow: dict[int, list[int]], begin: int, goals: set[int]) -> bool:
    seen, front = {begin}, [begin]
    while front:
        if goals & seen:
            return True
        front = [b for a in front for b in follow.get(a, ()) if b not in seen]
        seen.update(front)
    return bool(goals & seen)


def _passes(relation: Relation, walks: Walks, walk: int, begin: int, router: int) -> bool:
    """Whether a packet of a walk that starts at `begin` may come to a router, on its plane or an escape."""
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
