"""The deadlock proof: the channel dependency graph of a routing relation has no cycle.

Dally and Seitz, "Deadlock-free message routing in multiprocessor interconnection networks", IEEE Trans. Computers
C-36(5), 1987: with deterministic routing, packets can never wait for each other in a circle if and only if no cycle
exists among the channels, where a channel (a link and a VC class on it) depends on another when a packet may hold
the first and ask for the second. Injection and ejection lanes are left out: nothing leads into the first, and the
second always drain.

All planes use the same VCs, so their dependencies go into one graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.errors import DeadlockError, InputError
from pyxsim.routing.relation import Ints, Longs, Relation
from pyxsim.routing.walk import Walk, all_walks, check_routes, pair_walks

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN = 8  # channels of a cycle told in one line


@dataclass(frozen=True, eq=False)
class Dependencies:
    """The channel dependency graph as arrays: edge `e` leads from channel `src[e]` to channel `dst[e]`.

    A channel's number is `link * classes + vc_class`.
    """

    relation: Relation
    classes: int
    src: Longs
    dst: Longs

    def channel(self, number: int) -> tuple[int, int]:
        """(link, VC class) of a channel's number."""
        return divmod(number, self.classes)

    def name(self, number: int) -> str:
        """A channel for people: "d0+:(3)->(0) class 1"."""
        link, vc_class = self.channel(number)
        name = self.relation.link_name[link]
        return f"{name} class {vc_class}" if self.relation.link_classes[link] > 1 else name

    def to_networkx(self) -> Any:
        """The same graph as a networkx.DiGraph whose nodes are (link, VC class)."""
        import networkx as nx

        graph = nx.DiGraph()
        edges = zip(self.src.tolist(), self.dst.tolist(), strict=True)
        graph.add_edges_from((self.channel(a), self.channel(b)) for a, b in edges)
        return graph

    def cycle(self) -> list[int]:
        """Channels of one cycle, in order, or nothing."""
        left = _in_cycles_or_behind(self.src, self.dst, self.relation.links * self.classes)
        inside = left[self.src] & left[self.dst]
        # Whatever is left has a predecessor that is left too: going back must come round. The first predecessor is
        # of the lowest dimension, so the cycle found is one of a single ring where there is one.
        back = dict(zip(self.dst[inside][::-1].tolist(), self.src[inside][::-1].tolist(), strict=True))
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


