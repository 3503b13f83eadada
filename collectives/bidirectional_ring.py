"""Bidirectional ring: both directions at once, every block by the shorter path.

The bytes of a ring, half of them in each direction, in half its steps: the data of a rank arrive, or leave, on both
sides. With an even N the opposite rank is equally far in both directions: half of a block takes each. Broadcast and
reduce send half of the buffer around in each direction; a barrier is a token on either side.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pyxsim.collective.arrays import I64
from pyxsim.collective.kinds import get_kind
from pyxsim.collective.schedule import Schedule
from pyxsim.registry import collectives

WAYS = (1, -1)
# A block is cut in two halves, 2*b and 2*b+1. Half h travels n//2 hops in one direction and the rest of the n-1 in the
# other, or vice versa. With an odd n both are equal, and the halves travel together.


def far(n: int, way: int) -> I64:
    """How many hops each half of a block travels in this direction."""
    return np.array([n // 2, (n - 1) // 2])[::way]


def pieces(blocks: I64, hops: I64, hop: int) -> I64:
    """The halves of blocks that travel at least hop + 1 hops: int64[blocks, halves]."""
    return blocks[:, None] * 2 + np.flatnonzero(hops > hop)


def reduce_scatter(s: Schedule) -> None:
    # In the last step the neighbours of rank b send it block b; `hop` steps before the end those hop + 1 ranks away.
    rank = np.arange(s.n)
    for hop in reversed(range(s.n // 2)):
        for way in WAYS:
            ids = pieces((rank + way * (hop + 1)) % s.n, far(s.n, way), hop)
            if ids.size:
                s.step(rank, (rank + way) % s.n, ids, reduce=True, way=way)


def all_gather(s: Schedule) -> None:
    rank = np.arange(s.n)
    for hop in range(s.n // 2):
        for way in WAYS:
            ids = pieces((rank - way * hop) % s.n, far(s.n, way), hop)
            if ids.size:
                s.step(rank, (rank + way) % s.n, ids, way=way)


def all_to_all(s: Schedule) -> None:
    # As in a ring: first all blocks for the neighbours, then those two ranks away, in two hops, and so on.
    rank = np.arange(s.n)
    for distance in range(1, s.n // 2 + 1):
        for hop in range(distance):
            for way in WAYS:
                source = (rank - way * hop) % s.n
                ids = pieces(source * s.n + (source + way * distance) % s.n, far(s.n, way), distance - 1)
                if ids.size:
                    s.step(rank, (rank + way) % s.n, ids, way=way)


def broadcast(s: Schedule) -> None:
    # Place p is rank p in one direction and rank -p in the other; block b leaves place p in step b + p.
    half = s.blocks // 2
    for step in range(half + s.n - 2):
        place = np.arange(max(0, step - half + 1), min(step, s.n - 2) + 1)
        for side, way in enumerate(WAYS):
            s.step(way * place % s.n, way * (place + 1) % s.n, 2 * (step - place) + side, way=way)


def reduce(s: Schedule) -> None:
    # The same path, from the place after the root around to it.
    half = s.blocks // 2
    for step in range(half + s.n - 2):
        place = np.arange(max(0, step - half + 1), min(step, s.n - 2) + 1)
        for side, way in enumerate(WAYS):
            src, dst = way * (place + 1) % s.n, way * (place + 2) % s.n
            s.step(src, dst, 2 * (step - place) + side, reduce=True, way=way)


def scatter(s: Schedule) -> None:
    # Place p forwards the blocks of place q, that of the farthest place first, which may be half a block.
    for step in range(s.n // 2):
        for way in WAYS:
            hops = far(s.n, way)
            place = np.arange(step + 1)
            target = s.n // 2 - step + place
            for at in (place[:-1], place[-1:]):
                ids = pieces(way * target[at] % s.n, hops, int(target[at].max(initial=0)) - 1)
                if ids.size:
                    s.step(way * at % s.n, way * (at + 1) % s.n, ids, way=way)


def gather(s: Schedule) -> None:
    # Place p is rank -p in one direction: first its own block, then those from behind.
    for step in range(s.n // 2):
        for way in WAYS:
            hops = far(s.n, way)
            place = np.arange(1, s.n // 2 - step + 1)
            for at in (place[:-1], place[-1:]):
                ids = pieces(-way * (at + step) % s.n, hops, int(at.max(initial=0)) + step - 1)
                if ids.size:
                    s.step(-way * at % s.n, -way * (at - 1) % s.n, ids, way=way)


def barrier(s: Schedule) -> None:
    # Arrivals are reported to rank 0 on the shorter side; then its answer returns the same way.
    sides = list(zip(WAYS, (s.n // 2, (s.n - 1) // 2), strict=True))
    for hop in reversed(range(s.n // 2)):
        for way, hops in sides:
            if hop < hops:
                s.send(way * (hop + 1) % s.n, way * hop % s.n, 0, reduce=True, way=-way)
    for hop in range(s.n // 2):
        for way, hops in sides:
            if hop < hops:
                s.send(way * hop % s.n, way * (hop + 1) % s.n, 0, way=way)


PARTS: dict[str, tuple[Callable[[Schedule], None], ...]] = {
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


@collectives.register("bidirectional-ring", kinds=tuple(PARTS))
def bidirectional_ring(kind: str, n: int) -> Schedule:
    whole = get_kind(kind)
    # All-to-all has a token per direction, like a ring. For the others the data impose the same order.
    window = len(WAYS) if kind == "all-to-all" else None
    s = Schedule(kind, n, blocks=1 if whole.idempotent else 2 * whole.default_blocks(n), window=window)
    for part in PARTS[kind]:
        part(s)
    return s
