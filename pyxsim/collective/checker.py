"""The proof that a schedule does what its kind says, whatever the network does to its messages.

A block is followed on its own, from rank to rank, as a set of contributions (a bit mask of ranks). The messages that
carry it are executed in the order of the schedule, and in every cell (the block at one rank) each access is compared
with those before it: a read and a write, or two writes that are not both additions, must be in an order that the
schedule enforces. Message a is enforced to be before b when b waits for a, or for a message that a is before. Then
every order of arrival gives the same result as the order of the schedule.

Only waits between messages that carry the block count, so the proof also holds for every schedule that is left when
other blocks have no bytes. Windows are not needed for the proof: they only delay, and cannot lock up (`window_needs`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pyxsim.collective.arrays import ranges
from pyxsim.collective.compiled import CompiledSchedule, compiled
from pyxsim.collective.schedule import Schedule, ScheduleError


def prove(schedule: Schedule | CompiledSchedule) -> None:
    """Raise ScheduleError unless every rank of the goal ends with every contribution exactly once, in any order."""
    s = compiled(schedule)
    _check_waits(s)
    carriers = np.repeat(np.arange(len(s)), np.diff(s.block_ptr))
    order = np.argsort(s.block_ids, kind="stable")
    ends = np.cumsum(np.bincount(s.block_ids, minlength=s.blocks))
    of_block = np.split(carriers[order], ends[:-1])
    arrays = _Lists(s)
    for block in np.flatnonzero(~s.empty).tolist():
        _Journey(arrays, block, of_block[block].tolist()).prove()


def _check_waits(s: CompiledSchedule) -> None:
    """Each message may only wait for messages that come before it and arrive at its sender."""
    waiting = np.flatnonzero(s.gate >= 0)
    # Of the messages of one rank behind one gate the first will do.
    _, at = np.unique(s.gate[waiting] * np.int64(s.n) + s.src[waiting], return_index=True)
    first = waiting[at]
    lengths = np.diff(s.gate_ptr)[s.gate[first]]
    message, dep = np.repeat(first, lengths), s.gate_ids[ranges(s.gate_ptr[s.gate[first]], lengths)]
    for wrong, problem in (
        (dep >= message, "does not come before it"),
        (s.dst[dep] != s.src[message], "does not arrive at its sender"),
    ):
        if wrong.any():
            m, other = int(message[np.argmax(wrong)]), int(dep[np.argmax(wrong)])
            raise ScheduleError(
                f"{s}: message {m}, {s.src[m]} -> {s.dst[m]}, waits for message {other}, "
                f"{s.src[other]} -> {s.dst[other]}, which {problem}",
                rank=int(s.src[m]),
                step=int(s.order[m]),
            )


class _Lists:
    """The arrays as lists: single elements of these are read many times."""

    def __init__(self, s: CompiledSchedule) -> None:
        self.schedule = s
        self.src: list[int] = s.src.tolist()
        self.dst: list[int] = s.dst.tolist()
        self.reduce: list[bool] = s.reduce.tolist()
        self.step: list[int] = s.step.tolist()
        self.gate: list[int] = s.gate.tolist()
        self.gate_ptr: list[int] = s.gate_ptr.tolist()
        self.gate_ids: list[int] = s.gate_ids.tolist()


class _Journey:
    """One block through the schedule. Sets of messages are bit masks over the messages that carry it (`messages`)."""

    def __init__(self, lists: _Lists, block: int, messages: list[int]) -> None:
        self.s = lists.schedule
        self.lists = lists
        self.block = block
        self.messages = messages
        kind, n = self.s.kind, self.s.n
        unit = block // (self.s.blocks // kind.units(n))
        self.goal = kind.goal(n, unit)
        self.value = [0] * n
        for rank in kind.start(n, unit):
            self.value[rank] = 1 << rank
        self.full = sum(self.value)
        # Per rank: the last message that stored; the messages that wrote since (that one included) and that read since.
        self.stored, self.wrote, self.read = [0] * n, [0] * n, [0] * n
        self.before: list[int] = []  # of each message: those that are enforced to be before it

    def prove(self) -> None:
        self._order()
        for side_by_side in self._steps():
            carried = [self._read(i) for i in side_by_side]
            for i, value in zip(side_by_side, carried, strict=True):
                self._write(i, value)
        for rank in self.goal:
            if self.value[rank] != self.full:
                missing = _ranks(self.full & ~self.value[rank])
                what = f"the contributions of ranks {_text(missing)}" if self.value[rank] else "anything"
                raise ScheduleError(
                    f"{self.s}: rank {rank} ends without {what} in block {self.block}",
                    rank=rank,
                    block=self.block,
                    missing=missing,
                )

    def _order(self) -> None:
        """Which message is enforced to be before which, over the waits between messages of this block."""
        local = {m: i for i, m in enumerate(self.messages)}
        behind: dict[int, int] = {-1: 0}  # gate -> the messages before it
        gate, ptr, ids = self.lists.gate, self.lists.gate_ptr, self.lists.gate_ids
        for m in self.messages:
            g = gate[m]
            if g not in behind:
                mask = 0
                for dep in ids[ptr[g] : ptr[g + 1]]:
                    if dep in local:
                        mask |= self.before[local[dep]] | 1 << local[dep]
                behind[g] = mask
            self.before.append(behind[g])

    def _steps(self) -> Iterator[list[int]]:
        step, group = self.lists.step, list[int]()
        for i, m in enumerate(self.messages):
            if group and step[m] != step[self.messages[group[0]]]:
                yield group
                group = []
            group.append(i)
        if group:
            yield group

    def _read(self, i: int) -> int:
        rank = self.lists.src[self.messages[i]]
        self._enforced(self.wrote[rank], i, rank)
        self.read[rank] |= 1 << i
        if not self.value[rank]:
            raise self._error(i, f"sends block {self.block}, which rank {rank} does not have", rank)
        return self.value[rank]

    def _write(self, i: int, carried: int) -> None:
        m = self.messages[i]
        rank = self.lists.dst[m]
        self._enforced(self.read[rank], i, rank)
        if not self.lists.reduce[m]:
            self._enforced(self.wrote[rank], i, rank)
            self.stored[rank] = self.wrote[rank] = 1 << i
            self.read[rank] = 0
            self.value[rank] = carried
            return
        self._enforced(self.stored[rank], i, rank)
        if not self.value[rank]:
            raise self._error(i, f"adds to block {self.block}, which rank {rank} does not have", rank)
        if twice := _ranks(self.value[rank] & carried):
            problem = f"adds the contributions of ranks {_text(twice)} to block {self.block} of rank {rank} again"
            raise self._error(i, problem, rank, duplicate=twice)
        self.wrote[rank] |= 1 << i
        self.value[rank] |= carried

    def _enforced(self, earlier: int, i: int, rank: int) -> None:
        """Every message in `earlier` must be enforced to be before message i; both touch the block at this rank."""
        loose = earlier & ~self.before[i]
        if loose:
            other = self._name(self.messages[(loose & -loose).bit_length() - 1])
            problem = f"and {other} both touch block {self.block} at rank {rank}, and nothing puts them in order"
            raise self._error(i, problem, rank)

    def _name(self, m: int) -> str:
        return f"step {self.s.order[m]} of rank {self.lists.src[m]} (-> {self.lists.dst[m]})"

    def _error(self, i: int, problem: str, rank: int, duplicate: tuple[int, ...] = ()) -> ScheduleError:
        m = self.messages[i]
        return ScheduleError(
            f"{self.s}: {self._name(m)} {problem}",
            rank=rank,
            step=int(self.s.order[m]),
            block=self.block,
            duplicate=duplicate,
        )


def _ranks(mask: int) -> tuple[int, ...]:
    return tuple(rank for rank in range(mask.bit_length()) if mask >> rank & 1)


def _text(ranks: tuple[int, ...]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
