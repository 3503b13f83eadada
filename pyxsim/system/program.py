"""A compiled schedule as what one group executes: flat arrays, which the executor walks message by message.

Lists of different lengths are in CSR form (pyxsim/collective/arrays.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.collective.arrays import I8, I32, I64, pointers
from pyxsim.collective.compiled import UNKNOWN_NS, CompiledSchedule, compiled
from pyxsim.collective.plan import Phase
from pyxsim.collective.schedule import Schedule

Cost = Callable[[int], int]


@dataclass(frozen=True, eq=False)
class Traffic:
    """What the messages of a program move through the pipes of their NPUs, in bytes per message (docs/endpoint.md).

    read_out   read at the sender before it leaves
    read_in, written   where it is taken in
    offloaded  through the engines, and not through the memories
    """

    offloaded: bool
    read_out: I64
    read_in: I64
    written: I64


def traffic_of(s: CompiledSchedule, size: I64, *, offloaded: bool) -> Traffic:
    """Without an engine: read, sent, written, and read again with its partner to be added and written. What is sent
    on as it is added is not read again."""
    if offloaded:
        return Traffic(True, size, np.zeros_like(size), size)
    adds = np.append(s.reduce[s.gate_ids], False)  # with one more: the last gate may be empty
    of_gate = np.logical_or.reduceat(adds, s.gate_ptr[:-1]) & (np.diff(s.gate_ptr) > 0)
    summed = np.append(of_gate, False)[s.gate]  # where there is no gate: the last one
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
    """The messages of a phase on a group of `n` ranks; messages without bytes are gone.

    src, dst, size, way  per message; a rank does messages to itself without the network
    cost       per message: cycles of its reduction at the receiver, and of a local step
    join       per message: -1, or the messages that the network reduces on the way: join_ids of that join
    free       per rank: messages that wait for nothing
    held       per rank: messages that wait for nothing but the window
    opens      per message: gates that wait for it
    gate_size  per gate: messages that it waits for
    behind     per gate: messages that may leave when it is open
    need       per message: messages, whichever, that its sender must have taken in (a window)
    sends, receives  per rank: how many
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

    @cached_property
    def total(self) -> int:
        """Bytes that the network carries."""
        return int(self.size[self.src != self.dst].sum())


class Programs:
    """Makes programs, each only once. `cost`: cycles of reducing so many bytes; `cycles_of_ns`: of a file's delays,
    `unsaid_ns` where it does not say them. `offload`: whether collectives have an engine; None where nobody counts what
    goes through memories and engines."""

    def __init__(self, cost: Cost, cycles_of_ns: Cost, *, unsaid_ns: int = 0, offload: bool | None = None) -> None:
        self.cost, self.cycles_of_ns, self.offload = cost, cycles_of_ns, offload
        self.unsaid_ns = unsaid_ns
        # With the phase or schedule whose identity is in the key: as long as it is here nothing else can have it.
        self._of_phase: dict[Any, tuple[Phase, Program]] = {}
        self._made: dict[Any, tuple[CompiledSchedule, Program]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Copies have identities of their own: they are asked for anew."""
        return {**vars(self), "_of_phase": {}, "_made": {}}

    def get(self, phase: Phase, piece: int, *, mirror: bool) -> Program:
        """The program of a group that works on a piece of `piece` bytes (of `phase.pieces`)."""
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
        """One message of so many bytes from rank 0 to rank 1."""
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
            told = np.where(s.extra_ns == UNKNOWN_NS, self.unsaid_ns, s.extra_ns)
            cost += np.array([self.cycles_of_ns(ns) for ns in told.tolist()], np.int64)
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
        )


def _csr(name: str, group: NDArray[np.integer], values: NDArray[np.integer], groups: int) -> dict[str, Any]:
    """The values of each group, in order; those of group -1 are left out."""
    there = group >= 0
    order = np.argsort(group[there], kind="stable")
    ptr = pointers(np.bincount(group[there], minlength=groups))
    return {f"{name}_ptr": ptr, f"{name}_ids": values[there][order].astype(np.int32)}
