"""Multimem: every rank loads the sum of its block from the switch, and stores it to all ranks through the switch.

The all-reduce of NVLink SHARP: a rank sends S bytes, which the others load, and S/N bytes, which the switch copies to
all, and receives as many. "multimem:k" cuts the block of a rank into k, which it loads one after the other: stores of
the first ones overlap with loads of the next. Requires [network.transactions] and a switch (docs/memory_traffic.md).
"""

from __future__ import annotations

from pyxsim.collective.schedule import Schedule
from pyxsim.errors import InputError
from pyxsim.registry import collectives

MOST_PARTS = 4096


@collectives.register("multimem", kinds=("all-reduce", "reduce-scatter", "all-gather"))
def multimem(kind: str, n: int, parts: int = 16) -> Schedule:
    if not 1 <= parts <= MOST_PARTS:
        raise InputError(f"multimem:{parts} cuts blocks into {parts}", allowed=f"multimem:1 to multimem:{MOST_PARTS}")
    s = Schedule(kind, n, blocks=n * parts)
    ranks = range(n)
    for part in range(parts) if n > 1 else ():
        for rank in ranks if kind != "all-gather" else ():
            s.load_sum(ranks, rank, rank * parts + part)
    for part in range(parts) if n > 1 else ():
        for rank in ranks if kind != "reduce-scatter" else ():
            s.multicast(rank, ranks, rank * parts + part)
    return s
