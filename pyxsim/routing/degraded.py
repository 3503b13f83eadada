"""Routes around links that are down, and whether packets may switch to them at once (docs/faults.md).

On the remaining network, packets follow up*/down* routes (Autonet 1991; OpenSM's Up/Down and fat-tree engines are of
this kind): by the ranks of the original routes if these are up/down, so that a fat tree remains one, otherwise by those
of a search from the center. All shortest such paths are used.

Packets of the old routes that are in the network take the new routes from where they are. That is free of deadlock if
the dependencies of the old and of the new routes, and those from an old channel to a new one, together have no cycle
(Duato, Lysne, Pang and Pinkston 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from pyxsim.arrays import AnyIntArray, BoolArray, Int32Array, IntArray
from pyxsim.errors import UnreachableError
from pyxsim.routing.deadlock import prove
from pyxsim.routing.graph import FAR, Graph, Select, by_links, distances, legal_paths
from pyxsim.routing.journeys import behind_cycles
from pyxsim.routing.opposite import opposite_links
from pyxsim.routing.planes import candidates
from pyxsim.routing.product_table import FIRST_SET, NONE
from pyxsim.routing.relation import EACH, SKIP, Relation
from pyxsim.routing.weights import Weights, weighted

R = TypeVar("R", bound=Any)  # the routes as the engine reads them

BY_RANKS = "up*/down* by the ranks of the routing"
FROM_CENTER = "up*/down* from the center"


@dataclass(frozen=True, eq=False)
class Degraded:
    """Routes around links that are down.

    Attributes
    ----------
    relation
        Their tables, with as many planes as the original relation, all equal; an entry without a link has no route.
    allowed
        bool[links, homes]: the links that a packet may take.
    hops
        int32[routers, homes]: links of the path, or FAR.
    part
        int32[routers]: the connected component of each router; components are numbered by their lowest router.
    routing
        Description of the routes.
    """

    relation: Relation
    allowed: BoolArray
    hops: Int32Array
    part: Int32Array
    routing: str

    @property
    def cut_off(self) -> IntArray:
        """int64[n]: the NPUs outside the component with the most NPUs."""
        of_npu = self.part[self.relation.home]
        most = int(np.argmax(np.bincount(of_npu)))
        return np.flatnonzero(of_npu != most)


def usable(relation: Relation, down: IntArray) -> BoolArray:
    """Return bool[links]: the links that routes may use, neither down nor opposite to one that is down."""
    up = np.ones(relation.links, np.bool_)
    back = opposite_links(relation.link_src, relation.link_dst)[down]
    up[down] = False
    up[back[back >= 0]] = False
    return up


def degraded(
    relation: Relation,
    down: IntArray,
    select: Select,
    vc_class: int = 0,
    before: BoolArray | None = None,
    intact: BoolArray | None = None,
    weights: Weights | None = None,
) -> Degraded:
    """Return routes around the links that are down.

    Parameters
    ----------
    relation
        The routes without faults.
    down
        int64[n]: links that are down.
    select
        How a router selects among candidate links.
    vc_class
        The VC class of the new routes on all links.
    before, intact
        bool[links, homes], the links of the routes without faults; bool[links], links that packets already in the
        network may still cross. Both are used only at routers without an up*/down* route, which only packets of the
        original routes reach.
    weights
        How a router divides packets over several links, instead of `select`.
    """
    up = usable(relation, down)
    left = Graph(relation.routers, relation.home, relation.link_src[up], relation.link_dst[up], ())
    apart = _distances_apart(left)
    part = _parts(apart)
    homes = np.unique(relation.home)
    together = part[homes][:, None] == part[homes]
    orders: list[tuple[AnyIntArray, str]] = [(relation.ranks, BY_RANKS)] if len(relation.ranks) else []
    routing = FROM_CENTER
    for order, name in [*orders, (_from_centers(part, apart), FROM_CENTER)]:
        legal, hops = legal_paths(left, order)
        routing = name
        if (hops[homes] < FAR)[together].all():
            break
    allowed = np.zeros((relation.links, len(homes)), np.bool_)
    allowed[up] = legal
    if before is not None and intact is not None:
        stranded = hops >= FAR  # also where all links of a router are down: packets that are inside leave it
        stranded[homes] = False
        allowed |= before & stranded[relation.link_src] & intact[:, None]
    whole = Graph(relation.routers, relation.home, relation.link_src, relation.link_dst, relation.link_name)
    table = by_links(whole, allowed, select, vc_class, vc_class + 1)
    if weights is not None:
        table = weighted(table, allowed, hops, weights)
    return Degraded(tiled(table, relation.planes), allowed, hops, part, routing)


def connected_parts(relation: Relation, down: IntArray) -> Int32Array:
    """Return int32[routers], the connected part of each router without the links that are down: `Degraded.part`."""
    up = usable(relation, down)
    left = Graph(relation.routers, relation.home, relation.link_src[up], relation.link_dst[up], ())
    return _parts(_distances_apart(left))


def _distances_apart(left: Graph) -> Int32Array:
    """int32[routers, routers]: links between routers, in either direction, or FAR."""
    ends = np.concatenate([left.src, left.dst]), np.concatenate([left.dst, left.src])
    return distances(Graph(left.routers, np.arange(left.routers, dtype=np.int32), *ends, ()))


def _parts(apart: Int32Array) -> Int32Array:
    return np.unique(np.argmax(apart < FAR, axis=1), return_inverse=True)[1].astype(np.int32)


def tiled(relation: Relation, planes: int) -> Relation:
    """Return the relation with its one plane so many times, which share the table."""
    columns: dict[str, Any] = {name: np.tile(getattr(relation, name), planes) for name in _OF_PLANES}
    columns |= {name: np.tile(getattr(relation, name), (planes, 1)) for name in ("own", "offset")}
    return replace(relation, planes=planes, **columns)


_OF_PLANES = ("plane_any", "plane_select", "plane_escape", "plane_sticky", "plane_equal")


def _from_centers(part: Int32Array, apart: Int32Array) -> IntArray:
    """int64[routers]: ranks by distance from the center of each part."""
    farthest = np.where(apart < FAR, apart, -1).max(axis=1, initial=0)
    center = np.array([np.flatnonzero(part == number)[farthest[part == number].argmin()] for number in np.unique(part)])
    hops = apart[np.arange(len(part)), center[part]]
    order = np.empty(len(part), np.int64)
    order[np.lexsort((np.arange(len(part)), hops))] = np.arange(len(part))
    return order


def allowed_by(relation: Relation) -> BoolArray | None:
    """Return bool[links, homes] if that is all that the routes depend on, in one VC class; else None."""
    if not _chooses_links(relation) or relation.classes > 1 or relation.planes != 1 or (relation.link_group >= 0).any():
        return None
    homes = np.unique(relation.home)
    if not np.array_equal(relation.digits[:, 0], np.searchsorted(homes, relation.home)) or relation.bubble:
        return None
    entry = (relation.offset[:, :1] + np.arange(len(homes))).ravel()
    start, link, _ = candidates(relation, entry)
    goal = np.repeat(np.tile(np.arange(len(homes)), relation.routers), np.diff(start))
    allowed = np.zeros((relation.links, len(homes)), np.bool_)
    allowed[link, goal] = True
    return allowed


def _chooses_links(relation: Relation) -> bool:
    one = len(relation.ways) == 1 and relation.ways[0].via == "none" and relation.digits.shape[1] == 1
    return one and not relation.plane_any.any() and EACH not in relation.plane_select


def mixed_cycle(relation: Relation, tables: Sequence[BoolArray]) -> bool:
    """Return whether packets that follow any of the tables at each hop can wait in a cycle.

    The dependencies are those from a link into a router to a link out of it that both serve a home in any of the
    tables: more than those of the old routes, of the new ones and from old to new.

    Parameters
    ----------
    relation
        Its links.
    tables
        bool[links, homes] each.
    """
    any_of = np.logical_or.reduce(tables).astype(np.float32)
    numbers = np.arange(relation.routers + 1)
    into, out = np.argsort(relation.link_dst, kind="stable"), np.argsort(relation.link_src, kind="stable")
    first_in, first_out = (
        np.searchsorted(ends[order], numbers) for ends, order in ((relation.link_dst, into), (relation.link_src, out))
    )
    src, dst = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for router in range(relation.routers):
        before, after = into[first_in[router] : first_in[router + 1]], out[first_out[router] : first_out[router + 1]]
        held, wanted = np.nonzero(any_of[before] @ any_of[after].T)
        src.append(before[held])
        dst.append(after[wanted])
    return bool(behind_cycles(np.concatenate(src), np.concatenate(dst), relation.links).any())


def discarding(relation: Relation, discard: Int32Array) -> Int32Array:
    """Return the table of `degraded` routes in which packets without a route go to the link discard[router], if any."""
    homes = np.unique(relation.home)
    entry = relation.offset[: relation.routers] + np.arange(len(homes))
    table: Int32Array = np.array(relation.link, np.int32)
    lost = (table[entry] == NONE) & (discard >= 0)[:, None] & (np.arange(relation.routers)[:, None] != homes)
    table[entry[lost]] = np.broadcast_to(discard[:, None], lost.shape)[lost]
    return table


def without(routers: int, routes: R, broken: IntArray, discard: Int32Array) -> R:
    """Return routes without the broken links: a packet without another candidate goes to discard[router].

    Where packets may take an escape, this applies only to the escape plane.
    """
    if not len(broken):
        return routes
    own, offset = (np.asarray(values).reshape(-1, routes.digits.shape[1]) for values in (routes.own, routes.offset))
    table, start = np.array(routes.link, np.int32), np.asarray(routes.set_start, np.int64)
    vc_class = np.array(routes.vc_class, np.int32)
    members, classes = np.asarray(routes.set_link, np.int32), np.asarray(routes.set_class, np.int32)
    sink = np.full(len(table), NONE, np.int32)
    escapes = (np.asarray(routes.plane_select) == EACH) & (np.asarray(routes.plane_escape) >= 0)
    for dim, size in enumerate(np.asarray(routes.digits).max(axis=0, initial=0).tolist()):
        rows = np.flatnonzero((own[:, dim] != SKIP) & ~escapes[np.arange(len(own)) // routers])
        sink[offset[rows, dim][:, None] + np.arange(size + 1)] = discard[rows % routers][:, None]
    gone = np.isin(table, broken)
    table[gone] = sink[gone]
    kept = ~np.isin(members, broken)
    count = (
        np.add.reduceat(np.append(kept, False).astype(np.int64), start[:-1])
        if len(start) > 1
        else np.zeros(0, np.int64)
    )
    empty = np.append(count == 0, False)
    of_set = np.where(table <= FIRST_SET, FIRST_SET - table, len(count))
    lost = empty[of_set]
    table[lost] = sink[lost]
    vc_class[gone | lost] = 0  # a sink has one class
    new_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
    sets = {"set_start": new_start, "set_link": members[kept], "set_class": classes[kept]}
    weight = np.asarray(routes.set_weight, np.int32)
    sets["set_weight"] = weight[kept] if len(weight) else weight
    return replace(routes, link=table, vc_class=vc_class, **sets)


def prove_degraded(routes: Degraded) -> None:
    """Prove that the routes cannot deadlock, for all pairs that have one. Raises DeadlockError."""
    one = replace(
        routes.relation,
        planes=1,
        own=routes.relation.own[: routes.relation.routers],
        offset=routes.relation.offset[: routes.relation.routers],
        **{name: getattr(routes.relation, name)[:1] for name in _OF_PLANES},
    )
    homes, first = np.unique(one.home, return_index=True)
    reached = routes.hops[homes] < FAR
    if reached.all():
        prove(one)
        return
    src, dst = np.nonzero(reached & ~np.eye(len(homes), dtype=np.bool_))
    if len(src):
        try:
            prove(one, np.stack([first[src], first[dst], np.zeros(len(src), np.int64)], axis=1))
        except UnreachableError as error:  # the tables have these pairs
            raise AssertionError(str(error)) from None
