"""Programs: compiled schedules with byte counts, as flat arrays for the executor.

Lists of different lengths are in CSR form (pyxsim/collective/arrays.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyxsim.collective.accesses import OPERAND
from pyxsim.collective.arrays import I8, I32, I64, pointers
from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.compiled import UNKNOWN_NS, CompiledSchedule
from pyxsim.collective.plan import Phase
from pyxsim.collective.schedule import Schedule

Cost = Callable[[int], int]


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes per message that a program moves through the pipes of its NPUs (docs/endpoint.md).

    read_out   read at the sender before it leaves
    read_in, written   at the receiver
    offloaded  through the engines instead of the memories
    """

    offloaded: bool
    read_out: I64
    read_in: I64
    written: I64


class Accesses(NamedTuple):
    """How messages access memory: the kind (pyxsim/collective/accesses.py), the access of the switch that each belongs
    to (-1: none), and of how many messages that one consists."""

    kind: I8
    fused: I32
    messages: I32


def accesses_of(s: CompiledSchedule) -> Accesses | None:
    """Return how the messages of a schedule access memory; None if all are stores of their own."""
    joined = s.join >= 0
    if s.access is None and s.fused is None and not joined.any():
        return None
    kind = np.zeros(len(s), np.int8) if s.access is None else s.access
    fused = np.full(len(s), -1, np.int32) if s.fused is None else s.fused
    numbers = np.where(joined, s.join, np.where(fused >= 0, fused + s.join.max(initial=-1) + 1, -1))
    _, group, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    count = np.where(numbers >= 0, counts[group], 1)
    return Accesses(np.where(joined, OPERAND, kind).astype(np.int8), numbers.astype(np.int32), count.astype(np.int32))


def traffic_of(s: CompiledSchedule, size: I64, *, offloaded: bool) -> Traffic:
    """Return the traffic of messages. Without an engine a message is read, sent and written; a reduction reads both
    operands and writes the result. A sum that is forwarded at once is not read again."""
    if offloaded:
        return Traffic(True, size, np.zeros_like(size), size)
    adds = np.append(s.reduce[s.gate_ids], False)  # one more: the last gate may be empty
    of_gate = np.logical_or.reduceat(adds, s.gate_ptr[:-1]) & (np.diff(s.gate_ptr) > 0)
    summed = np.append(of_gate, False)[s.gate]  # without a gate: the last one
    return Traffic(
        False,
        read_out=np.where(s.local | summed, 0, size),
        read_in=size * (2 * s.reduce + (s.local & ~s.reduce)),
        written=size * (1 + (s.reduce & ~s.local)),
    )


def _single() -> CompiledSchedule:
    schedule = Schedule("broadcast", 2, blocks=1)
    schedule.send(0, 1, 0)
    return compiled(schedule)


_SINGLE = _single()


@dataclass(frozen=True, eq=False)
class Program:
    """The messages of a phase on a group of `n` ranks, without those of 0 bytes.

    src, dst, size, way  per message; messages of a rank to itself skip the network
    cost       per message: cycles of its reduction at the receiver, and of a local step
    join       per message: -1, or the messages that the network reduces on the way: join_ids of that join
    free       per rank: messages without dependencies
    held       per rank: messages that depend on the window only
    opens      per message: gates that depend on it
    gate_size  per gate: number of messages that it depends on
    behind     per gate: messages that it enables
    need       per message: number of messages that its sender must have received (a window)
    sends, receives  per rank: number of messages
    accesses   per message: how it accesses memory; None if all are stores
    """

    n: int
    src: I32
    dst: I32
    size: I64
    way: I8
    cost: I64
    join: I32
    join_ptr: I64
    join_ids: I32
    free_ptr: I64
    free_ids: I32
    held_ptr: I64
    held_ids: I32
    opens_ptr: I64
    opens_ids: I32
    gate_size: I64
    behind_ptr: I64
    behind_ids: I32
    need: I32
    sends: I64
    receives: I64
    schedule: CompiledSchedule
    traffic: Traffic | None = None
    accesses: Accesses | None = None

    @cached_property
    def total(self) -> int:
        """Bytes that the network carries."""
        return int(self.size[self.src != self.dst].sum())


