"""A schedule as arrays: what the system layer runs and the checker proves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from pyxsim.collective.arrays import I32, I64, Bools, frozen, pointers, ranges
from pyxsim.collective.dependence import gates, window_needs
from pyxsim.collective.kinds import Kind
from pyxsim.collective.schedule import Schedule, ScheduleError


@dataclass(frozen=True, eq=False)
class CompiledSchedule:
    """The M messages of a collective on a group of `n` ranks, in an order in which they could be executed one by one.

    Message m goes from rank src[m] to dst[m] with the blocks block_ids[block_ptr[m] : block_ptr[m + 1]] and is added to
    what is there (reduce[m]) or stored. It may leave as soon as

    - every message of its gate g = gate[m] has arrived at src[m]: gate_ids[gate_ptr[g] : gate_ptr[g + 1]], none where
      the gate is -1; and
    - src[m] has received need[m] messages, whichever they are (0 everywhere unless the algorithm has a window).

    A rank is through when it has sent all its messages and received all that go to it.
    """

    kind: Kind
    algorithm: str
    n: int
    blocks: int
    window: int | None
    src: I32
    dst: I32
    reduce: Bools
    step: I32  # messages of one step are written side by side; never decreases
    block_ptr: I64
    block_ids: I32
    gate: I32
    gate_ptr: I64
    gate_ids: I32
    need: I32
    empty: Bools  # bool[blocks]: blocks without bytes, which no message carries any more
    _variants: dict[Any, CompiledSchedule] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                frozen(value)

    def __len__(self) -> int:
        return len(self.src)

    def __str__(self) -> str:
        return f"{self.algorithm} {self.kind.name} on {self.n} ranks"

    def blocks_of(self, message: int) -> I32:
        """The blocks that a message carries."""
        return self.block_ids[self.block_ptr[message] : self.block_ptr[message + 1]]

    def waits_for(self, message: int) -> I32:
        """The messages that must have arrived at the sender before this one may leave."""
        gate = self.gate[message]
        return self.gate_ids[self.gate_ptr[gate] : self.gate_ptr[gate + 1]] if gate >= 0 else self.gate_ids[:0]

    @cached_property
    def deps(self) -> tuple[I64, I32]:
        """CSR over messages: `waits_for` of each. Large where many sends share a gate: gates are cheaper."""
        waiting = self.gate >= 0
        lengths = np.zeros(len(self), dtype=np.int64)
        lengths[waiting] = np.diff(self.gate_ptr)[self.gate[waiting]]
        gates = self.gate[waiting]
        return pointers(lengths), self.gate_ids[ranges(self.gate_ptr[gates], lengths[waiting])]

    @cached_property
    def opens(self) -> tuple[I64, I32]:
        """CSR over messages: the gates that wait for the arrival of each message."""
        members = np.repeat(np.arange(len(self.gate_ptr) - 1, dtype=np.int32), np.diff(self.gate_ptr))
        return _grouped(self.gate_ids, members, len(self))

    @cached_property
    def behind(self) -> tuple[I64, I32]:
        """CSR over gates: the messages that may leave (as far as data go) when each gate is open, in order."""
        waiting = np.flatnonzero(self.gate >= 0).astype(np.int32)
        return _grouped(self.gate[waiting], waiting, len(self.gate_ptr) - 1)

    @cached_property
    def sends(self) -> tuple[I64, I32]:
        """CSR over ranks: the messages that each rank sends, in order."""
        return _grouped(self.src, np.arange(len(self), dtype=np.int32), self.n)

    @cached_property
    def receives(self) -> tuple[I64, I32]:
        """CSR over ranks: the messages that each rank receives, in order."""
        return _grouped(self.dst, np.arange(len(self), dtype=np.int32), self.n)

    @cached_property
    def order(self) -> I32:
        """int32[M]: which send of its rank a message is, from 0."""
        ptr, ids = self.sends
        order = np.empty(len(self), dtype=np.int32)
        order[ids] = ranges(np.zeros(self.n, dtype=np.int64), np.diff(ptr))
        return order

    def message_bytes(self, block_sizes: npt.NDArray[np.integer]) -> I64:
        """Bytes of every message (int64[M]) when block b has block_sizes[b] bytes."""
        if len(block_sizes) != self.blocks:
            raise ValueError(f"{len(block_sizes)} block sizes for {self.blocks} blocks")
        total = pointers(block_sizes[self.block_ids])
        return cast(I64, total[self.block_ptr[1:]] - total[self.block_ptr[:-1]])

    def without_empty(self, block_sizes: npt.NDArray[np.integer]) -> CompiledSchedule:
        """The schedule for blocks of these sizes: blocks of no bytes are not sent and nothing waits for them.

        Messages that carried nothing else are gone, so messages are numbered anew. Cached by which blocks are empty.
        """
        empty = np.asarray(block_sizes) == 0
        if not empty.any():
            return self
        return self.variant(empty.tobytes(), lambda: _pruned(self, empty))

    def variant(self, key: object, build: Callable[[], CompiledSchedule]) -> CompiledSchedule:
        """A schedule made from this one, built once for every key."""
        if key not in self._variants:
            self._variants[key] = build()
        return self._variants[key]


def compiled(schedule: Schedule | CompiledSchedule, algorithm: str = "this schedule") -> CompiledSchedule:
    """The arrays of a schedule. Raises ScheduleError for messages that cannot be."""
    if isinstance(schedule, CompiledSchedule):
        return schedule
    steps = schedule.steps
    per_step = [len(step.src) for step in steps]
    src, dst = _joined([step.src for step in steps]), _joined([step.dst for step in steps])
    block_ptr = pointers(np.repeat(np.array([step.per_message for step in steps], dtype=np.int64), per_step))
    result = CompiledSchedule(
        kind=schedule.kind,
        algorithm=algorithm,
        n=schedule.n,
        blocks=schedule.blocks,
        window=schedule.window,
        src=src,
        dst=dst,
        reduce=np.repeat(np.array([step.reduce for step in steps], dtype=bool), per_step),
        step=np.repeat(np.arange(len(steps), dtype=np.int32), per_step),
        block_ptr=block_ptr,
        block_ids=_joined([step.blocks for step in steps]),
        gate=np.full(len(src), -1, dtype=np.int32),
        gate_ptr=np.zeros(1, dtype=np.int64),
        gate_ids=np.zeros(0, dtype=np.int32),
        need=np.zeros(len(src), dtype=np.int32),
        empty=np.zeros(schedule.blocks, dtype=bool),
    )
    _check_messages(result)
    return _with_waits(result)


def _with_waits(schedule: CompiledSchedule, kept: Bools | None = None) -> CompiledSchedule:
    s = schedule
    found = gates(s.src, s.dst, s.reduce, s.step, s.block_ptr, s.block_ids, s.blocks)
    if s.window is not None:
        need = window_needs(s.src, s.dst, s.step, s.n, s.window, np.ones(len(s), dtype=bool))
        return replace(s, gate=found.of, gate_ptr=found.ptr, gate_ids=found.ids, need=need)
    return replace(s, gate=found.of, gate_ptr=found.ptr, gate_ids=found.ids)


def _pruned(s: CompiledSchedule, empty: Bools) -> CompiledSchedule:
    full = ~empty[s.block_ids]
    lengths = np.add.reduceat(full, s.block_ptr[:-1], dtype=np.int64) if len(s) else np.zeros(0, dtype=np.int64)
    kept = lengths > 0
    block_ptr, block_ids = pointers(lengths[kept]), s.block_ids[full]
    src, dst, reduce, step = s.src[kept], s.dst[kept], s.reduce[kept], s.step[kept]
    found = gates(src, dst, reduce, step, block_ptr, block_ids, s.blocks)
    need = s.need[kept] if s.window is None else window_needs(s.src, s.dst, s.step, s.n, s.window, kept)[kept]
    return replace(
        s,
        src=src,
        dst=dst,
        reduce=reduce,
        step=step,
        block_ptr=block_ptr,
        block_ids=block_ids,
        gate=found.of,
        gate_ptr=found.ptr,
        gate_ids=found.ids,
        need=need,
        empty=empty,
    )


def _check_messages(s: CompiledSchedule) -> None:
    """Refuse messages that no group of n ranks can exchange. Raises ScheduleError for the first one."""
    lengths = np.diff(s.block_ptr)
    beyond, twice = np.zeros((2, len(s)), dtype=bool)
    unknown = np.flatnonzero((s.block_ids < 0) | (s.block_ids >= s.blocks))
    beyond[np.searchsorted(s.block_ptr, unknown, "right") - 1] = True
    many = lengths > 1
    message = np.repeat(np.flatnonzero(many), lengths[many])
    keys = np.sort(message * s.blocks + s.block_ids[np.repeat(many, lengths)])
    twice[keys[1:][keys[1:] == keys[:-1]] // s.blocks] = True
    ranks = f"ranks 0 to {s.n - 1}"
    for wrong, problem, allowed in (
        ((s.src < 0) | (s.src >= s.n) | (s.dst < 0) | (s.dst >= s.n), "there is no such rank", ranks),
        (s.src == s.dst, "a rank sends to itself", "another rank"),
        (lengths == 0, "it carries no block", "at least one block"),
        (beyond, "there is no such block", f"blocks 0 to {s.blocks - 1}"),
        (twice, "it carries a block twice", "every block once"),
    ):
        if wrong.any():
            m = int(np.argmax(wrong))
            where = f"message {m}, {s.src[m]} -> {s.dst[m]} with blocks {_some(s.blocks_of(m))}"
            raise ScheduleError(f"{s}: {where}: {problem}", allowed=allowed, rank=int(s.src[m]))


def _some(numbers: npt.NDArray[np.integer]) -> str:
    text = ", ".join(str(number) for number in numbers[:8])
    return f"{text}, ..." if len(numbers) > 8 else text or "none"


def _joined(parts: list[I64]) -> I32:
    return np.concatenate(parts).astype(np.int32) if parts else np.zeros(0, dtype=np.int32)


def _grouped(group: npt.NDArray[np.integer], values: I32, groups: int) -> tuple[I64, I32]:
    """CSR: the values of each group, in the order in which they stand."""
    order = np.argsort(group, kind="stable")
    ptr, ids = pointers(np.bincount(group, minlength=groups)), values[order]
    frozen(ptr)
    frozen(ids)
    return ptr, ids
