"""Networks that are no product of blocks: routers and links as they come, and routes as candidates for each hop."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.errors import InputError
from pyxsim.routing.relation import ALWAYS, FIRST_SET, LEAST, NONE, RANDOM, TWO, Flags, Ints, Relation
from pyxsim.topology.place import Points
from pyxsim.topology.shape import MAX_NPUS
from pyxsim.topology.size import check_size
from pyxsim.topology.topology import KEY, Dimension, Queue, Routing, Topology

SELECT = {"random": RANDOM, "least": LEAST, "two": TWO}


@dataclass(frozen=True, eq=False)
class Wires:
    """Routers, the links between them, and the router of each NPU: what routes are made from.

    Destinations of routes are the routers that have an NPU, the *homes*: `homes[j]` is home number j, in order of
    router number.
    """

    routers: int
    home: Ints
    src: Ints
    dst: Ints
    name: Sequence[str]

    @property
    def links(self) -> int:
        return len(self.src)

    @property
    def homes(self) -> Ints:
        """int32[homes]: routers with an NPU."""
        return np.unique(self.home)

    def distances(self) -> Ints:
        """int32[routers, homes]: links on the shortest way from a router to a home, -1 where there is none."""
        homes = self.homes
        away = np.full((self.routers, len(homes)), -1, np.int32)
        away[homes, np.arange(len(homes))] = 0
        steps = 0
        while True:
            # Links that lead from a router not reached yet to one at the present distance, for all homes at once.
            link, goal = np.nonzero((away[self.src] < 0) & (away[self.dst] == steps))
            if not len(link):
                return away
            steps += 1
            away[self.src[link], goal] = steps

    def shortest(self) -> Flags:
        """bool[links, homes]: whether a link begins a shortest way to a home."""
        away = self.distances()
        shorter: Flags = (away[self.dst] >= 0) & (away[self.dst] == away[self.src] - 1)
        return shorter

    def relation(
        self,
        allowed: Flags | Sequence[Flags],
        vc_class: ArrayLike | Sequence[ArrayLike] = 0,
        *,
        select: str | Sequence[str] = "random",
        classes: ArrayLike = 1,
        group: ArrayLike = -1,
    ) -> Relation:
        """The routes in which a packet at router r takes, toward home j, one of the links of r with `allowed[link, j]`.

        Of several links one is selected: by a draw, the least used, or the less used of two. Several planes are a
        sequence for each of `allowed`, `vc_class` and `select`.

        allowed   bool[links, homes]
        vc_class  int[links, homes], or what numpy stretches to that: the VC class on that link
        classes   VC classes of all links, or int[links] of each
        group     int[links]: a packet that stays in a group (>= 0) of links keeps its VC class
        """
        planes = [allowed] if isinstance(allowed, np.ndarray) else list(allowed)
        levels = [vc_class] * len(planes) if isinstance(allowed, np.ndarray) else list(vc_class)  # type: ignore[arg-type]
        chosen = [select] * len(planes) if isinstance(select, str) else list(select)
        homes = self.homes
        check_size(self.links, len(planes) * self.routers * len(homes))
        tables = [self._table(flags, np.asarray(level)) for flags, level in zip(planes, levels, strict=True)]
        sets = np.cumsum([0, *(len(table.count) for table in tables)])
        link = [np.where(t.link <= FIRST_SET, t.link - first, t.link) for t, first in zip(tables, sets, strict=False)]
        count = np.concatenate([np.zeros(1, np.int64), *(table.count for table in tables)])
        own = np.full(self.routers, ALWAYS, np.int32)
        own[homes] = np.arange(len(homes))
        rows = np.arange(len(planes) * self.routers, dtype=np.int64)
        return Relation(
            npus=len(self.home),
            routers=self.routers,
            planes=len(planes),
            digits=np.searchsorted(homes, self.home).astype(np.int32)[:, None],
            own=np.tile(own, len(planes))[:, None],
            offset=(rows * len(homes))[:, None],
            link=np.concatenate(link).astype(np.int32),
            vc_class=np.concatenate([table.vc_class for table in tables]),
            link_src=self.src,
            link_dst=self.dst,
            link_classes=np.broadcast_to(np.asarray(classes, np.int32), self.links).copy(),
            link_group=np.broadcast_to(np.asarray(group, np.int32), self.links).copy(),
            link_name=self.name,
            home=self.home,
            set_start=np.cumsum(count),
            set_link=np.concatenate([table.set_link for table in tables]),
            set_class=np.concatenate([table.set_class for table in tables]),
            plane_select=np.array([_select(word) for word in chosen], np.int32),
        )

    def _table(self, allowed: Flags, vc_class: NDArray[Any]) -> _Table:
        """Entries [router, home] of one plane, with sets numbered from 0."""
        homes = len(self.homes)
        link, goal = np.nonzero(allowed)
        entry = self.src[link].astype(np.int64) * homes + goal
        order = np.argsort(entry, kind="stable")  # of one entry in order of the links
        link, entry = link[order].astype(np.int32), entry[order]
        level = np.broadcast_to(vc_class, (self.links, homes))[link, goal[order]].astype(np.int32)
        count = np.bincount(entry, minlength=self.routers * homes)
        first = np.cumsum(count) - count
        table = np.full(self.routers * homes, NONE, np.int32)
        classes = np.zeros(self.routers * homes, np.int32)
        single = count == 1
        table[single], classes[single] = link[first[single]], level[first[single]]
        several = np.flatnonzero(count > 1)
        table[several] = FIRST_SET - np.arange(len(several))
        member = count[entry] > 1
        return _Table(table, classes, count[several], link[member], level[member])


def _select(word: str) -> int:
    if word not in SELECT:
        raise InputError(f"'{word}' selects nothing", key=f"{KEY}_options.select", allowed=list(SELECT), given=word)
    return SELECT[word]


@dataclass(frozen=True, eq=False)
class _Table:
    link: Ints
    vc_class: Ints
    count: NDArray[np.int64]
    set_link: Ints
    set_class: Ints


@dataclass(frozen=True)
class Over:
    """A routing made from another one: `Over(valiant, base)`. Its options are those of the transformer."""

    transform: Callable[..., Relation]
    base: Routing

    def __call__(self, **options: Any) -> Relation:
        return self.transform(self.base(), **options)

    @property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(self.transform, eval_str=True)
        return signature.replace(parameters=list(signature.parameters.values())[1:])


def graph_network(
    name: str,
    home: ArrayLike,
    links: Iterable[tuple[int, int]] | ArrayLike,
    routings: Mapping[str, Callable[..., Relation]],
    *,
    routers: int | None = None,
    both_ways: bool = True,
    dims: Sequence[Dimension] | None = None,
    kinds: Sequence[str] = ("link",),
    kind: ArrayLike = 0,
    kind_dims: Sequence[int] = (),
    length: ArrayLike = 1,
    bandwidth: Sequence[str | None] | None = None,
    latency: Sequence[str | None] | None = None,
    router_names: Sequence[str] | None = None,
    place: Points | None = None,
) -> Topology:
    """A network from its routers and links. Raises InputError.

    home       the router of each NPU
    links      (router, router) for each; with `both_ways` each stands for two links, one there and the next one back
    routings   name -> a function of the `Wires` (and options) that makes the routes; the first is the default
    routers    how many there are; left out: as many as are named
    dims       how collectives see the NPUs, which count through the first dimension first. Left out: one dimension
    kinds      what kinds of links there are, and `kind` which one each of `links` is; `kind_dims`, `length`,
               `bandwidth` and `latency` as in `Topology`, per entry of `links`
    place      where the routers stand in a picture
    """
    table = np.array(links if isinstance(links, np.ndarray) else list(links), np.int32).reshape(-1, 2)  # type: ignore[arg-type]
    homes = np.asarray(home, np.int32)
    count = routers if routers is not None else 1 + int(max(table.max(initial=-1), homes.max(initial=-1)))
    _check(name, count, homes, table)
    size = len(table)
    ends = np.stack([table, table[:, ::-1]], axis=1).reshape(-1, 2) if both_ways else table
    times = 2 if both_ways else 1
    kind_of, lengths = (np.repeat(np.broadcast_to(np.asarray(a, np.int32), size), times) for a in (kind, length))
    names = list(router_names) if router_names is not None else [f"({router})" for router in range(count)]
    dims = tuple(dims) if dims is not None else (Dimension(name, len(homes)),)
    shape = tuple(dim.npus for dim in dims)
    wires = Wires(count, homes, ends[:, 0].copy(), ends[:, 1].copy(), _link_names(ends, names, kinds, kind_of))
    bound = {word: partial(build, wires) for word, build in routings.items()}
    router_dim = np.full(count, len(dims) - 1, np.int32)
    router_dim[homes] = -1
    return Topology(
        name=name,
        npus=len(homes),
        routers=count,
        shape=shape,
        dims=dims,
        queues=tuple((Queue(-1, 1),) for _ in dims),
        coords=np.stack(np.unravel_index(np.arange(len(homes)), shape, order="F"), axis=1).astype(np.int32),
        router_dim=router_dim,
        router_name=names,
        link_src=wires.src,
        link_dst=wires.dst,
        link_dim=kind_of,
        link_name=wires.name,
        relation=next(iter(bound.values()))(),
        link_kinds=tuple(kinds),
        kind_dims=tuple(kind_dims),
        link_length=lengths,
        link_bandwidth=_each(bandwidth, times),
        link_latency=_each(latency, times),
        routings=bound,
        place=np.zeros((0, 2)) if place is None else place,
    )


def _each(texts: Sequence[str | None] | None, times: int) -> tuple[str | None, ...] | None:
    return None if texts is None else tuple(text for text in texts for _ in range(times))


def _check(name: str, routers: int, home: Ints, links: Ints) -> None:
    if home.ndim != 1 or not 1 <= len(home) <= MAX_NPUS:
        raise InputError(f"{name}: {len(home)} NPUs", key="network.options", allowed=f"1 to {MAX_NPUS}")
    check_size(2 * len(links), 0)
    for what, ends in (("an NPU is at", home), ("a link leads to", links)):
        outside = (ends < 0) | (ends >= routers)
        if outside.any():
            raise InputError(f"{name}: {what} router {ends[outside].flat[0]}", allowed=f"routers 0 to {routers - 1}")
    if (links[:, 0] == links[:, 1]).any():
        router = int(links[np.argmax(links[:, 0] == links[:, 1]), 0])
        raise InputError(f"{name}: a link leads from router {router} to itself")


def _link_names(ends: Ints, routers: Sequence[str], kinds: Sequence[str], kind: Ints) -> list[str]:
    """ "local:(0)->(1)"; parallel links of a kind are told apart by a number."""
    names: list[str] = []
    seen: dict[str, int] = {}
    for (a, b), of in zip(ends.tolist(), kind.tolist(), strict=True):
        text = f"{routers[a]}->{routers[b]}"
        key = f"{kinds[of]}:{text}"
        number = seen[key] = seen.get(key, -1) + 1
        names.append(f"{kinds[of]}#{number}:{text}" if number else key)
    return names
