"""Weights of routes: in which proportion a router divides packets over several links (docs/faults.md).

Weighted cost multipathing: Zhou and others, "WCMP: Weighted Cost Multipathing for Improved Fairness in Data Centers",
EuroSys 2014. Weights are either by the capacity that is left behind each link, which needs no knowledge of the traffic,
or those of a maximum concurrent flow for known messages, as traffic engineering computes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from pyxsim.arrays import BoolArray, FloatArray, Int32Array, IntArray
from pyxsim.errors import InputError
from pyxsim.routing.graph import FAR
from pyxsim.routing.planes import candidates, ranges
from pyxsim.routing.product_table import FIRST_SET
from pyxsim.routing.relation import WEIGHTED, Relation

UNIT = 1 << 16  # sum of the weights of a set, about
MOST_VARIABLES = 200_000  # of a linear program: minutes
_TOGETHER = 1 << 22  # entries of tables that are computed at a time
_BUSY = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 7 / 8)  # loads from which on a link costs more
_COSTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # of a flit on a link below and from these loads on


class Weights(Protocol):
    """A rule for weights."""

    def of(self, relation: Relation, allowed: BoolArray, hops: Int32Array) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield homes in order, a part of them at a time, with float64[links, homes of the part], the weights.

        `relation` has the links and homes; allowed[links, homes], the links that packets to a home take, and
        hops[routers, homes], their distances, are as in `Degraded`.
        """


