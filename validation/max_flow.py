"""Maximum flows over the links that tables of routes use: linear programs with a commodity for each NPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pyxsim.arrays import BoolArray
from pyxsim.topology.topology import Topology


class _Program(NamedTuple):
    """Matrices of the constraints. Columns: the rate of each NPU, then the flow of an NPU on a link."""

    load: Any  # flow on each link
    kept: Any  # what enters a router less what leaves it, of each NPU: 0


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
    from scipy import sparse  # late: an extra

    load, kept = _program(topology, allowed, goal)
    npus = len(goal)
    # One column instead of one for each NPU.
    together = [sparse.hstack([sparse.csr_matrix(part[:, :npus].sum(axis=1)), part[:, npus:]]) for part in (load, kept)]
    return _largest(_Program(*together), 1)


def total_rate(topology: Topology, allowed: BoolArray, goal: Sequence[int]) -> float:
    """Return the maximum total flow, in flits per cycle and NPU on average; parameters as for `equal_rate`."""
    return _largest(_program(topology, allowed, goal), len(goal)) / len(goal)


def _largest(program: _Program, rates: int) -> float:
    """The largest sum of the first columns, which are rates of at most 1."""
    from scipy import optimize  # late: an extra

    links, size = program.load.shape
    found = optimize.linprog(
        np.where(np.arange(size) < rates, -1.0, 0.0),
        A_ub=program.load,
        b_ub=np.ones(links),
        A_eq=program.kept,
        b_eq=np.zeros(program.kept.shape[0]),
        bounds=(0, 1),
    )
    return float(-found.fun)


def _program(topology: Topology, allowed: BoolArray, goal: Sequence[int]) -> _Program:
    from scipy import sparse  # late: an extra

    relation = topology.relation
    homes = np.unique(relation.home)
    columns: list[tuple[int, int]] = []  # (NPU, link), after the rates
    rows: dict[tuple[int, int], int] = {}  # (NPU, router): what enters it leaves it
    entries: list[tuple[int, int, int]] = []  # (row, column, sign)
    npus = len(goal)
    for src, dst in enumerate(goal):
        first, end = int(relation.home[src]), int(relation.home[dst])
        if first == end:
            continue
        entries.append((rows.setdefault((src, first), len(rows)), src, -1))
        at, seen = [first], {first}
        while at:
            router = at.pop()
            out = (relation.link_src == router) & allowed[:, np.searchsorted(homes, end)]
            for link in np.flatnonzero(out).tolist():
                column = npus + len(columns)
                columns.append((src, link))
                following = int(relation.link_dst[link])
                entries.append((rows.setdefault((src, router), len(rows)), column, 1))
                if following != end:
                    entries.append((rows.setdefault((src, following), len(rows)), column, -1))
                    if following not in seen:
                        seen.add(following)
                        at.append(following)
    row, column, sign = np.array(entries).T
    size = npus + len(columns)
    links = [link for _, link in columns]
    load = sparse.csr_matrix((np.ones(len(links)), (links, npus + np.arange(len(links)))), (relation.links, size))
    kept = sparse.csr_matrix((sign, (row, column)), (len(rows), size))
    return _Program(load, kept)
