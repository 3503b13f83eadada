"""Hierarchical on three levels, such as NPUs of a box, boxes of a rack, and racks, in one dimension of the network.

Like "hierarchical", on a grid of three sides: 2(A-1) + 2(B-1) + 2(C-1) steps for an all-reduce of N = A*B*C ranks.
"hierarchical-3d:A" has groups of A ranks and divides N/A as evenly as possible; without a number N is divided in three.
"""

from __future__ import annotations

from math import isqrt

from pyxsim_library.collectives.hierarchical import PARTS, check_group, factor, on_grid

from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


def cube_root(n: int) -> int:
    """The largest whole number whose cube is at most n."""
    return max(root for root in range(1, n + 1) if root**3 <= n)


@collectives.register("hierarchical-3d", kinds=tuple(PARTS))
def hierarchical_3d(kind: str, n: int, group: int | None = None) -> Schedule:
    group = factor(n, cube_root(n)) if group is None else group
    check_group(n, group)
    rest = n // group
    middle = factor(rest, isqrt(rest))
    schedule: Schedule = on_grid(kind, (group, middle, rest // middle))
    return schedule
