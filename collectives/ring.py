"""Ring: every rank talks to the next one only, and passes on what it got.

All-reduce is reduce-scatter followed by all-gather: 2(N-1) steps of S/N bytes, 2(N-1)/N*S bytes per rank, the least
possible (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009).
All-to-all forwards every block hop by hop, the near ones first, as ASTRA-sim does: N(N-1)/2 messages per rank.
"""

from __future__ import annotations

import numpy as np

from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


def scatter(s: Schedule) -> None:
    # Block b starts at rank b+1 and gathers one contribution in every step; after n-1 steps rank b has it whole.
    rank = np.arange(s.n)
    for step in range(s.n - 1):
        s.step(rank, (rank + 1) % s.n, (rank - 1 - step) % s.n, reduce=True)


def gather(s: Schedule) -> None:
    # Rank r starts with its own block and passes on, in every step, the one that it got in the step before.
    rank = np.arange(s.n)
    for step in range(s.n - 1):
        s.step(rank, (rank + 1) % s.n, (rank - step) % s.n)


def exchange(s: Schedule) -> None:
    # First all blocks for the next rank, then those two ranks away, in two hops, and so on.
    rank = np.arange(s.n)
    for distance in range(1, s.n):
        for hop in range(distance):
            source = (rank - hop) % s.n
            s.step(rank, (rank + 1) % s.n, source * s.n + (source + distance) % s.n)


PARTS = {
    "all-reduce": (scatter, gather),
    "reduce-scatter": (scatter,),
    "all-gather": (gather,),
    "all-to-all": (exchange,),
}


@collectives.register("ring", kinds=tuple(PARTS))
def ring(kind: str, n: int) -> Schedule:
    # One token per rank: the next message leaves when one has come. Except in all-to-all, the data demand it anyway.
    s = Schedule(kind, n, window=1)
    for part in PARTS[kind]:
        part(s)
    return s