def dependencies(relation: Relation, pairs: ArrayLike | Iterable[Sequence[int]] | None = None) -> Dependencies:
    """Which channel a packet may hold while it asks for which other one.

    `pairs`: rows (source, destination), on every plane, or (source, destination, plane); None: all pairs on all planes.
    Raises UnreachableError when a pair has no route; but a route that goes round in a circle may show as a cycle.
    """
    classes = int(relation.link_classes.max(initial=1))
    channels = relation.links * classes
    edges = [np.zeros(0, np.int64)]
    arrivals: list[Longs] = []  # (row, dimension, channel) of walks in one dimension that are at its end
    starts: list[Longs] = []
    for walk in all_walks(relation, merge=True) if pairs is None else _given_walks(relation, pairs):
        for hop in walk:
            after = hop.link.astype(np.int64) * classes + hop.vc_class
            holds = hop.before >= 0
            before = hop.before[holds].astype(np.int64) * classes + hop.before_class[holds]
            edges.append(np.unique(before * channels + after[holds]))
            if pairs is None and relation.separable and not holds.any():
                starts.append(_ends(walk, walk.src[hop.walker], hop.walker, after))
        if pairs is None and relation.separable:
            moved = np.flatnonzero((walk.link >= 0) & ~walk.merged)
            channel = walk.link[moved].astype(np.int64) * classes + walk.vc_class[moved]
            arrivals.append(_ends(walk, walk.router[moved], moved, channel))
    if arrivals and starts:
        edges.append(_turns(np.concatenate(arrivals), np.concatenate(starts), channels))
    found = np.unique(np.concatenate(edges))
    return Dependencies(relation, classes, found // max(channels, 1), found % max(channels, 1))


def prove(relation: Relation, pairs: ArrayLike | Iterable[Sequence[int]] | None = None) -> None:
    """Return when the pairs (see `dependencies`) all have routes and those routes can never deadlock.

    Raises UnreachableError, or DeadlockError with the cycle by the names of its links.
    """
    graph = dependencies(relation, pairs)
    names = [graph.name(number) for number in graph.cycle()]
    if names:
        if pairs is None:
            check_routes(relation, circles=True)  # a cycle may also mean that some route never ends: another fault
        more = f" -> {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        text = " -> ".join(names[:_SHOWN]) + more
        count = f"{len(names)} channels" if len(names) > 1 else "a channel"
        raise DeadlockError(f"the routes can deadlock: {count} may wait in a circle: {text} -> {names[0]}", names)


def _given_walks(relation: Relation, pairs: ArrayLike | Iterable[Sequence[int]]) -> Iterator[Walk]:
    table = np.asarray(pairs if isinstance(pairs, np.ndarray) else list(pairs))  # type: ignore[arg-type]
    if not table.size:
        return
    if table.ndim != 2 or table.shape[1] not in (2, 3) or table.dtype.kind not in "iu":
        raise InputError("pairs for the deadlock proof are rows (source, destination) or (source, destination, plane)")
    limits = (relation.npus, relation.npus, relation.planes)[: table.shape[1]]
    if (table < 0).any() or (table >= limits).any():
        raise InputError(
            "a pair for the deadlock proof is outside of the network",
            allowed=f"NPUs 0 to {relation.npus - 1}, planes 0 to {relation.planes - 1}",
        )
    table = np.unique(table.astype(np.int32), axis=0)
    if table.shape[1] == 3:
        yield from pair_walks(relation, table[:, 0], table[:, 1], table[:, 2])
        return
    for plane in range(relation.planes):
        yield from pair_walks(relation, table[:, 0], table[:, 1], np.full(len(table), plane, np.int32))


def _ends(walk: Walk, router: Ints, walker: Longs, channel: Longs) -> Longs:
    """Distinct rows (plane and router, dimension, channel) where walks in one dimension begin or end."""
    row = walk.plane[walker].astype(np.int64) * walk.relation.routers + router
    most = np.int64(channel.max(initial=0) + 1)
    keys = np.unique(row * most + channel)
    return np.stack([keys // most, np.full(len(keys), walk.dims[0], np.int64), keys % most], axis=1)


def _turns(arrivals: Longs, starts: Longs, channels: int) -> Longs:
    """Dependencies from one dimension to a later one: any arrival with any start at the same router and plane."""
    starts = starts[np.argsort(starts[:, 0], kind="stable")]
    edges = [np.zeros(0, np.int64)]
    for dim in np.unique(starts[:, 1]):
        later = starts[starts[:, 1] == dim]
        earlier = arrivals[arrivals[:, 1] < dim]
        first = np.searchsorted(later[:, 0], earlier[:, 0], "left")
        count = np.searchsorted(later[:, 0], earlier[:, 0], "right") - first
        edges.append(np.unique(np.repeat(earlier[:, 2], count) * channels + later[_ranges(first, count), 2]))
    return np.concatenate(edges)


def _ranges(first: Longs, count: Longs) -> Longs:
    """first[0], first[0] + 1, .. (count[0] of them), first[1], ..."""
    jump = np.cumsum(count) - count
    return np.repeat(first - jump, count) + np.arange(int(count.sum()))


def _in_cycles_or_behind(src: Longs, dst: Longs, size: int) -> NDArray[np.bool_]:
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
        reached, times = np.unique(successors[_ranges(first[front], degree[front])], return_counts=True)
        waits[reached] -= times
        front = reached[waits[reached] == 0]
    return left
