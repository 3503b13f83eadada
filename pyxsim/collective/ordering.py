"""The order that a schedule enforces on its messages, and whether accesses to shared cells have one.

Sets of messages are bit masks, short ones for the messages that carry one block. Where blocks share cells, or waits are
explicit, any wait may order any two messages; but usually they wait for each other directly, or through messages that
carry the block. Only the remaining pairs need a search through all messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pyxsim.collective.arrays import I64
from pyxsim.collective.compiled import CompiledSchedule

_AT_ONCE = 4096  # bits of the masks over all messages


class Lists:
    """The arrays of a schedule as lists: single elements are read many times."""

    def __init__(self, s: CompiledSchedule) -> None:
        self.schedule = s
        self.src: list[int] = s.src.tolist()
        self.dst: list[int] = s.dst.tolist()
        self.reduce: list[bool] = s.reduce.tolist()
        self.step: list[int] = s.step.tolist()
        self.join: list[int] = s.join.tolist()
        self.gate: list[int] = s.gate.tolist()
        ptr, ids = s.gate_ptr.tolist(), s.gate_ids.tolist()
        self.waits: list[list[int]] = [ids[a:b] for a, b in pairwise(ptr)]  # of each gate

    def steps(self, messages: Sequence[int]) -> list[range]:
        """Return the positions of ordered messages, those of one step together."""
        step = self.step
        ends = [i for i in range(1, len(messages)) if step[messages[i]] != step[messages[i - 1]]]
        return [range(a, b) for a, b in pairwise([0, *ends, len(messages)])] if messages else []


class Enforced(NamedTuple):
    """Three sets for each message, by position: messages that have arrived before it leaves; messages that have arrived
    before it arrives; messages that have left before it arrives, itself included."""

    before: list[int]
    arrived: list[int]
    left: list[int]


def enforced(lists: Lists, messages: Sequence[int], place: Mapping[int, int], bit: Mapping[int, int]) -> Enforced:
    """Return the order enforced by the waits between `messages`, at these positions; `bit` numbers the ones to
    report."""
    gate, join = lists.gate, lists.join
    order = Enforced([], [], [])
    before, arrived, left = order
    behind = {-1: (0, 0)}  # gate -> messages that have arrived, and have left, when it opens
    for side_by_side in lists.steps(messages):
        for i in side_by_side:
            m = messages[i]
            g = gate[m]
            if g not in behind:
                here, gone = 0, 0
                for dep in lists.waits[g]:
                    j = place.get(dep)
                    if j is not None:
                        here |= arrived[j] | _one(bit, dep)
                        gone |= left[j]
                behind[g] = here, gone
            here, gone = behind[g]
            before.append(here)
            arrived.append(here)
            left.append(gone | _one(bit, m))
        if join[messages[side_by_side[0]]] >= 0:
            here, gone = 0, 0
            for i in side_by_side:
                here, gone = here | arrived[i], gone | left[i]
            for i in side_by_side:
                arrived[i], left[i] = here, gone
    return order


def _one(bit: Mapping[int, int], message: int) -> int:
    number = bit.get(message)
    return 0 if number is None else 1 << number


class Unordered(NamedTuple):
    """A message and an earlier one that access a cell without an order, at least one of them to change it.

    `block`: what the first has in the cell.
    """

    message: int
    other: int
    cell: int
    block: int


class _Pair(NamedTuple):
    """A pair not yet known to be ordered: `other` must be in set number `which` of `Enforced`."""

    access: Unordered
    which: int


def first_unordered(lists: Lists, reads: I64, writes: I64) -> Unordered | None:
    """Return the first unordered access to a cell; None if all are ordered.

    `reads`, `writes`: numbers of cells, rank included, in the order of `block_ids`.
    """
    open_ = _Accesses(lists, reads, writes).open
    sources = sorted({pair.access.other for pair in open_})
    everything = range(len(lists.schedule))
    same = dict(zip(everything, everything, strict=True))
    for begin in range(0, len(sources), _AT_ONCE):
        bit = {m: i for i, m in enumerate(sources[begin : begin + _AT_ONCE])}
        known = enforced(lists, everything, same, bit)
        open_ = [
            pair
            for pair in open_
            if pair.access.other not in bit or not known[pair.which][pair.access.message] >> bit[pair.access.other] & 1
        ]
    same_cell = (pair.access for pair in open_ if pair.access[::2] == open_[0].access[::2])
    return min(same_cell, default=None)


class _Accesses:
    """All accesses of a schedule. `open`: pairs ordered neither directly nor through messages of the block."""

    def __init__(self, lists: Lists, reads: I64, writes: I64) -> None:
        self.lists = lists
        self.open: list[_Pair] = []
        s = lists.schedule
        carriers = np.repeat(np.arange(len(s)), np.diff(s.block_ptr))
        order = np.argsort(s.content, kind="stable")
        ends = np.cumsum(np.bincount(s.content, minlength=s.blocks))
        self._carry = np.split(carriers[order], ends[:-1])  # the messages that carry each block
        self._known: dict[int, tuple[dict[int, int], Enforced]] = {}
        self._waits = [set(waits) for waits in lists.waits]
        self._walk(reads.tolist(), writes.tolist())

    def _walk(self, reads: list[int], writes: list[int]) -> None:
        s, adds = self.lists.schedule, self.lists.reduce
        ptr, content = s.block_ptr.tolist(), s.content.tolist()
        # Per cell: the last message that stored; the writers since, that one included; the readers since.
        stored, wrote, read = dict[int, set[int]](), dict[int, set[int]](), dict[int, set[int]]()
        none = set[int]()
        for side_by_side in self.lists.steps(range(len(s))):
            for m in side_by_side:
                for place in range(ptr[m], ptr[m + 1]):
                    cell = reads[place]
                    self._need(wrote.get(cell, none), 0, m, cell, content[place])
                    read.setdefault(cell, set()).add(m)
            for m in side_by_side:
                for place in range(ptr[m], ptr[m + 1]):
                    cell = writes[place]
                    if not (adds[m] and s.kind.idempotent):
                        self._need(read.get(cell, none), 2, m, cell, content[place])
                    self._need((stored if adds[m] else wrote).get(cell, none), 1, m, cell, content[place])
                    if adds[m]:
                        wrote.setdefault(cell, set()).add(m)
                    else:
                        stored[cell], wrote[cell], read[cell] = {m}, {m}, set()

    def _need(self, others: set[int], which: int, m: int, cell: int, block: int) -> None:
        gate = self.lists.gate[m]
        rest = others - self._waits[gate] if gate >= 0 else others
        if not rest:
            return
        place, known = self._over(block)
        mask = known[which][place[m]]
        for other in sorted(rest):
            at = place.get(other)
            if at is None or not mask >> at & 1:
                self.open.append(_Pair(Unordered(m, other, cell, block), which))

    def _over(self, block: int) -> tuple[dict[int, int], Enforced]:
        """The order enforced by the messages that carry a block."""
        if block not in self._known:
            # A message may carry copies of a block in several cells.
            messages = list(dict.fromkeys(self._carry[block].tolist()))
            place = {m: i for i, m in enumerate(messages)}
            self._known[block] = place, enforced(self.lists, messages, place, place)
        return self._known[block]
