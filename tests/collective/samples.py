"""Small schedules that the tests of this floor are made of: named by the path of this file, as a user's own would be.

And the executor that tries what the checker proves: messages arrive in random order.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from pyxsim.collective.bounds import phase_bytes
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.plan import Plan
from pyxsim.collective.schedule import Schedule

ROOTED = ("broadcast", "reduce", "gather", "scatter")


def dim_bytes(plan: Plan) -> tuple[Fraction, ...]:
    """The sums of `phase_bytes` per dimension of the network; phases over several dimensions count in none."""
    total = [Fraction(0)] * len(plan.shape)
    for phase in plan.phases:
        if len(phase.dims) == 1:
            total[phase.dims[0]] += phase_bytes(phase)
    return tuple(total)


def name(function: str) -> str:
    """The name under which a plan finds a function of this file."""
    return f"{__file__}:{function}"


def star(kind: str, n: int) -> Schedule:
    """Everything directly from and to rank 0."""
    s = Schedule(kind, n)
    others = range(1, n)
    if kind in ("reduce", "barrier"):
        for rank in others:
            s.send(rank, 0, range(s.blocks), reduce=True)
    if kind in ("broadcast", "barrier"):
        for rank in others:
            s.send(0, rank, range(s.blocks))
    for rank in others:
        if kind == "gather":
            s.send(rank, 0, rank)
        if kind == "scatter":
            s.send(0, rank, rank)
    return s


def hasty_star(kind: str, n: int) -> Schedule:
    """Wrong: rank 0 answers each of the others at once, with what it has until then."""
    s = Schedule(kind, n, blocks=1)
    for rank in range(1, n):
        s.send(rank, 0, 0, reduce=True)
        s.send(0, rank, 0)
    return s


def chain(kind: str, n: int) -> Schedule:
    """From neighbour to neighbour, block by block: 0 -> 1 -> 2 ..., or back to 0."""
    s = Schedule(kind, n)
    for block in range(s.blocks):
        if kind in ("broadcast", "scatter"):
            for rank in range(n - 1 if kind == "broadcast" else block):
                s.send(rank, rank + 1, block)
        if kind in ("reduce", "gather"):
            for rank in range(n - 1 if kind == "reduce" else block, 0, -1):
                s.send(rank, rank - 1, block, reduce=kind == "reduce")
    return s


def dissemination(kind: str, n: int) -> Schedule:
    """Barrier: everybody tells the rank 1, 2, 4, ... further what it has heard."""
    s = Schedule(kind, n)
    rank, offset = np.arange(n), 1
    while offset < n:
        s.step(rank, (rank + offset) % n, 0, reduce=True)
        offset *= 2
    return s


def in_network(kind: str, n: int) -> Schedule:
    """All-reduce by the network, in two pieces."""
    s = Schedule(kind, n, blocks=2)
    for block in range(2):
        s.reduce_in_network(range(n), block)
    return s


def exchange(kind: str, n: int) -> Schedule:
    """All-reduce by recursive doubling on the whole buffer; sums are kept in scratch cells until the end."""
    steps = n.bit_length() - 1
    if n != 1 << steps:
        raise ValueError("a power of two")
    s = Schedule(kind, n, blocks=1, cells=steps + 2)
    rank = np.arange(n)
    for r in range(n):
        s.local(r, 0, 1)
    for k in range(steps):
        s.step(rank, rank ^ 1 << k, k + 1, put=k + 2)
        for r in range(n):
            s.local(r, k + 1, k + 2, reduce=True)
    for r in range(n):
        s.local(r, steps + 1, 0)
    return s


Value = Counter[tuple[int, int]]  # (block, rank) -> how often this contribution is in it


def arrive_in_any_order(c: CompiledSchedule, random: Generator) -> bool:
    """Execute with messages arriving in a random order that the waits allow; whether every goal is reached."""
    cells = run_in_any_order(c, random)
    return all(
        _right(c, cells.get((rank, b), Value()), b) for b in np.flatnonzero(~c.empty).tolist() for rank in c.goals(b)
    )


def run_in_any_order(c: CompiledSchedule, random: Generator) -> dict[tuple[int, int], Value]:
    """What is in the cells (rank, cell) after messages have arrived in a random order that the waits allow."""
    cells: dict[tuple[int, int], Value] = {
        (rank, b): Counter({(b, rank): 1}) for b in range(c.blocks) for rank in c.starts(b)
    }
    received = [0] * c.n
    arrived: set[int] = set()
    waiting = list(range(len(c)))
    flying: list[list[int]] = []  # messages of a join fly together
    carried: dict[int, list[Value]] = {}
    joins: dict[int, list[int]] = {}
    size = Counter(c.join.tolist())
    ptr = c.block_ptr.tolist()
    while waiting or flying:
        free = [m for m in waiting if received[c.src[m]] >= c.need[m] and arrived.issuperset(c.waits_for(m).tolist())]
        choice = int(random.integers(len(free) + len(flying)))
        if choice < len(free):
            m, join = free[choice], int(c.join[free[choice]])
            waiting.remove(m)
            carried[m] = [cells.get((int(c.src[m]), int(b)), Value()).copy() for b in c.blocks_of(m)]
            if join < 0:
                flying.append([m])
            else:
                joins.setdefault(join, []).append(m)
                if len(joins[join]) == size[join]:
                    total = [sum(values, Value()) for values in zip(*(carried[o] for o in joins[join]), strict=True)]
                    carried.update(dict.fromkeys(joins[join], total))
                    # They are there together; who takes his in first is open.
                    flying += [[o] for o in joins[join]]
            continue
        (m,) = flying.pop(choice - len(free))
        arrived.add(m)
        rank = int(c.dst[m])
        received[rank] += not c.local[m]
        for b, new in zip(c.put_ids[ptr[m] : ptr[m + 1]].tolist(), carried.pop(m), strict=True):
            cells[rank, b] = cells.get((rank, b), Value()) + new if c.reduce[m] else new
    return cells


def _right(c: CompiledSchedule, value: Value, block: int) -> bool:
    wanted = {(block, rank): 1 for rank in c.starts(block)}
    return set(value) == set(wanted) if c.kind.idempotent else value == wanted
