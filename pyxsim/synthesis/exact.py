"""Small all-gathers in the fewest steps, by integer programming with HiGHS (scipy).

Time is cut into steps of one unit on the fastest link. In each, a link carries at most one unit, or goes on with the
one it has begun. The fewest steps that a capacity bound allows are tried first, then one more, until a schedule exists;
it is optimal if all fewer steps are proved infeasible.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from pyxsim.collective.custom.forest import Forest
from pyxsim.synthesis.link_graph import LinkGraph

MOST_VARIABLES = 60_000


@dataclass(frozen=True)
class ExactResult:
    """The forest, None if none was found in time; its steps; and whether no schedule of these units has fewer."""

    forest: Forest | None
    steps: int
    optimal: bool


def exact_forest(graph: LinkGraph, least_steps: int, *, units: int = 1, seconds: float = 30.0) -> ExactResult:
    """Return an all-gather of `units` per NPU in the fewest steps.

    Parameters
    ----------
    least_steps
        A lower bound of the steps: how many the bottleneck cut takes.
    seconds
        CPU time after which the search ends.
    """
    deadline = time.process_time() + seconds
    optimal = True
    steps = max(least_steps, 1)
    while True:
        left = deadline - time.process_time()
        size = graph.npus * units * (len(graph.pairs[0]) + graph.npus) * steps
        if left <= 0 or size > MOST_VARIABLES:
            return ExactResult(None, steps, False)
        forest, proved = _solve(graph, units, steps, left)
        if forest is not None:
            return ExactResult(forest, steps, optimal)
        optimal &= proved
        steps += 1


def _solve(graph: LinkGraph, units: int, steps: int, seconds: float) -> tuple[Forest | None, bool]:
    """Return the forest of this many steps, or None and whether there is none."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_matrix

    src, dst, route = graph.pairs
    n, chunks, pairs = graph.npus, graph.npus * units, len(src)
    busy = -(-graph.rate.max() // graph.rate)
    take = np.where(route >= 0, busy[route], 0).max(axis=1)
    # x[c, e, t]: edge e begins with chunk c in step t; has[c, v, t]: v has it when step t begins, t = 0 .. steps.
    begins = chunks * pairs * steps

    def x(c: int, e: int, t: int) -> int:
        return (c * pairs + e) * steps + t

    def has(c: int, v: int, t: int) -> int:
        return begins + (c * n + v) * (steps + 1) + t

    total = begins + chunks * n * (steps + 1)
    low, high = np.zeros(total), np.ones(total)
    rows: list[tuple[list[int], list[float], float]] = []  # columns, factors, at most
    for c in range(chunks):
        for v in range(n):
            high[has(c, v, 0)] = low[has(c, v, 0)] = float(c // units == v)
            low[has(c, v, steps)] = 1
            into = [e for e in range(pairs) if dst[e] == v]
            for t in range(steps):
                came = [x(c, e, t + 1 - int(take[e])) for e in into if t + 1 >= take[e]]
                rows.append(([has(c, v, t + 1), has(c, v, t), *came], [1.0, -1.0] + [-1.0] * len(came), 0.0))
        for e in range(pairs):
            for t in range(steps):
                if t + take[e] > steps or dst[e] == c // units:
                    high[x(c, e, t)] = 0
                else:
                    rows.append(([x(c, e, t), has(c, int(src[e]), t)], [1.0, -1.0], 0.0))
    for link in np.unique(route[route >= 0]).tolist():
        over = [e for e in range(pairs) if link in route[e]]
        for t in range(steps):
            window = range(max(t - int(busy[link]) + 1, 0), t + 1)
            columns = [x(c, e, at) for c in range(chunks) for e in over for at in window]
            rows.append((columns, [1.0] * len(columns), 1.0))
    ptr = np.cumsum([0] + [len(columns) for columns, _, _ in rows])
    matrix = csr_matrix(
        (
            np.array([factor for _, factors, _ in rows for factor in factors]),
            np.array([column for columns, _, _ in rows for column in columns]),
            ptr,
        ),
        shape=(len(rows), total),
    )
    whole = np.zeros(total)
    whole[:begins] = 1
    cost = np.zeros(total)
    cost[:begins] = 1  # no transfer that is not needed
    result = milp(
        cost,
        integrality=whole,
        bounds=Bounds(low, high),
        constraints=LinearConstraint(matrix, ub=np.array([most for _, _, most in rows])),
        options={"time_limit": seconds, "mip_rel_gap": 1.0},
    )
    if result.x is None:
        return None, result.status == 2
    used = np.rint(result.x[:begins]).astype(bool).reshape(chunks, pairs, steps)
    parent, step = np.full((chunks, n), -1, np.int32), np.full((chunks, n), -1, np.int32)
    arrives = np.full((chunks, n), 1 << 30)
    for c, e, t in np.argwhere(used).tolist():
        if t + take[e] < arrives[c, dst[e]]:
            arrives[c, dst[e]] = t + take[e]
            parent[c, dst[e]], step[c, dst[e]] = src[e], t
    chunk = np.arange(chunks, dtype=np.int32)
    return Forest(n, units, chunk // units, chunk % units, np.ones(chunks, np.int32), parent, step), True
