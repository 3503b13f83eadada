"""Ring: every rank sends to the next one only, and forwards what it received.

All-reduce is reduce-scatter followed by all-gather: 2(N-1) steps of S/N bytes, 2(N-1)/N*S bytes per rank, the least
possible (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009).
All-to-all forwards every block hop by hop, near ones first, as in ASTRA-sim: N(N-1)/2 messages per rank. Broadcast and
reduce send the buffer around in N consecutive blocks. A barrier is a token that goes around twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pyxsim.collective.arrays import I64
from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives

# One step: src, dst and unit (the n-th or n*n-th part of the data) of independent messages, and whether they are
# added. Other files of this shelf build their rings from these functions, too.
Turn = tuple[I64, I64, I64, bool]


def reduce_scatter(n: int) -> Iterator[Turn]:
    # Block b starts at rank b+1 and gathers one contribution per step; after n-1 steps rank b has all of it.
    rank = np.arange(n)
    for step in range(n - 1):
        yield rank, (rank + 1) % n, (rank - 1 - step) % n, True


def all_gather(n: int) -> Iterator[Turn]:
    # Rank r starts with its own block and forwards, in every step, the one received in the previous step.
    rank = np.arange(n)
    for step in range(n - 1):
        yield rank, (rank + 1) % n, (rank - step) % n, False


def all_to_all(n: int) -> Iterator[Turn]:
    # First all blocks for the next rank, then those two ranks away, in two hops, and so on.
    rank = np.arange(n)
    for distance in range(1, n):
        for hop in range(distance):
            source = (rank - hop) % n
            yield rank, (rank + 1) % n, source * n + (source + distance) % n, False


def broadcast(n: int) -> Iterator[Turn]:
    # Rank r forwards block b in step b + r.
    for step in range(2 * n - 2):
        rank = np.arange(max(0, step - n + 1), min(step, n - 2) + 1)
        yield rank, rank + 1, step - rank, False


def reduce(n: int) -> Iterator[Turn]:
    # The same path, but from rank 1 around to rank 0.
    for src, dst, block, _ in broadcast(n):
        yield src + 1, (dst + 1) % n, block, True


def scatter(n: int) -> Iterator[Turn]:
    # The block with the longest path leaves first.
    for step in range(n - 1):
        rank = np.arange(step + 1)
        yield rank, rank + 1, n - 1 - step + rank, False


def gather(n: int) -> Iterator[Turn]:
    # First a rank's own block, then those from behind.
    for step in range(n - 1):
        rank = np.arange(step + 1, n)
        yield rank, (rank + 1) % n, rank - step, False


def barrier(n: int) -> Iterator[Turn]:
    # The token gathers all arrivals, and then announces them.
    for hop in range(2 * n - 2):
        rank = np.array([hop % n])
        yield rank, (rank + 1) % n, np.zeros(1, dtype=np.int64), hop < n - 1


PARTS: dict[str, tuple[Callable[[int], Iterator[Turn]], ...]] = {
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


@collectives.register("ring", kinds=tuple(PARTS))
def ring(kind: str, n: int) -> Schedule:
    # One token per rank: the next message leaves when one has arrived. Except in all-to-all, the data impose this
    # anyway.
    s = Schedule(kind, n, window=1)
    for part in PARTS[kind]:
        for turn in part(n):
            s.step(*turn)
    return s
