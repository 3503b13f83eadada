"""Pairwise exchange: N-1 steps, in each of which every rank exchanges data with one other.

If N is a power of two, the partner is rank xor step; otherwise rank r sends to r + step and receives from r - step. No
rank receives from two at once: no incast, whereas "direct" has all messages in flight together.
"""

from __future__ import annotations

import numpy as np

from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


@collectives.register("pairwise", kinds=("all-to-all", "reduce-scatter"))
def pairwise(kind: str, n: int) -> Schedule:
    s = Schedule(kind, n, window=1)
    rank = np.arange(n)
    for step in range(1, n):
        peer = rank ^ step if n & (n - 1) == 0 else (rank + step) % n
        if kind == "all-to-all":
            s.step(rank, peer, rank * n + peer)
        else:
            s.step(rank, peer, peer, reduce=True)
    return s
