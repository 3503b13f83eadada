"""Bruck: ceil(log2 N) steps for any N, each with the ranks 1, 2, 4, ... away (Bruck et al., "Efficient algorithms for
all-to-all communications in multiport message-passing systems", IEEE TPDS 1997).

All-gather doubles its data in every step, at the bytes of a ring. Reduce-scatter is the reverse, and all-reduce is both
(Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024): the bytes of a ring in the steps of a
tree, for any N. All-to-all forwards a block in step k if bit k of its distance is 1: few messages, but each block
travels log2 N / 2 times on average. A barrier is dissemination: every rank tells the ranks 1, 2, 4, ... away what it
knows.
"""

from __future__ import annotations

import numpy as np

from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


def offsets(n: int) -> list[int]:
    return [1 << k for k in range((n - 1).bit_length())]


def all_gather(s: Schedule) -> None:
    # Rank r has the blocks r, r+1, ... r + offset - 1.
    rank = np.arange(s.n)
    for offset in offsets(s.n):
        have = np.arange(min(offset, s.n - offset))
        s.step(rank, (rank - offset) % s.n, (rank[:, None] + have) % s.n)


def reduce_scatter(s: Schedule) -> None:
    # The all-gather in reverse: what rank r received from rank r + offset it now sends there, to be added.
    rank = np.arange(s.n)
    for offset in reversed(offsets(s.n)):
        have = np.arange(min(offset, s.n - offset))
        peer = (rank + offset) % s.n
        s.step(rank, peer, (peer[:, None] + have) % s.n, reduce=True)


def all_to_all(s: Schedule) -> None:
    # A block at `distance` from its source has already travelled the lower bits of it.
    rank, distance = np.arange(s.n), np.arange(s.n)
    for offset in offsets(s.n):
        going = distance[distance & offset > 0]
        source = (rank[:, None] - going % offset) % s.n
        s.step(rank, (rank + offset) % s.n, source * s.n + (source + going) % s.n)


def barrier(s: Schedule) -> None:
    rank = np.arange(s.n)
    for offset in offsets(s.n):
        s.step(rank, (rank + offset) % s.n, 0, reduce=True)


PARTS = {
    "all-reduce": (reduce_scatter, all_gather),
    "reduce-scatter": (reduce_scatter,),
    "all-gather": (all_gather,),
    "all-to-all": (all_to_all,),
    "barrier": (barrier,),
}


@collectives.register("bruck", kinds=tuple(PARTS))
def bruck(kind: str, n: int) -> Schedule:
    # A step is an exchange. The data alone would let the last, shorter step start earlier.
    s = Schedule(kind, n, window=1)
    for part in PARTS[kind]:
        part(s)
    return s
