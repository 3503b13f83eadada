"""Whether accesses to shared cells are in order, where all messages of a schedule have to be looked at together.

That is so where blocks share cells or waits are the schedule's own. Such a schedule may have very many messages, but
mostly each waits directly for those that it must come after. Only where it does not is the way back searched.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pyxsim.collective.arrays import I64
from pyxsim.collective.compiled import CompiledSchedule

# (message, an earlier one, cell, block): both touch the cell, where the first one has the block, in no order
Loose = tuple[int, int, int, int]


def loose_accesses(s: CompiledSchedule, reads: I64, writes: I64) -> Iterator[Loose]:
    """Pairs of messages that access the same cell, at least one of them to change it, in no enforced order.

    `reads`, `writes`: numbers of the cells, rank included, in the places of `block_ids`.
    """
    before = _Before(s)
    ptr, reduce, step = s.block_ptr.tolist(), s.reduce.tolist(), s.step.tolist()
    read_at, write_at, content = reads.tolist(), writes.tolist(), s.content.tolist()
    # Per cell: the last message that stored; those that wrote since, that one included; those that read since.
    stored, wrote, read = dict[int, set[int]](), dict[int, set[int]](), dict[int, set[int]]()
    none = set[int]()
    begin = 0
    while begin < len(s):
        end = begin
        while end < len(s) and step[end] == step[begin]:
            for place in range(ptr[end], ptr[end + 1]):
                cell = read_at[place]
                for other in before.not_arrived(wrote.get(cell, none), end):
                    yield end, other, cell, content[place]
                read.setdefault(cell, set()).add(end)
            end += 1
        for m in range(begin, end):
            for place in range(ptr[m], ptr[m + 1]):
                cell, adds = write_at[place], reduce[m]
                readers = none if adds and s.kind.idempotent else read.get(cell, none)
                writers = (stored if adds else wrote).get(cell, none)
                for other in before.not_over(readers, writers, m):
                    yield m, other, cell, content[place]
                if adds:
                    wrote.setdefault(cell, set()).add(m)
                else:
                    stored[cell], wrote[cell], read[cell] = {m}, {m}, set()
        begin = end


class _Before:
    """What is enforced to be before what, found by going back along the waits and through the joins."""

    def __init__(self, s: CompiledSchedule) -> None:
        self._gate: list[int] = s.gate.tolist()
        ptr, ids = s.gate_ptr.tolist(), s.gate_ids.tolist()
        self._waits = [set(ids[a:b]) for a, b in pairwise(ptr)]
        self._joined: dict[int, list[int]] = {}
        self._join: list[int] = s.join.tolist()
        for m, join in enumerate(self._join):
            if join >= 0:
                self._joined.setdefault(join, []).append(m)

    def not_arrived(self, others: set[int], m: int) -> list[int]:
        """Which of the others need not have arrived when m leaves."""
        rest = others - self._waits_of(m)
        return sorted(rest - self._back([m], min(rest))[0]) if rest else []

    def not_over(self, readers: set[int], writers: set[int], m: int) -> list[int]:
        """Which of the readers need not have left, or of the writers not have arrived, when m arrives."""
        direct = self._waits_of(m)
        readers, writers = readers - direct - {m}, writers - direct
        if not readers and not writers:
            return []
        together = self._together(m)
        arrived, left = self._back(together, min(readers | writers))
        return sorted((readers - left - set(together)) | (writers - arrived))

    def _back(self, messages: list[int], lowest: int) -> tuple[set[int], set[int]]:
        """Those that have arrived, and those that have left, when all of these have left; from `lowest` on."""
        arrived, left = set[int](), set[int]()
        ahead = list(messages)
        while ahead:
            for dep in self._waits_of(ahead.pop()):
                together = self._together(dep)
                if together[-1] >= lowest and dep not in arrived:
                    arrived.add(dep)
                    new = [other for other in together if other not in left]
                    left.update(new)
                    ahead += new
        return arrived, left

    def _waits_of(self, m: int) -> set[int]:
        gate = self._gate[m]
        return self._waits[gate] if gate >= 0 else set()

    def _together(self, m: int) -> list[int]:
        """Those that arrive together with m, itself included: all of them have left then."""
        join = self._join[m]
        return self._joined[join] if join >= 0 else [m]