class Programs:
    """Builds programs and caches them.

    Parameters
    ----------
    cost
        Cycles of a reduction of a number of bytes.
    cycles_of_ns
        Converts the delays of schedule files; `unsaid_ns` where a file gives none.
    offload
        Whether collectives use an engine; None if memories and engines are not modeled.
    """

    def __init__(self, cost: Cost, cycles_of_ns: Cost, *, unsaid_ns: int = 0, offload: bool | None = None) -> None:
        self.cost, self.cycles_of_ns, self.offload = cost, cycles_of_ns, offload
        self.unsaid_ns = unsaid_ns
        # The values keep the phase or schedule alive whose id is in the key.
        self._of_phase: dict[Any, tuple[Phase, Program]] = {}
        self._made: dict[Any, tuple[CompiledSchedule, Program]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without the caches: unpickled objects have new identities."""
        return {**vars(self), "_of_phase": {}, "_made": {}}

    def get(self, phase: Phase, piece: int, *, mirror: bool) -> Program:
        """Return the program of a group whose entry of `phase.keys` is `piece`."""
        if phase.matrix is not None:  # seldom comes again
            schedule, sizes = phase.schedule(mirror=mirror), phase.block_sizes(piece)
            return self._program(schedule.without_empty(sizes), sizes, offloaded=self.offload)
        place = (id(phase), piece, mirror)
        if place not in self._of_phase:
            self._of_phase[place] = phase, self._of_schedule(phase, piece, phase.schedule(mirror=mirror))
        return self._of_phase[place][1]

    def _of_schedule(self, phase: Phase, piece: int, schedule: CompiledSchedule) -> Program:
        key = (id(schedule), phase.copies, piece)
        if key not in self._made:
            sizes = phase.block_sizes(piece)
            self._made[key] = schedule, self._program(schedule.without_empty(sizes), sizes, offloaded=self.offload)
        return self._made[key][1]

    def single(self, size: int) -> Program:
        """Return the program of one message from rank 0 to rank 1."""
        if size not in self._made:
            offloaded = None if self.offload is None else False  # the engine is for collectives
            self._made[size] = _SINGLE, self._program(_SINGLE, np.array([size]), offloaded=offloaded)
        return self._made[size][1]

    def _program(self, s: CompiledSchedule, block_sizes: I64, *, offloaded: bool | None) -> Program:
        size = s.message_bytes(block_sizes)
        cost = np.zeros(len(s), np.int64)
        for bytes_ in np.unique(size[s.reduce]).tolist():
            cost[s.reduce & (size == bytes_)] = self.cost(bytes_)
        if s.extra_ns is not None:
            delays = np.where(s.extra_ns == UNKNOWN_NS, self.unsaid_ns, s.extra_ns)
            cost += np.array([self.cycles_of_ns(ns) for ns in delays.tolist()], np.int64)
        ungated = s.gate < 0
        joins, join = np.unique(s.join, return_inverse=True)
        join = join - int(len(joins) > 0 and joins[0] < 0)  # numbered without gaps, -1 for none
        return Program(
            n=s.n,
            src=s.src,
            dst=s.dst,
            size=size,
            way=s.way,
            cost=cost,
            join=join.astype(np.int32),
            **_csr("join", join, np.arange(len(s)), int(join.max(initial=-1)) + 1),
            **_csr("free", np.where(ungated & (s.need == 0), s.src, -1), np.arange(len(s)), s.n),
            **_csr("held", np.where(ungated & (s.need > 0), s.src, -1), np.arange(len(s)), s.n),
            opens_ptr=s.opens[0],
            opens_ids=s.opens[1],
            gate_size=np.diff(s.gate_ptr),
            behind_ptr=s.behind[0],
            behind_ids=s.behind[1],
            need=s.need,
            sends=np.bincount(s.src, minlength=s.n),
            receives=np.bincount(s.dst, minlength=s.n),
            schedule=s,
            traffic=None if offloaded is None else traffic_of(s, size, offloaded=offloaded),
            accesses=accesses_of(s),
        )


def _csr(name: str, group: NDArray[np.integer], values: NDArray[np.integer], groups: int) -> dict[str, Any]:
    """Values by group in CSR form; group -1 is left out."""
    grouped = group >= 0
    order = np.argsort(group[grouped], kind="stable")
    ptr = pointers(np.bincount(group[grouped], minlength=groups))
    return {f"{name}_ptr": ptr, f"{name}_ids": values[grouped][order].astype(np.int32)}
