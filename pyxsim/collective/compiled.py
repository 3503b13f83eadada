"""A schedule as arrays: what the system layer runs and the checker proves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pyxsim.collective.arrays import I8, I32, I64, Bools, frozen, pointers, ranges
from pyxsim.collective.cell_contents import check_messages, contents
from pyxsim.collective.dependencies import gates, window_needs
from pyxsim.collective.kinds import Kind
from pyxsim.collective.schedule import Schedule


class StepOrigin(NamedTuple):
    """The step of a user's program that a message or a local step was made from.

    `part`: of which part of the rank, as errors begin its name: "threadblock 2 of ". `file`: file and line.
    """

    step: int
    part: str
    file: str


UNKNOWN_NS = -1  # ns of a computation of which a file does not say how long it takes


@dataclass(frozen=True, eq=False)
class CompiledSchedule:
    """The M messages of a collective on a group of `n` ranks, in an order in which they could be executed one by one.

    Message m goes from rank src[m] to dst[m] with the cells block_ids[block_ptr[m] : block_ptr[m + 1]] of the sender,
    which are added to the cells put_ids[...] of the receiver (reduce[m]) or stored there. It may leave as soon as

    - every message of its gate g = gate[m] has been taken in at src[m]: gate_ids[gate_ptr[g] : gate_ptr[g + 1]], none
      where the gate is -1; and
    - src[m] has taken in need[m] messages of others, whichever they are (0 everywhere unless there is a window).

    Where src[m] == dst[m] it is a *local step*, which the rank does for itself: nothing is sent. The messages of a
    *join* (join[m] >= 0; they follow each other) are handed to their receivers together, when the last of them has
    arrived, and each receiver gets the sum of what all of them carry.

    A rank is through when it has sent all its messages and taken in all that go to it.
    """

    kind: Kind
    algorithm: str
    n: int
    blocks: int
    cells: int  # cells 0 .. blocks-1 are the blocks, the rest is scratch room
    window: int | None
    src: I32
    dst: I32
    reduce: Bools
    way: I8  # -1: goes round the other way
    join: I32
    step: I32  # messages of one step are written side by side; never decreases
    block_ptr: I64
    block_ids: I32
    put_ids: I32  # most often the same array as block_ids
    content: I32  # the blocks whose data the cells hold; most often the same array, too
    gate: I32
    gate_ptr: I64
    gate_ids: I32
    need: I32
    empty: Bools  # bool[blocks]: blocks without bytes, which no message carries any more
    root: int = 0
    summed: Bools | None = None  # stored, but only until the receiver adds it to what it has
    written: tuple[StepOrigin | None, ...] = ()  # the steps that the messages were made from, if they were
    explicit_waits: bool = False  # the waits are not derived from the data, but came with the schedule
    extra_ns: I64 | None = None  # what local steps cost besides, in ns: computation in their middle, or UNKNOWN_NS
    given_bytes: I64 | None = None  # bytes of messages that a file fixed: no blocks, and nothing to prove about data
    unproved: str = ""  # why nothing is proved about data
    _variants: dict[Any, CompiledSchedule] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                frozen(value)

    def __len__(self) -> int:
        return len(self.src)

    def __str__(self) -> str:
        return f"{self.algorithm} {self.kind.name} on {self.n} ranks"

    @property
    def simple(self) -> bool:
        """Whether every block stays in the cell of its number."""
        return self.put_ids is self.block_ids and self.cells == self.blocks

    @property
    def keeps_empty(self) -> bool:
        """Whether all messages stay whatever blocks are empty: their waits, or the sharing of cells, need them."""
        return self.explicit_waits or not self.simple

    @cached_property
    def local(self) -> Bools:
        """bool[M]: steps that a rank does for itself."""
        return np.equal(self.src, self.dst)

    @cached_property
    def adds(self) -> Bools:
        """bool[M]: what the message brings is added to what is at its receiver."""
        adds = self.reduce | (self.join >= 0)
        return adds if self.summed is None else adds | self.summed

    def starts(self, block: int) -> Sequence[int]:
        """The ranks that hold the block, or contribute to it, at the start."""
        return self.kind.start(self.n, block // (self.blocks // self.kind.units(self.n)), self.root)

    def goals(self, block: int) -> Sequence[int]:
        """The ranks that must have the block complete at the end."""
        return self.kind.goal(self.n, block // (self.blocks // self.kind.units(self.n)), self.root)

    def blocks_of(self, message: int) -> I32:
        """The cells of its sender that a message carries: mostly the blocks of these numbers."""
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
        if self.given_bytes is not None:
            return self.given_bytes
        if len(block_sizes) != self.blocks:
            raise ValueError(f"{len(block_sizes)} block sizes for {self.blocks} blocks")
        total = pointers(block_sizes[self.content])
        return cast(I64, total[self.block_ptr[1:]] - total[self.block_ptr[:-1]])

    def without_empty(self, block_sizes: npt.NDArray[np.integer]) -> CompiledSchedule:
        """The schedule for blocks of these sizes: blocks of no bytes are not sent and nothing waits for them.

        Messages that carried nothing else are gone, so messages are numbered anew. Cached by which blocks are empty.
        Where the schedule `keeps_empty`, a message without bytes is done at once instead.
        """
        empty = np.asarray(block_sizes) == 0
        if self.keeps_empty or not empty.any():
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

    def each(values: list[int] | list[bool], dtype: type[np.generic]) -> npt.NDArray[Any]:
        return np.repeat(np.array(values, dtype=dtype), per_step)

    block_ids = _joined([step.blocks for step in steps])
    put_ids = _joined([step.puts for step in steps])
    moves = not np.array_equal(put_ids, block_ids)
    result = CompiledSchedule(
        kind=schedule.kind,
        algorithm=algorithm,
        n=schedule.n,
        blocks=schedule.blocks,
        cells=schedule.cells,
        window=schedule.window,
        src=_joined([step.src for step in steps]),
        dst=_joined([step.dst for step in steps]),
        reduce=each([step.reduce for step in steps], np.bool_),
        way=each([step.way for step in steps], np.int8),
        join=each([step.join for step in steps], np.int32),
        step=each(list(range(len(steps))), np.int32),
        block_ptr=pointers(each([step.per_message for step in steps], np.int64)),
        block_ids=block_ids,
        put_ids=put_ids if moves else block_ids,
        content=block_ids,
        gate=np.zeros(0, dtype=np.int32),
        gate_ptr=np.zeros(1, dtype=np.int64),
        gate_ids=np.zeros(0, dtype=np.int32),
        need=np.zeros(sum(per_step), dtype=np.int32),
        empty=np.zeros(schedule.blocks, dtype=bool),
    )
    check_messages(result, each([step.local for step in steps], np.bool_))
    return _with_waits(replace(result, content=contents(result)))


def _with_waits(s: CompiledSchedule) -> CompiledSchedule:
    found = gates(s.src, s.dst, s.reduce, s.step, s.block_ptr, s.block_ids, s.put_ids, s.cells)
    result = replace(s, gate=found.of, gate_ptr=found.ptr, gate_ids=found.ids)
    return result if s.window is None else replace(result, need=_needs(s, np.ones(len(s), dtype=bool)))


def _needs(s: CompiledSchedule, kept: Bools) -> I32:
    """What the window demands when only the `kept` messages are sent. Local steps neither send nor receive."""
    if s.window is None:
        return s.need
    sent = ~s.local
    need = np.zeros(len(s), dtype=np.int32)
    need[sent] = window_needs(s.src[sent], s.dst[sent], s.step[sent], s.n, s.window, kept[sent])
    return need


def _pruned(s: CompiledSchedule, empty: Bools) -> CompiledSchedule:
    full = ~empty[s.content]
    lengths = np.add.reduceat(full, s.block_ptr[:-1], dtype=np.int64) if len(s) else np.zeros(0, dtype=np.int64)
    kept = lengths > 0
    block_ids = s.block_ids[full]
    rest = replace(
        s,
        src=s.src[kept],
        dst=s.dst[kept],
        reduce=s.reduce[kept],
        way=s.way[kept],
        join=s.join[kept],
        step=s.step[kept],
        block_ptr=pointers(lengths[kept]),
        block_ids=block_ids,
        put_ids=block_ids,
        content=block_ids,
        need=_needs(s, kept)[kept],
        empty=empty,
    )
    found = gates(rest.src, rest.dst, rest.reduce, rest.step, rest.block_ptr, block_ids, block_ids, s.cells)
    return replace(rest, gate=found.of, gate_ptr=found.ptr, gate_ids=found.ids)


def _joined(parts: list[I64]) -> I32:
    return np.concatenate(parts).astype(np.int32) if parts else np.zeros(0, dtype=np.int32)


def _grouped(group: npt.NDArray[np.integer], values: I32, groups: int) -> tuple[I64, I32]:
    """CSR: the values of each group, in the order in which they stand."""
    order = np.argsort(group, kind="stable")
    ptr, ids = pointers(np.bincount(group, minlength=groups)), values[order]
    frozen(ptr)
    frozen(ids)
    return ptr, ids
