"""Maximum flows over the links that tables of routes use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyxsim.arrays import BoolArray
from pyxsim.topology.topology import Topology


def equal_rate(topology: Topology, allowed: BoolArray, goal: Sequence[int]) -> float:
    """Return the maximum concurrent flow: the largest rate at which each NPU can send to its goal.

    Parameters
    ----------
    topology
        The network; all links, and those of NPUs, carry one flit per cycle.
    allowed
        bool[links, homes]: the links that packets to a home may take.
    goal
        The NPU that each NPU sends to: a permutation.

    Returns
    -------
    float
        Flits per cycle and NPU.
    """
    from scipy import optimize, sparse  # late: an extra

    relation = topology.relation
    homes = np.unique(relation.home)
    columns: list[tuple[int, int]] = []  # (NPU, link); column 0 is the rate
    rows: dict[tuple[int, int], int] = {}  # (NPU, router): what enters it leaves it
    entries: list[tuple[int, int, int]] = []  # (row, column, sign)
    for src, dst in enumerate(goal):
        first, end = int(relation.home[src]), int(relation.home[dst])
        if first == end:
            continue
        entries.append((rows.setdefault((src, first), len(rows)), 0, -1))
        at, seen = [first], {first}
        while at:
            router = at.pop()
            out = (relation.link_src == router) & allowed[:, np.searchsorted(homes, end)]
            for link in np.flatnonzero(out).tolist():
                columns.append((src, link))
                following = int(relation.link_dst[link])
                entries.append((rows.setdefault((src, router), len(rows)), len(columns), 1))
                if following != end:
                    entries.append((rows.setdefault((src, following), len(rows)), len(columns), -1))
                    if following not in seen:
                        seen.add(following)
                        at.append(following)
    row, column, sign = np.array(entries).T
    size = 1 + len(columns)
    links = [link for _, link in columns]
    load = sparse.coo_matrix((np.ones(len(links)), (links, 1 + np.arange(len(links)))), (relation.links, size))
    kept = sparse.coo_matrix((sign, (row, column)), (len(rows), size))
    found = optimize.linprog(
        np.where(np.arange(size) == 0, -1.0, 0.0),
        A_ub=load,
        b_ub=np.ones(relation.links),
        A_eq=kept,
        b_eq=np.zeros(len(rows)),
        bounds=(0, 1),
    )
    return float(-found.fun)
