"""Direct: every rank sends to every other rank, to the next one first, then to the one after it, and so on.

The fewest steps there are (one, two for all-reduce) and the same bytes per rank as a ring, but all at once: made for
fully connected networks and switches. "direct:W" keeps at most W messages per rank unanswered.
"""

from __future__ import annotations

import numpy as np

from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


def scatter(s: Schedule) -> None:
    # Rank r sends everybody its contribution to the block that is theirs.
    rank = np.arange(s.n)
    for distance in range(1, s.n):
        peer = (rank + distance) % s.n
        s.step(rank, peer, peer, reduce=True)


def gather(s: Schedule) -> None:
    # Rank r sends everybody its own block. After a scatter that is once all contributions have come.
    rank = np.arange(s.n)
    for distance in range(1, s.n):
        s.step(rank, (rank + distance) % s.n, rank)


def exchange(s: Schedule) -> None:
    rank = np.arange(s.n)
    for distance in range(1, s.n):
        peer = (rank + distance) % s.n
        s.step(rank, peer, rank * s.n + peer)


PARTS = {
    "all-reduce": (scatter, gather),
    "reduce-scatter": (scatter,),
    "all-gather": (gather,),
    "all-to-all": (exchange,),
}


@collectives.register("direct", kinds=tuple(PARTS))
def direct(kind: str, n: int, window: int | None = None) -> Schedule:
    s = Schedule(kind, n, window=window)
    for part in PARTS[kind]:
        part(s)
    return s
