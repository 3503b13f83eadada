"""Two-shot: a reduce-scatter and an all-gather, each in one step of all pairs.

Every rank loads its block from all others and adds it up, then stores the sum to all others: 2 (N - 1)/N S bytes, in
two steps. "two-shot:1" stores in both steps, "two-shot:2" loads in both. The bytes and steps are those of `direct`;
requests and responses differ (docs/memory_traffic.md).
"""

from __future__ import annotations

import numpy as np

from pyxsim.collective.schedule import Schedule
from pyxsim.errors import InputError
from pyxsim.registry import collectives

ACCESSES = (("load", "store"), ("store", "store"), ("load", "load"))


@collectives.register("two-shot", kinds=("all-reduce", "reduce-scatter", "all-gather"))
def two_shot(kind: str, n: int, accesses: int = 0) -> Schedule:
    if not 0 <= accesses < len(ACCESSES):
        known = "two-shot (load, then store), two-shot:1 (store), two-shot:2 (load)"
        raise InputError(f"two-shot:{accesses} is not known", allowed=known)
    first, second = ACCESSES[accesses]
    s = Schedule(kind, n)
    rank = np.arange(n)
    for distance in range(1, n) if kind != "all-gather" else ():
        peer = (rank + distance) % n
        s.step(rank, peer, peer, reduce=True, by=first)
    for distance in range(1, n) if kind != "reduce-scatter" else ():
        s.step(rank, (rank + distance) % n, rank, by=second)
    return s
