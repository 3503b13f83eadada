"""How many bytes and steps a collective takes, and lower bounds. docs/collectives.md derives them.

Bytes only: their time depends on a network, which this package does not know. Bounds are exact Fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np

from pyxsim.collective.arrays import I64, Bools
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.kinds import get_kind
from pyxsim.collective.plan import Phase, Plan, whole_bytes

# How often each byte of the buffer must cross from one rank to another, per rank beyond the first. A byte of an
# all-reduce needs n-1 crossings to be summed and n-1 to reach all ranks.
_CROSSINGS = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1, "all-to-all": 1}


def lower_bound_bytes(kind: str, n: int, size: int, *, in_network: bool = False) -> Fraction:
    """Return the bytes that the busiest of n NPUs must send or receive, for any algorithm.

    `size`: the buffer; for all-gather and gather the shard of one NPU. All-reduce: 2(n-1)/n * size; reduce-scatter,
    all-to-all and scatter (by the root): (n-1)/n * size; all-gather and gather (to the root): (n-1) * size; broadcast
    (every other rank gets it) and reduce (every other rank gives it): size; barrier: 1. With `in_network` reduction an
    all-reduce needs to send and receive everything only once.
    """
    whole = whole_bytes(get_kind(kind).name, size, n)
    largest = Fraction(-(-whole // n))  # the most that a root keeps
    return _busiest(kind, n, whole, largest, in_network)


def phase_bytes(phase: Phase) -> Fraction:
    """Return the bytes that an NPU must send or receive in a phase.

    For a rooted kind those of the root of the plan; otherwise the mean over all NPUs.
    """
    schedule = phase.schedule()
    if schedule.given_bytes is not None:
        return Fraction(0)  # of unknown purpose
    n, in_network = phase.npus, schedule.in_network
    if get_kind(phase.kind).rooted:
        own = Fraction(int(phase.own_block()[phase.root]))
        return _busiest(phase.kind, n, int(phase.pieces[phase.root]), own, in_network)
    if phase.matrix is not None:
        between = int(phase.exchanged.sum() - np.trace(phase.exchanged, axis1=1, axis2=2).sum())
        return Fraction(between, math.prod(phase.shape))
    pieces = int(phase.pieces[phase.groups[:, 0]].sum()) * phase.copies
    return _busiest(phase.kind, n, pieces, Fraction(0), in_network) * n / math.prod(phase.shape)


def _busiest(kind: str, n: int, whole: int, own: Fraction, in_network: bool) -> Fraction:
    """The bound for a group that works on `whole` bytes, `own` of which belong to its root."""
    if kind in _CROSSINGS:
        once = in_network and kind == "all-reduce" and n > 1
        return Fraction(whole) if once else Fraction(_CROSSINGS[kind] * (n - 1) * whole, n)
    if n == 1:
        return Fraction(0)
    return whole - own if kind in ("gather", "scatter") else Fraction(whole)


def sent_bytes(plan: Plan) -> I64:
    """Return the bytes that each NPU sends in each phase with the algorithms of the plan: int64[NPUs, phases]."""
    sent = np.zeros((plan.npus, len(plan.phases)), dtype=np.int64)
    for number, phase in enumerate(plan.phases):
        pieces = phase.keys[phase.groups[:, 0]]
        for piece in np.unique(pieces).tolist():
            schedule, carried = phase.messages(piece)
            by_rank = np.zeros(phase.npus, dtype=np.int64)
            np.add.at(by_rank, schedule.src, np.where(schedule.local, 0, carried))
            sent[phase.groups[pieces == piece], number] = by_rank
    return sent


@lru_cache(maxsize=1024)
def rounds(schedule: CompiledSchedule) -> int:
    """Return the number of steps if every message takes one and leaves as soon as it may.

    The collective takes at least that many message times: the latency term of a bound. Ring all-reduce: 2(n-1), direct:
    2, halving-doubling: 2 log2 n. Local steps take no time.
    """
    return sum(1 for _ in waves(schedule))


def waves(schedule: CompiledSchedule) -> Iterator[I64]:
    """Yield the messages of each of these steps, in order."""
    run = _Run(schedule)
    while len(run.waiting):
        while len(local := run.leave(schedule.local)):
            run.arrive(local)
        if not len(run.waiting):
            return
        sent = run.leave(~schedule.local)
        if not len(sent):
            raise ValueError(f"{schedule}: messages wait for each other in a cycle")
        run.arrive(sent)
        yield sent


class _Run:
    """The execution of a schedule: which messages may leave, and what arrivals release."""

    def __init__(self, s: CompiledSchedule) -> None:
        self.s = s
        self.waiting = np.arange(len(s))
        self._gate_left = np.diff(s.gate_ptr)
        self._received = np.zeros(s.n, dtype=np.int64)
        self._join_left = np.bincount(s.join[s.join >= 0])
        self._held: I64 = np.zeros(0, dtype=np.int64)  # messages of joins that are not complete

    def leave(self, which: Bools) -> I64:
        """Send those of `which` that may leave now, and return them."""
        s, waiting = self.s, self.waiting
        gate = s.gate[waiting]
        closed = (gate >= 0) & (self._gate_left[gate] > 0) if len(self._gate_left) else np.zeros(len(waiting), bool)
        leaving = ~closed & (self._received[s.src[waiting]] >= s.need[waiting]) & which[waiting]
        self.waiting = waiting[~leaving]
        return waiting[leaving]

    def arrive(self, messages: I64) -> None:
        s = self.s
        joins = s.join[messages]
        np.subtract.at(self._join_left, joins[joins >= 0], 1)
        messages = np.concatenate([messages, self._held])
        joins = s.join[messages]
        early = joins >= 0
        early[early] = self._join_left[joins[early]] > 0
        messages, self._held = messages[~early], messages[early]
        np.add.at(self._received, s.dst[messages[~s.local[messages]]], 1)
        mask = np.zeros(len(s), dtype=bool)
        mask[messages] = True
        opens_ptr, opens = s.opens
        np.subtract.at(self._gate_left, opens[np.repeat(mask, np.diff(opens_ptr))], 1)
