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
from typing import NoReturn

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
    """One block through the schedule: where its contributions get to, and whether that depends on luck."""

    def __init__(self, lists: _Lists, block: int, messages: list[int]) -> None:
        self.s = lists.schedule
        self.lists = lists
        self.block = block
        self.messages = messages  # those that carry the block, in order

    def prove(self) -> None:
        self._add_up()
        self._keep_order()

    def _add_up(self) -> None:
        """Execute in the order of the schedule, contributions as bit masks of ranks."""
        kind, n = self.s.kind, self.s.n
        unit = self.block // (self.s.blocks // kind.units(n))
        value = [0] * n
        for rank in kind.start(n, unit):
            value[rank] = 1 << rank
        full = sum(value)
        for side_by_side in self._steps():
            carried = [value[self.lists.src[m]] for m in side_by_side]
            for m, new in zip(side_by_side, carried, strict=True):
                rank = self.lists.dst[m]
                if not new:
                    self._refuse(m, f"sends block {self.block}, which rank {{}} does not have", self.lists.src[m])
                if not self.lists.reduce[m]:
                    value[rank] = new
                    continue
                if not value[rank]:
                    self._refuse(m, f"adds to block {self.block}, which rank {{}} does not have", rank)
                if twice := _ranks(value[rank] & new):
                    problem = f"adds the contributions of {_text(twice)} to block {self.block} of rank {{}} again"
                    self._refuse(m, problem, rank, twice)
                value[rank] |= new
        for rank in kind.goal(n, unit):
            if value[rank] != full:
                missing = _ranks(full & ~value[rank])
                what = f"the contributions of {_text(missing)}" if value[rank] else "anything"
                raise ScheduleError(
                    f"{self.s}: rank {rank} ends without {what} in block {self.block}",
                    rank=rank,
                    block=self.block,
                    missing=missing,
                )

    def _steps(self) -> Iterator[list[int]]:
        """The messages, those of one step together."""
        step, group = self.lists.step, list[int]()
        for m in self.messages:
            if group and step[m] != step[group[0]]:
                yield group
                group = []
            group.append(m)
        if group:
            yield group

    def _keep_order(self) -> None:
        """Compare accesses to the same cell. Sets of messages are bit masks over `self.messages`."""
        src, dst, reduce = self.lists.src, self.lists.dst, self.lists.reduce
        before = self._enforced()
        # Per rank: the last message that stored; those that wrote since, that one included; those that read since.
        stored, wrote, read = [0] * self.s.n, [0] * self.s.n, [0] * self.s.n
        accesses = []
        start = 0
        for side_by_side in self._steps():
            numbers = range(start, start + len(side_by_side))
            start += len(side_by_side)
            accesses += [(i, False) for i in numbers] + [(i, True) for i in numbers]
        for i, writes in accesses:
            m = self.messages[i]
            if not writes:
                rank = src[m]
                loose = wrote[rank] & ~before[i]
                read[rank] |= 1 << i
            elif reduce[m]:
                rank = dst[m]
                loose = (read[rank] | stored[rank]) & ~before[i]
                wrote[rank] |= 1 << i
            else:
                rank = dst[m]
                loose = (read[rank] | wrote[rank]) & ~before[i]
                stored[rank] = wrote[rank] = 1 << i
                read[rank] = 0
            if loose:
                other = self._name(self.messages[(loose & -loose).bit_length() - 1])
                problem = f"and {other} both touch block {self.block} at rank {{}}, and nothing puts them in order"
                self._refuse(m, problem, rank)

    def _enforced(self) -> list[int]:
        """For each message those that are enforced to be before it, over the waits between messages of this block."""
        gate, ptr, ids = self.lists.gate, self.lists.gate_ptr, self.lists.gate_ids
        number = {m: i for i, m in enumerate(self.messages)}
        before: list[int] = []
        behind = {-1: 0}  # gate -> the messages before it
        for m in self.messages:
            g = gate[m]
            if g not in behind:
                mask = 0
                for dep in ids[ptr[g] : ptr[g + 1]]:
                    if dep in number:
                        mask |= before[number[dep]] | 1 << number[dep]
                behind[g] = mask
            before.append(behind[g])
        return before

    def _name(self, m: int) -> str:
        return f"step {self.s.order[m]} of rank {self.lists.src[m]} (-> {self.lists.dst[m]})"

    def _refuse(self, m: int, problem: str, rank: int, duplicate: tuple[int, ...] = ()) -> NoReturn:
        raise ScheduleError(
            f"{self.s}: {self._name(m)} {problem.format(rank)}",
            rank=rank,
            step=int(self.s.order[m]),
            block=self.block,
            duplicate=duplicate,
        )


def _ranks(mask: int) -> tuple[int, ...]:
    return tuple(rank for rank in range(mask.bit_length()) if mask >> rank & 1)


def _text(ranks: tuple[int, ...]) -> str:
    noun = "rank" if len(ranks) == 1 else "ranks"
    return f"{noun} {', '.join(map(str, ranks[:8]))}" + (", ..." if len(ranks) > 8 else "")
