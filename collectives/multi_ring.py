"""Several rings: the data are cut in slices, and each goes round a ring of another stride (as NCCL's several rings do).

A ring of stride s goes from rank r to r+s; it meets all ranks if s and N have no common factor. Made for fully
connected networks and switches, where one ring leaves all links but one of a rank unused: if N is a prime, N-1 rings
use every link alike. "multi-ring:K" takes K rings, strides 1, N-1, 2, N-2, ... as far as they fit, and from the start
again if there are more rings than strides. Without a number there are as many rings as strides, but at most 8.
"""

from __future__ import annotations

from math import gcd

from pyxsim_library.collectives.ring import PARTS

from pyxsim.collective.kinds import get_kind
from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives

# An all-to-all would be forwarded where a link goes straight to everybody; to and from one rank that holds all, too.
KINDS = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce")


# More rings than that without being asked: a great many short messages.
MOST = 8


def strides(n: int) -> list[int]:
    """All strides that meet every rank, those of the shortest links first, each followed by its reverse."""
    return sorted((s for s in range(1, max(n, 2)) if gcd(s, n) == 1), key=lambda s: (min(s, n - s), s))


@collectives.register("multi-ring", kinds=KINDS)
def multi_ring(kind: str, n: int, rings: int | None = None) -> Schedule:
    every = strides(n)
    taken = [every[ring % len(every)] for ring in range(rings or min(len(every), MOST))]
    s = Schedule(kind, n, blocks=get_kind(kind).default_blocks(n) * len(taken))
    for part in PARTS[kind]:
        for src, dst, unit, reduce in part(n):
            for ring, stride in enumerate(taken):
                # Place p of this ring is rank p * stride, and what belongs to one belongs to the other.
                s.step(src * stride % n, dst * stride % n, unit * stride % n * len(taken) + ring, reduce)
    return s
