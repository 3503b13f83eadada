"""Recursive doubling: log2 N exchanges of all data with partners 1, 2, 4, ... ranks away.

The fewest steps of an all-reduce in which a rank exchanges with one other at a time, for buffers so small that bytes do
not matter: each step sends the whole buffer (Thakur, Rabenseifner and Gropp, "Optimization of collective communication
operations in MPICH", IJHPCA 2005).
An all-gather doubles its data in every step. If N is not a power of two, the ranks beyond the largest power of two P
hand their data to rank - P before it, and get the result from there after it.
"""

from __future__ import annotations

import numpy as np
from pyxsim_library.collectives.halving_doubling import fold, give_all, give_others, take_own

from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


def add_up(s: Schedule, p: int) -> None:
    # What a rank sends must not change before it leaves or while it is in flight: the sum of step k has a cell of its
    # own.
    # The partner's sum is stored there, and the rank's own is added to it.
    ranks, last = range(p), s.cells - 1
    if p == 1:
        return
    for rank in ranks:
        s.local(rank, 0, 1)
    for step, cell in enumerate(range(1, last)):
        for rank in ranks:
            s.send(rank, rank ^ (1 << step), cell, put=cell + 1)
        for rank in ranks:
            s.local(rank, cell, cell + 1, reduce=True)
    for rank in ranks:
        s.local(rank, last, 0)


def meet(s: Schedule, p: int) -> None:
    # A barrier may count a rank twice, or early.
    rank, offset = np.arange(p), 1
    while offset < p:
        s.step(rank, rank ^ offset, 0, reduce=True)
        offset *= 2


def double(s: Schedule, p: int) -> None:
    # After the steps up to `offset` a rank has the blocks of all ranks that differ from it only in the lower bits, and
    # of
    # those that they represent.
    offset = 1
    while offset < p:
        for rank in range(p):
            low = rank & -offset
            s.send(rank, rank ^ offset, [*range(low, low + offset), *range(p + low, min(p + low + offset, s.n))])
        offset *= 2


PARTS = {
    "all-reduce": (fold, add_up, give_all),
    "all-gather": (take_own, double, give_others),
    "barrier": (fold, meet, give_all),
}


@collectives.register("recursive-doubling", kinds=tuple(PARTS))
def recursive_doubling(kind: str, n: int) -> Schedule:
    steps = n.bit_length() - 1
    summed = kind == "all-reduce" and steps > 0
    s = Schedule(kind, n, blocks=None if kind == "all-gather" else 1, cells=steps + 2 if summed else None)
    for part in PARTS[kind]:
        part(s, 1 << steps)
    return s
