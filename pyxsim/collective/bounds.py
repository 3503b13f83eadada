"""How many bytes and how many steps a collective takes, and how few it could take. docs/collectives.md derives these.

Bytes only: what time they take depends on a network, which this floor does not know. Bounds are exact Fractions.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from pyxsim.collective.arrays import I64
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.kinds import get_kind
from pyxsim.collective.plan import Phase, Plan

# How often each byte of a group's whole must cross from one rank to another, per rank beyond the first. A byte of an
# all-reduce needs n-1 crossings to be summed up and n-1 to be known everywhere.
_CROSSINGS = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1, "all-to-all": 1}


def lower_bound_bytes(kind: str, n: int, size: int) -> Fraction:
    """Bytes that the busiest of n NPUs must send at least, and receive at least, whatever the algorithm.

    `size` as the user says it: the buffer of one NPU; for all-gather, its shard. All-reduce: 2(n-1)/n * size;
    reduce-scatter and all-to-all: (n-1)/n * size; all-gather: (n-1) * size.
    """
    whole = size * n if get_kind(kind).name == "all-gather" else size
    return Fraction(_CROSSINGS[kind] * (n - 1) * whole, n)


def phase_bytes(phase: Phase) -> Fraction:
    """Bytes that an NPU must send at least in a phase, on average over all NPUs."""
    pieces = int(phase.pieces[phase.groups[:, 0]].sum())
    return Fraction(_CROSSINGS[phase.kind] * (phase.npus - 1) * phase.copies * pieces, math.prod(phase.shape))


def dim_bytes(plan: Plan) -> tuple[Fraction, ...]:
    """`phase_bytes` added up for each dimension of the network.

    Divided by what the links of one NPU carry in that dimension it is the least time that the plan keeps them busy: the
    largest over the dimensions bounds the plan, however its chunks overlap. Phases over several dimensions are in none.
    """
    total = [Fraction(0)] * len(plan.shape)
    for phase in plan.phases:
        if len(phase.dims) == 1:
            total[phase.dims[0]] += phase_bytes(phase)
    return tuple(total)


def sent_bytes(plan: Plan) -> I64:
    """Bytes that each NPU sends in each phase with the algorithms of the plan: int64[NPUs, phases]."""
    sent = np.zeros((plan.npus, len(plan.phases)), dtype=np.int64)
    for number, phase in enumerate(plan.phases):
        pieces = phase.pieces[phase.groups[:, 0]]
        for piece in np.unique(pieces).tolist():
            schedule, carried = phase.messages(piece)
            by_rank = np.zeros(phase.npus, dtype=np.int64)
            np.add.at(by_rank, schedule.src, carried)
            sent[phase.groups[pieces == piece], number] = by_rank
    return sent


def rounds(schedule: CompiledSchedule) -> int:
    """Steps when every message takes one: in each step all messages go that need not wait for one of the same step.

    The number of message times after which the collective can be over, links free: the latency term of a bound. Ring
    all-reduce: 2(n-1), direct: 2, halving-doubling: 2 log2 n.
    """
    s = schedule
    gate_left = np.diff(s.gate_ptr)
    opens_ptr, opens = s.opens
    received = np.zeros(s.n, dtype=np.int64)
    waiting = np.arange(len(s))
    count = 0
    while len(waiting):
        gate = s.gate[waiting]
        closed = (gate >= 0) & (gate_left[gate] > 0) if len(gate_left) else np.zeros(len(waiting), dtype=bool)
        goes = ~closed & (received[s.src[waiting]] >= s.need[waiting])
        gone, waiting = waiting[goes], waiting[~goes]
        if not len(gone):
            raise ValueError(f"{s}: messages wait for each other")
        np.add.at(received, s.dst[gone], 1)
        mask = np.zeros(len(s), dtype=bool)
        mask[gone] = True
        np.subtract.at(gate_left, opens[np.repeat(mask, np.diff(opens_ptr))], 1)
        count += 1
    return count