@dataclass(frozen=True, eq=False)
class ByCapacity:
    """Weights by the capacity that is left behind each link.

    The capacity of a link for a destination is its bandwidth, or less if its share of the capacity of the router behind
    it is less. That of a router is the sum of those of its links to the destination; the links into a router that lead
    to this destination have equal shares of it. At the destination it is unlimited. A router needs to know only its
    neighbors, as with the link bandwidth that BGP announces.

    Attributes
    ----------
    bandwidth
        float64[links]: flits per cycle.
    """

    bandwidth: FloatArray

    def of(self, relation: Relation, allowed: BoolArray, hops: Int32Array) -> Iterator[tuple[IntArray, FloatArray]]:
        homes = np.unique(relation.home)
        src, dst = relation.link_src, relation.link_dst
        together = max(1, _TOGETHER // max(1, relation.routers, relation.links))
        for first in range(0, len(homes), together):
            part = np.arange(first, min(first + together, len(homes)))
            goal, link = np.nonzero(allowed[:, part].T)
            level = hops[src[link], part[goal]]
            sharing = np.bincount(dst[link] * len(part) + goal, minlength=relation.routers * len(part))
            capacity = np.zeros(relation.routers * len(part))
            capacity[homes[part] * len(part) + np.arange(len(part))] = np.inf
            weight = np.zeros((relation.links, len(part)))
            for number in np.unique(level).tolist():
                at = np.flatnonzero(level == number)
                behind = dst[link[at]] * len(part) + goal[at]
                found = self.bandwidth[link[at]]
                if number < FAR:  # else only packets of the routes before are there
                    found = np.minimum(found, capacity[behind] / sharing[behind])
                weight[link[at], goal[at]] = found
                np.add.at(capacity, src[link[at]] * len(part) + goal[at], found)
            yield part, weight


@dataclass(frozen=True, eq=False)
class ByFlow:
    """Weights of a maximum concurrent flow: all demands are met in the same, largest proportion.

    Of the flows with this proportion it is one with little load on busy links. Routers that no demand passes have the
    weights by capacity.

    Attributes
    ----------
    bandwidth
        float64[links]: flits per cycle.
    demand
        float64[homes, homes]: what routers with NPUs send to each other, in any unit.
    """

    bandwidth: FloatArray
    demand: FloatArray

    def of(self, relation: Relation, allowed: BoolArray, hops: Int32Array) -> Iterator[tuple[IntArray, FloatArray]]:
        _, flow = concurrent_flow(relation, allowed, hops, self.bandwidth, self.demand)
        src = relation.link_src
        for part, weight in ByCapacity(self.bandwidth).of(relation, allowed, hops):
            passing = np.zeros((relation.routers, len(part)))
            np.add.at(passing, src, flow[:, part])
            passed = (passing > 0)[src]
            yield part, np.where(passed, flow[:, part], weight)


def concurrent_flow(
    relation: Relation, allowed: BoolArray, hops: Int32Array, bandwidth: FloatArray, demand: FloatArray
) -> tuple[float, FloatArray]:
    """Return the maximum concurrent flow over the links of routes.

    Shahrokhi and Matula, "The maximum concurrent flow problem", 1990; as a linear program, with one commodity for each
    destination.

    Parameters
    ----------
    relation, allowed, hops
        The links and homes, bool[links, homes] and int32[routers, homes], as in `Degraded`.
    bandwidth, demand
        As in `ByFlow`; demands without a way are left out.

    Returns
    -------
    rate, flow
        The largest part of all demands that can be sent per cycle; float64[links, homes], flits per cycle.

    Raises
    ------
    InputError
        If SciPy is missing, or the linear program is too large.
    """
    try:
        from scipy import optimize, sparse  # late: an extra
    except ImportError:
        choices = "'capacity', or pip install 'pyxsim[design]'"
        problem = "the maximum concurrent flow needs SciPy"
        raise InputError(problem, key="network.reroute.weights", allowed=choices) from None
    homes = np.unique(relation.home)
    src, dst = relation.link_src, relation.link_dst
    wanted = np.where((hops[homes] < FAR) & ~np.eye(len(homes), dtype=np.bool_), demand, 0.0)
    if not wanted.any():
        return 0.0, np.zeros(allowed.shape)
    goal, link = _passed(relation, allowed, hops, wanted > 0)
    if len(link) > MOST_VARIABLES:
        problem = f"a linear program for the weights has {len(link)} variables"
        raise InputError(problem, key="network.reroute.weights", allowed=f"up to {MOST_VARIABLES}, or 'capacity'")
    pairs = np.arange(len(link))
    # What enters a router on its way to a home, and does not come from its NPUs, leaves it.
    leaves = sparse.coo_matrix(
        (np.ones(len(link)), (src[link] * len(homes) + goal, pairs)), (relation.routers * len(homes), len(link))
    )
    enters = sparse.coo_matrix((np.ones(len(link)), (dst[link] * len(homes) + goal, pairs)), leaves.shape)
    kept = np.ones(leaves.shape[0], np.bool_)
    kept[homes * len(homes) + np.arange(len(homes))] = False
    kept &= np.diff(leaves.tocsr().indptr) > 0
    conserved = (leaves - enters).tocsr()[kept]
    given = np.zeros((relation.routers, len(homes)))
    given[homes] = wanted / wanted.sum()
    supply = sparse.csr_matrix(given.reshape(-1, 1)[kept])
    load = sparse.coo_matrix((1 / bandwidth[link], (link, pairs)), (relation.links, len(link))).tocsr()
    used = np.flatnonzero(np.diff(load.indptr))
    load = load[used]
    first = optimize.linprog(
        np.append(-1.0, np.zeros(len(link))),
        A_ub=sparse.hstack([sparse.csr_matrix((len(used), 1)), load]),
        b_ub=np.ones(len(used)),
        A_eq=sparse.hstack([-supply, conserved]),
        b_eq=np.zeros(conserved.shape[0]),
        method="highs",
    )
    rate = float(-first.fun)
    # Of all flows with this rate one with the least cost, which rises with the load of a link (Fortz and Thorup 2000).
    spread, blocks = [], len(_BUSY)
    spread = [load, *(-sparse.identity(len(used)) for _ in range(blocks + 1))]
    second = optimize.linprog(
        np.concatenate([np.zeros(len(link)), *(np.full(len(used), cost) for cost in _COSTS)]),
        A_eq=sparse.vstack(
            [
                sparse.hstack([conserved, sparse.csr_matrix((conserved.shape[0], len(used) * (blocks + 1)))]),
                sparse.hstack(spread),
            ]
        ),
        b_eq=np.concatenate([supply.toarray()[:, 0] * rate * (1 - 1e-7), np.zeros(len(used))]),
        bounds=[(0, None)] * len(link) + [(0, wide) for wide in np.diff((0.0, *_BUSY, 1.0)) for _ in range(len(used))],
        method="highs",
    )
    flow = np.zeros(allowed.shape)
    flow[link, goal] = np.where(second.x[: len(link)] > 1e-9, second.x[: len(link)], 0)
    return rate / float(wanted.sum()), flow


def _passed(relation: Relation, allowed: BoolArray, hops: Int32Array, wanted: BoolArray) -> tuple[IntArray, IntArray]:
    """(home, link) of all links that demands may pass on their shortest ways."""
    homes = np.unique(relation.home)
    src, dst = relation.link_src, relation.link_dst
    nearer = allowed & (hops[src] < FAR) & (hops[dst] == hops[src] - 1)
    reached = np.zeros((relation.routers, len(homes)), np.bool_)
    reached[homes] = wanted
    taken = np.zeros_like(allowed)
    for _ in range(int(hops[hops < FAR].max(initial=0))):
        taken = nearer & reached[src]
        link, goal = np.nonzero(taken)
        reached[dst[link], goal] = True
    goal, link = np.nonzero(taken.T)
    return goal, link


def weighted(relation: Relation, allowed: BoolArray, hops: Int32Array, rule: Weights) -> Relation:
    """Return the relation of one plane and digit with weights, and a set of its own for each router and destination.

    Sets begin with different members, so that routers do not begin with the same link for all destinations.
    """
    homes = np.unique(relation.home)
    entry = np.arange(relation.routers * len(homes))
    start, link, vc_class = candidates(relation, entry)
    count = np.diff(start)
    several = np.flatnonzero(count > 1)
    table = np.array(relation.link, np.int32)
    table[several] = FIRST_SET - np.arange(len(several), dtype=np.int32)
    size = count[several]
    set_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])
    of_member = np.repeat(np.arange(len(several)), size)
    turned = (ranges(np.zeros(len(several), np.int64), size) + several[of_member] % len(homes)) % size[of_member]
    member = start[several][of_member] + turned
    goal = (several % len(homes))[of_member]
    weight = np.zeros(len(member))
    order = np.argsort(goal, kind="stable")
    for part, found in rule.of(relation, allowed, hops):
        at = order[np.searchsorted(goal[order], part[0]) : np.searchsorted(goal[order], part[-1], "right")]
        weight[at] = found[link[member[at]], goal[at] - part[0]]
    total = np.bincount(of_member, weight, len(several))
    share = np.where(total[of_member] > 0, weight / np.where(total > 0, total, 1)[of_member], 1 / size[of_member])
    return replace(
        relation,
        link=table,
        set_start=set_start,
        set_link=link[member],
        set_class=vc_class[member],
        set_weight=np.rint(share * UNIT).astype(np.int32),
        plane_select=np.full(relation.planes, WEIGHTED, np.int32),
    )


def weights_of(relation: Relation) -> tuple[IntArray, IntArray, FloatArray]:
    """Return link, router of the destination, and share of the packets, of each member of the sets of `weighted`."""
    homes = np.unique(relation.home)
    table = np.asarray(relation.link)
    entry = np.flatnonzero(table <= FIRST_SET)
    size = np.diff(relation.set_start)
    of_member = np.repeat(np.arange(len(size)), size)
    total = np.bincount(of_member, relation.set_weight, len(size))
    goal = np.empty(len(size), np.int64)
    goal[FIRST_SET - table[entry]] = homes[entry % len(homes)]
    return relation.set_link.astype(np.int64), goal[of_member], relation.set_weight / total[of_member]
