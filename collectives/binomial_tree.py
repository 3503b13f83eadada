"""Binomial tree: ceil(log2 N) steps, in each of which every rank that has the data sends them to one more.

The classic of MPI for small buffers. Rank r sends to r + P/2, ..., r + 2, r + 1 as far as these are its children: its
subtree of 2^k ranks are the next ones. Scatter sends every subtree its blocks together; gather and reduce are the
reverse. All-reduce and barrier are reduce and broadcast (for an all-reduce of few bytes see recursive-doubling).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyxsim.collective.arrays import I64
from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives


def levels(n: int) -> Iterator[tuple[int, I64]]:
    """From the root down: the distance of children from their parents, and the parents."""
    offset = 1 << max(n - 1, 0).bit_length()
    while offset > 1:
        offset //= 2
        yield offset, np.arange(0, n - offset, 2 * offset)


def broadcast(s: Schedule) -> None:
    for offset, parent in levels(s.n):
        s.step(parent, parent + offset, 0)


def reduce(s: Schedule) -> None:
    for offset, parent in reversed(list(levels(s.n))):
        s.step(parent + offset, parent, 0, reduce=True)


def scatter(s: Schedule) -> None:
    for offset, parents in levels(s.n):
        for child in (parents + offset).tolist():
            s.send(child - offset, child, range(child, min(child + offset, s.n)))


def gather(s: Schedule) -> None:
    for offset, parents in reversed(list(levels(s.n))):
        for child in (parents + offset).tolist():
            s.send(child, child - offset, range(child, min(child + offset, s.n)))


PARTS = {
    "all-reduce": (reduce, broadcast),
    "broadcast": (broadcast,),
    "reduce": (reduce,),
    "gather": (gather,),
    "scatter": (scatter,),
    "barrier": (reduce, broadcast),
}


@collectives.register("binomial-tree", kinds=tuple(PARTS))
def binomial_tree(kind: str, n: int) -> Schedule:
    s = Schedule(kind, n, blocks=None if kind in ("gather", "scatter") else 1)
    for part in PARTS[kind]:
        part(s)
    return s
