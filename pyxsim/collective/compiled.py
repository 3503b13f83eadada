"""A schedule as arrays: what the system layer runs and the checker proves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pyxsim.collective.arrays import I8, I32, I64, Bools, frozen, pointers, ranges
from pyxsim.collective.dependencies import gates, window_needs
from pyxsim.collective.kinds import Kind


class StepOrigin(NamedTuple):
    """The step of a user's program from which a message or local step was made.

    `part`: the part of the rank, as error messages begin: "threadblock 2 of ". `file`: file and line.
    """

    step: int
    part: str
    file: str


MOST_VARIANTS = 256  # kept of a schedule
UNKNOWN_NS = -1  # ns of a computation without a duration in its file


@dataclass(frozen=True, eq=False)
class CompiledSchedule:
    """The M messages of a collective on a group of `n` ranks, in an order in which they could be executed one by one.

    Message m goes from rank src[m] to dst[m] with the cells block_ids[block_ptr[m] : block_ptr[m + 1]] of the sender,
    which are added to the cells put_ids[...] of the receiver (reduce[m]) or stored there. It may leave as soon as

    - every message of its gate g = gate[m] has arrived at src[m]: gate_ids[gate_ptr[g] : gate_ptr[g + 1]], none where
      the gate is -1; and
    - src[m] has received need[m] messages, of any kind (0 everywhere without a window).

    Where src[m] == dst[m] it is a *local step*: nothing is sent. The messages of a *join* (join[m] >= 0, consecutive)
    are delivered together when the last of them has arrived, and each receiver gets the sum of all of them. Messages
    with the same number in `fused` are one access of the switch: a load of a sum, or a store to all.

    A rank has finished when it has sent all its messages and received all messages for it.
    """

    kind: Kind
    algorithm: str
    n: int
    blocks: int
    cells: int  # cells 0 .. blocks-1 are the blocks, the rest is scratch space
    window: int | None
    src: I32
    dst: I32
    reduce: Bools
    way: I8  # direction: 1 clockwise, -1 counterclockwise
    join: I32
    step: I32  # independent messages written together share a step; never decreases
    block_ptr: I64
    block_ids: I32
    put_ids: I32  # usually the same array as block_ids
    content: I32  # the blocks whose data the cells hold; usually the same array, too
    gate: I32
    gate_ptr: I64
    gate_ids: I32
    need: I32
    empty: Bools  # bool[blocks]: blocks without bytes, which no message carries
    root: int = 0
    summed: Bools | None = None  # bool[M]: the receiver stores it, then adds it to its data
    written: tuple[StepOrigin | None, ...] = ()  # origins of the messages, if they have one
    explicit_waits: bool = False  # waits are given, not derived from the data
    extra_ns: I64 | None = None  # int64[M], extra ns of local steps that compute, or UNKNOWN_NS
    given_bytes: I64 | None = None  # int64[M], bytes from a file: no blocks, and no proof about data
    unproved: str = ""  # why its data are not proved
    access: I8 | None = None  # pyxsim/collective/accesses.py; None: all are stores
    fused: I32 | None = None  # -1 for messages of their own; None: all are
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
        """Whether messages of empty blocks stay: explicit waits or shared cells need them."""
        return self.explicit_waits or not self.simple

    @cached_property
    def local(self) -> Bools:
        """bool[M]: local steps."""
        return np.equal(self.src, self.dst)

    @property
    def in_network(self) -> bool:
        """Whether the switch adds or copies data."""
        return bool((self.join >= 0).any()) or self.fused is not None

    @cached_property
    def adds(self) -> Bools:
        """bool[M]: the receiver adds the message to its data."""
        adds = self.reduce | (self.join >= 0)
        return adds if self.summed is None else adds | self.summed

    def starts(self, block: int) -> Sequence[int]:
        """Return the ranks that hold the block, or contribute to it, at the start."""
        return self.kind.start(self.n, block // (self.blocks // self.kind.units(self.n)), self.root)

    def goals(self, block: int) -> Sequence[int]:
        """Return the ranks that must have the complete block at the end."""
        return self.kind.goal(self.n, block // (self.blocks // self.kind.units(self.n)), self.root)

    def blocks_of(self, message: int) -> I32:
        """Return the cells of the sender that a message carries; usually the blocks of the same numbers."""
        return self.block_ids[self.block_ptr[message] : self.block_ptr[message + 1]]

    def waits_for(self, message: int) -> I32:
        """Return the messages that must arrive at the sender before this one may leave."""
        gate = self.gate[message]
        return self.gate_ids[self.gate_ptr[gate] : self.gate_ptr[gate + 1]] if gate >= 0 else self.gate_ids[:0]

    @cached_property
    def deps(self) -> tuple[I64, I32]:
        """CSR over messages: `waits_for` of each. Large where many sends share a gate; gates are cheaper."""
        waiting = self.gate >= 0
        lengths = np.zeros(len(self), dtype=np.int64)
        lengths[waiting] = np.diff(self.gate_ptr)[self.gate[waiting]]
        gates = self.gate[waiting]
        return pointers(lengths), self.gate_ids[ranges(self.gate_ptr[gates], lengths[waiting])]

    @cached_property
    def opens(self) -> tuple[I64, I32]:
        """CSR over messages: the gates that wait for each message."""
        members = np.repeat(np.arange(len(self.gate_ptr) - 1, dtype=np.int32), np.diff(self.gate_ptr))
        return _grouped(self.gate_ids, members, len(self))

    @cached_property
    def behind(self) -> tuple[I64, I32]:
        """CSR over gates: the messages that each gate releases, in order."""
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
        """int32[M]: index of a message among the sends of its rank, from 0."""
        ptr, ids = self.sends
        order = np.empty(len(self), dtype=np.int32)
        order[ids] = ranges(np.zeros(self.n, dtype=np.int64), np.diff(ptr))
        return order

    def message_bytes(self, block_sizes: npt.NDArray[np.integer]) -> I64:
        """Return the bytes of every message, int64[M], if block b has block_sizes[b] bytes."""
        if self.given_bytes is not None:
            return self.given_bytes
        if len(block_sizes) != self.blocks:
            raise ValueError(f"{len(block_sizes)} block sizes are given for {self.blocks} blocks")
        total = pointers(block_sizes[self.content])
        return cast(I64, total[self.block_ptr[1:]] - total[self.block_ptr[:-1]])

    def without_empty(self, block_sizes: npt.NDArray[np.integer]) -> CompiledSchedule:
        """Return the schedule for blocks of these sizes: empty blocks are not sent, and nothing waits for them.

        Messages without blocks are removed and the rest renumbered. Cached by the set of empty blocks. With
        `keeps_empty` an empty message completes at once instead.
        """
        empty = np.asarray(block_sizes) == 0
        if self.keeps_empty or not empty.any():
            return self
        return self.variant(empty.tobytes(), lambda: _pruned(self, empty))

    def variant(self, key: object, build: Callable[[], CompiledSchedule]) -> CompiledSchedule:
        """Return a schedule derived from this one, built once per key."""
        if key not in self._variants:
            if len(self._variants) >= MOST_VARIANTS:  # an all-to-all has one for each set of pairs that send
                self._variants.pop(next(iter(self._variants)))
            self._variants[key] = build()
        return self._variants[key]


def needs_of_window(s: CompiledSchedule, kept: Bools) -> I32:
    """The needs of the window if only the `kept` messages are sent. Local steps neither send nor receive."""
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
        need=needs_of_window(s, kept)[kept],
        empty=empty,
        access=None if s.access is None else s.access[kept],
        fused=None if s.fused is None else s.fused[kept],
    )
    new_gates = gates(rest.src, rest.dst, rest.reduce, rest.step, rest.block_ptr, block_ids, block_ids, s.cells)
    return replace(rest, gate=new_gates.of, gate_ptr=new_gates.ptr, gate_ids=new_gates.ids)


def _grouped(group: npt.NDArray[np.integer], values: I32, groups: int) -> tuple[I64, I32]:
    """CSR: the values of each group, in their order."""
    order = np.argsort(group, kind="stable")
    ptr, ids = pointers(np.bincount(group, minlength=groups)), values[order]
    frozen(ptr)
    frozen(ids)
    return ptr, ids
