"""Several rings: the data are cut in slices, and each travels a ring of another stride (like NCCL's rings).

A ring of stride s goes from rank r to r+s; it visits all ranks if s and N have no common factor. For fully connected
networks and switches, where one ring leaves all but one link of a rank unused: if N is a prime, N-1 rings use every
link equally. "multi-ring:K" uses K rings of strides 1, N-1, 2, N-2, ..., repeated if there are more rings than strides.
Without a number there are as many rings as strides, but at most 8.
"""

from __future__ import annotations

from math import gcd

from pyxsim_library.collectives.ring import PARTS

from pyxsim.collective.kinds import get_kind
from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives

# An all-to-all would forward blocks although there are direct links; likewise data of a single root.
KINDS = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce")


# By default not more: rings beyond that mean a great many short messages.
MOST = 8


def strides(n: int) -> list[int]:
    """All strides that visit every rank, shortest links first, each followed by its reverse."""
    return sorted((s for s in range(1, max(n, 2)) if gcd(s, n) == 1), key=lambda s: (min(s, n - s), s))


@collectives.register("multi-ring", kinds=KINDS)
def multi_ring(kind: str, n: int, rings: int | None = None) -> Schedule:
    all_strides = strides(n)
    taken = [all_strides[ring % len(all_strides)] for ring in range(rings or min(len(all_strides), MOST))]
    s = Schedule(kind, n, blocks=get_kind(kind).default_blocks(n) * len(taken))
    for part in PARTS[kind]:
        for src, dst, unit, reduce in part(n):
            for ring, stride in enumerate(taken):
                # Place p of this ring is rank p * stride, and so are their blocks.
                s.step(src * stride % n, dst * stride % n, unit * stride % n * len(taken) + ring, reduce)
    return s
