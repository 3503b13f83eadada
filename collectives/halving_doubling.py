"""Halving-doubling: log2 N exchanges with partners 1, 2, 4, ... ranks away, of half, a quarter, ... of the data.

All-reduce is recursive halving (reduce-scatter) followed by recursive doubling (all-gather) (Thakur, Rabenseifner and
Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005): 2 log2 N steps and the bytes of a
ring. Broadcast is a halving from the root followed by the doubling (van de Geijn), reduce the halving followed by a
gathering (Rabenseifner), both for large buffers. If N is not a power of two, the ranks beyond the largest power of two
P hand their data to rank - P before it, and get the result from there after it.
"""

from __future__ import annotations

from pyxsim.collective.kinds import get_kind
from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives

# p is the largest power of two <= n, and rank i < p also represents rank p + i, if it exists: halving leaves it the
# blocks i, i + p (every block b with b % p == i).


def fold(s: Schedule, p: int) -> None:
    for extra in range(p, s.n):
        s.send(extra, extra - p, range(s.blocks), reduce=True)


def halve(s: Schedule, p: int) -> None:
    offset = 1
    while offset < p:
        for rank in range(p):
            # The partner keeps the blocks that agree with it in this bit and in the earlier ones.
            partner = rank ^ offset
            s.send(rank, partner, range(partner % (2 * offset), s.blocks, 2 * offset), reduce=True)
        offset *= 2


def double(s: Schedule, p: int) -> None:
    offset = p // 2
    while offset >= 1:
        for rank in range(p):
            s.send(rank, rank ^ offset, range(rank % (2 * offset), s.blocks, 2 * offset))
        offset //= 2


def give_own(s: Schedule, p: int) -> None:
    for extra in range(p, s.n):
        s.send(extra - p, extra, extra)


def take_own(s: Schedule, p: int) -> None:
    for extra in range(p, s.n):
        s.send(extra, extra - p, extra)


def give_all(s: Schedule, p: int) -> None:
    for extra in range(p, s.n):
        s.send(extra - p, extra, range(s.blocks))


def give_others(s: Schedule, p: int) -> None:
    for extra in range(p, s.n):
        s.send(extra - p, extra, [block for block in range(s.blocks) if block != extra])


def spread(s: Schedule, p: int) -> None:
    # Only the ranks below `offset` have data so far: each keeps what agrees with it in one more bit.
    offset = 1
    while offset < p:
        for rank in range(offset):
            s.send(rank, rank + offset, range(rank + offset, s.blocks, 2 * offset))
        offset *= 2


def collect(s: Schedule, p: int) -> None:
    offset = p // 2
    while offset >= 1:
        for rank in range(offset):
            s.send(rank + offset, rank, range(rank + offset, s.blocks, 2 * offset))
        offset //= 2


PARTS = {
    "all-reduce": (fold, halve, double, give_all),
    "reduce-scatter": (fold, halve, give_own),
    "all-gather": (take_own, double, give_others),
    "broadcast": (spread, double, give_all),
    "reduce": (fold, halve, collect),
}


@collectives.register("halving-doubling", aliases=("halvingDoubling",), kinds=tuple(PARTS))
def halving_doubling(kind: str, n: int) -> Schedule:
    p = 1 << (n.bit_length() - 1)
    # Where blocks belong to no rank, p equal blocks instead of n keep the halves equal.
    s = Schedule(kind, n, blocks=None if get_kind(kind).homes else p)
    for part in PARTS[kind]:
        part(s, p)
    return s
