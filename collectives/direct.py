"""Direct: every rank sends to every other rank, to the next one first, then to the one after it, and so on.

The fewest possible steps (one, two for all-reduce) and the bytes per rank of a ring, but all at once: for fully
connected networks and switches. "direct:W" keeps at most W messages per rank unanswered. A rank that has or gets all
the data exchanges messages with every other rank.
"""

from __future__ import annotations

import numpy as np

from pyxsim.collective.schedule import Schedule
from pyxsim.errors import InputError
from pyxsim.registry import collectives


def reduce_scatter(s: Schedule) -> None:
    # Rank r sends every rank its contribution to that rank's block.
    rank = np.arange(s.n)
    for distance in range(1, s.n):
        peer = (rank + distance) % s.n
        s.step(rank, peer, peer, reduce=True)


def all_gather(s: Schedule) -> None:
    # Rank r sends its own block to every rank. After a reduce-scatter it does so when all contributions are there.
    rank = np.arange(s.n)
    for distance in range(1, s.n):
        s.step(rank, (rank + distance) % s.n, rank)


def all_to_all(s: Schedule) -> None:
    rank = np.arange(s.n)
    for distance in range(1, s.n):
        peer = (rank + distance) % s.n
        s.step(rank, peer, rank * s.n + peer)


def broadcast(s: Schedule) -> None:
    s.step(0, np.arange(1, s.n), 0)


def reduce(s: Schedule) -> None:
    s.step(np.arange(1, s.n), 0, 0, reduce=True)


def scatter(s: Schedule) -> None:
    distance = np.arange(1, s.n)
    s.step(0, distance, distance)


def gather(s: Schedule) -> None:
    distance = np.arange(1, s.n)
    s.step(distance, 0, distance)


def barrier(s: Schedule) -> None:
    # Every rank announces its arrival to every other in one step, before it waits for any.
    rank, distance = np.divmod(np.arange(s.n * (s.n - 1)), s.n - 1)
    s.step(rank, (rank + distance + 1) % s.n, 0, reduce=True)


PARTS = {
    "all-reduce": (reduce_scatter, all_gather),
    "reduce-scatter": (reduce_scatter,),
    "all-gather": (all_gather,),
    "all-to-all": (all_to_all,),
    "broadcast": (broadcast,),
    "reduce": (reduce,),
    "gather": (gather,),
    "scatter": (scatter,),
    "barrier": (barrier,),
}


ANSWERED = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")


@collectives.register("direct", kinds=tuple(PARTS))
def direct(kind: str, n: int, window: int | None = None) -> Schedule:
    if window is not None and kind not in ANSWERED:
        raise InputError(f"direct:{window} does not support {kind}: its messages are not answered", allowed="direct")
    s = Schedule(kind, n, blocks=1 if kind in ("broadcast", "reduce") else None, window=window)
    for part in PARTS[kind] if n > 1 else ():
        part(s)
    return s
