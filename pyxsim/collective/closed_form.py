"""Closed-form times of the packet backend: one message, and a ring all-reduce, exact to the cycle.

docs/router.md defines what a flit does; docs/collectives.md derives these formulas and states when they hold: one
message at a time on every link, buffers that cover the credit loop, and VCs that never delay a packet (`is_exact`).
Otherwise they are lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from pyxsim.collective.arrays import I64


def packet_flits(size: int, *, flit: int, packet: int, header: int = 0) -> list[int]:
    """Return the flits of every packet of a message of `size` bytes: up to `packet` bytes of data and a header each."""
    full, remainder = divmod(size, packet)
    return [-(-(data + header) // flit) for data in [packet] * full + ([remainder] if remainder else [])]


def message_time(
    flits: Sequence[int], s: Sequence[Fraction | int], delays: Sequence[int], rc_va: int | Sequence[int]
) -> int:
    """Return the cycles from the launch of the first flit of a message to the arrival of its last, without other
    traffic.

    `flits`: flits of each packet. Per link of the path (injection lane, network links, ejection lane): `s`, the cycles
    that a flit occupies it, and `delays`, the D of the link plus the stages that every flit passes: + st after a
    router, + bw + sa - 1 before a router, + serdes where s > 1. `rc_va`: rc + va of the routers between (one number, or
    one each), which only heads wait for. Raises ValueError if the lengths do not fit.

    Flit j reaches a link in cycle arrival(j) and is ready in arrival(j), or arrival(j) + rc_va if it is a head. In
    the order of the flits, start(j) = max(ready(j), start(j-1) + s): the launch rule max(t, free) with the cycle
    t = max(ready(j), floor(free)) and free = start(j-1) + s. Solved at once for all j,
    start(j) = j*s + max over i <= j of (ready(i) - i*s).
    """
    waits = [rc_va] * (len(s) - 1) if isinstance(rc_va, int) else list(rc_va)
    if not len(s) == len(delays) == len(waits) + 1:
        raise ValueError(f"{len(s)} links, {len(delays)} delays, {len(waits)} routers between them")
    if not flits or min(flits) < 1 or min(s) < 1:
        raise ValueError("a message has packets, a packet has flits, and a flit takes a cycle")
    number = np.arange(sum(flits), dtype=np.int64)
    heads = np.cumsum([0, *flits[:-1]])
    ready: I64 = np.zeros_like(number)
    arrival = ready
    for hop, (flit_time, delay) in enumerate(zip(map(Fraction, s), delays, strict=True)):
        # In units of 1/q cycle all times are whole numbers.
        q, step = flit_time.denominator, flit_time.numerator
        start = number * step + np.maximum.accumulate(ready * q - number * step)
        arrival = -(-(start + step) // q) + delay
        if hop < len(waits):
            ready = arrival.copy()
            ready[heads] += waits[hop]
    return int(arrival[-1])


def is_exact(flits: Sequence[int], s: Fraction | int, rc_va: int, vcs: int = 2) -> bool:
    """Return whether VCs never delay a packet of a message, on links of equal `s` with `vcs` VCs in the packet's class.

    `flits`: flits of each packet, equal but for the last. VCs are allocated in turn, so a packet gets the VC of the
    `vcs`-th packet before it. The tail of that packet has left the next router's buffer when this head arrives, and RC
    and VA begin at once, if ((vcs - 1) * n + 1) * s >= rc + va + 1 for packets of n flits (one cycle more for a
    fraction s, because arrivals are whole cycles). If heads do not wait (rc + va = 0), it is always exact. With va = 0
    a head takes the lowest free VC, usually the one just freed: count one VC then.
    """
    if len(flits) <= vcs or rc_va == 0:
        return True
    rounding = 0 if Fraction(s).denominator == 1 else 1
    return ((vcs - 1) * flits[0] + 1) * s >= rc_va + 1 + rounding


def neighbour_time(
    size: int,
    *,
    flit: int,
    packet: int,
    header: int = 0,
    s: Fraction | int,
    latency: int,
    lane_latency: int = 1,
    bw: int = 0,
    rc: int = 1,
    va: int = 1,
    sa: int = 1,
    st: int = 1,
    serdes: int = 0,
    lane_s: Fraction | int | None = None,
) -> int:
    """Return `message_time` of `size` bytes between neighbors: injection lane, router, link, router, ejection lane.

    `s`: cycles per flit on the link, and on the lanes unless `lane_s` is given. The default router stages are those of
    the "booksim" pipeline.
    """
    lane = s if lane_s is None else lane_s
    before, after = bw + sa - 1, st
    delays = [lane_latency + before, latency + after + before, lane_latency + after]
    per_link = [lane, s, lane]
    delays = [delay + (serdes if flit_time > 1 else 0) for delay, flit_time in zip(delays, per_link, strict=True)]
    return message_time(packet_flits(size, flit=flit, packet=packet, header=header), per_link, delays, rc + va)


# Messages that every rank sends one after the other, and how many of those it receives it must add up.
_RING_STEPS: dict[str, Callable[[int], tuple[int, int]]] = {
    "all-reduce": lambda n: (2 * (n - 1), n - 1),
    "reduce-scatter": lambda n: (n - 1, n - 1),
    "all-gather": lambda n: (n - 1, 0),
    "all-to-all": lambda n: (n * (n - 1) // 2, 0),
}


def ring_time(kind: str, n: int, size: int, hop: Callable[[int], int], *, endpoint: int = 0, reduction: int = 0) -> int:
    """Return the cycles of a collective in one chunk on a ring of n ranks, with the algorithm "ring".

    endpoint + steps * (hop(block) + endpoint) + reducing * reduction, where `hop(bytes)` is the time of one message to
    the neighbor (`neighbour_time`) and `block` the largest block: ceil(size / n) bytes, for all-gather all of `size`,
    the shard of one rank. The endpoint delay is paid before the first message and after each, the reduction delay after
    each that is added up. All-to-all needs equal blocks: ValueError unless n divides the size.
    """
    if kind == "all-to-all" and size % n:
        raise ValueError(f"{size} bytes cannot be divided into {n} equal blocks")
    if n == 1 or not size:
        return 0
    steps, reducing = _RING_STEPS[kind](n)
    block = size if kind == "all-gather" else -(-size // n)
    return endpoint + steps * (hop(block) + endpoint) + reducing * reduction


def ring_all_reduce_time(n: int, size: int, hop: Callable[[int], int], *, endpoint: int = 0, reduction: int = 0) -> int:
    """Return endpoint + 2(n-1) * (hop(ceil(size/n)) + endpoint) + (n-1) * reduction; see `ring_time`."""
    return ring_time("all-reduce", n, size, hop, endpoint=endpoint, reduction=reduction)
