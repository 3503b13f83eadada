"""The proof that a schedule computes its collective, in any order of arrival.

Each block is followed from rank to rank as a set of contributions (a bit mask of ranks). The messages that carry it are
executed in the order of the schedule. In every cell (the block at one rank) each access is compared with the earlier
ones: a read and a write, or two writes that are not both additions, must be ordered by the schedule. Message a is
ordered before b if b waits for a, or for a message that a is ordered before. Then every order of arrival gives the same
result as the order of the schedule.

The messages of a join arrive together: what is before one of them leaves is before all of them arrive, and all of them
have left before one arrives. A local step reads before it writes. Where contributions may count twice, an early
addition does not harm readers.

Only waits between messages that carry the block count, so the proof also holds for every schedule that remains when
other blocks are empty. Where blocks share cells, or waits are explicit, all messages stay for any size; then all blocks
are followed at once, and all waits count. The proof does not need windows: they only delay, and cannot deadlock
(`window_needs`). The data of messages with given sizes are unknown: only the absence of circular waits is proved.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import NoReturn

import numpy as np

from pyxsim.cache import Proofs
from pyxsim.collective.arrays import ranges
from pyxsim.collective.compile_schedule import compiled
from pyxsim.collective.compiled import CompiledSchedule, StepOrigin
from pyxsim.collective.ordering import Lists, enforced, first_unordered
from pyxsim.collective.schedule import Schedule, ScheduleError

_LARGE = 2**15  # blocks in messages: below, a proof takes less time than a cache lookup
_CODE = ("arrays", "checker", "compiled", "kinds", "ordering", "schedule")
_PROOFS = Proofs(
    "schedules", "proved: this schedule is its kind\n", [Path(__file__).with_name(f"{name}.py") for name in _CODE]
)

Pairs = list[tuple[int, int, int]]  # what a message carries: (cell that it reads, cell that it writes, block)


def prove(schedule: Schedule | CompiledSchedule) -> None:
    """Raise ScheduleError unless every goal rank ends with every contribution exactly once, in any order of arrival."""
    s = compiled(schedule)
    _check_waits(s)
    if s.given_bytes is not None:
        return
    large = len(s.block_ids) >= _LARGE
    name = _key(s) if large else ""
    if large and _PROOFS.known(name):
        return
    _prove_data(s)
    if large:
        _PROOFS.remember(name)


def _key(s: CompiledSchedule) -> str:
    """The name of the proof in the cache."""
    # Of the kind only starts and goals count, not its name; the origins of steps are only for messages.
    others = ("kind", "written", "_variants")
    arrays = {field.name: getattr(s, field.name) for field in fields(s) if field.name not in others}
    starts_and_goals = [(s.starts(block), s.goals(block)) for block in range(s.blocks)]
    return _PROOFS.key(**arrays, starts_and_goals=starts_and_goals, idempotent=s.kind.idempotent, simple=s.simple)


def _prove_data(s: CompiledSchedule) -> None:
    """Prove where contributions end."""
    lists = Lists(s)
    if s.keeps_empty:
        _prove_together(s, lists)
        return
    carriers = np.repeat(np.arange(len(s)), np.diff(s.block_ptr))
    order = np.argsort(s.block_ids, kind="stable")
    ends = np.cumsum(np.bincount(s.block_ids, minlength=s.blocks))
    of_block = np.split(carriers[order], ends[:-1])
    for block in np.flatnonzero(~s.empty).tolist():
        messages = of_block[block].tolist()
        first = block * s.n
        pairs = [[(first + lists.src[m], first + lists.dst[m], block)] for m in messages]
        _BlockProof(lists, [block], messages, pairs).prove()


def _prove_together(s: CompiledSchedule, lists: Lists) -> None:
    """Prove all blocks at once, with all waits."""
    lengths = np.diff(s.block_ptr)
    reads = s.block_ids.astype(np.int64) * s.n + np.repeat(s.src, lengths)
    writes = s.put_ids.astype(np.int64) * s.n + np.repeat(s.dst, lengths)
    places = list(zip(reads.tolist(), writes.tolist(), s.content.tolist(), strict=True))
    ptr = s.block_ptr.tolist()
    pairs = [places[ptr[m] : ptr[m + 1]] for m in range(len(s))]
    journey = _BlockProof(lists, list(range(s.blocks)), list(range(len(s))), pairs)
    journey.add_up()
    if loose := first_unordered(lists, reads, writes):
        journey.refuse_order(*loose)


def _check_waits(s: CompiledSchedule) -> None:
    """Each message may only wait for messages that come before it and its join, and that arrive at its sender."""
    waiting = np.flatnonzero(s.gate >= 0)
    # Of the messages of one rank behind one gate the first is enough.
    _, at = np.unique(s.gate[waiting] * np.int64(s.n) + s.src[waiting], return_index=True)
    first = waiting[at]
    lengths = np.diff(s.gate_ptr)[s.gate[first]]
    message, dep = np.repeat(first, lengths), s.gate_ids[ranges(s.gate_ptr[s.gate[first]], lengths)]
    for wrong, problem in (
        ((dep >= message) | (s.join[message] >= 0) & (s.join[dep] == s.join[message]), "does not precede it"),
        (s.dst[dep] != s.src[message], "does not arrive at the sender"),
    ):
        if wrong.any():
            m, other = int(message[np.argmax(wrong)]), int(dep[np.argmax(wrong)])
            raise ScheduleError(
                f"{s}: message {m}, {s.src[m]} -> {s.dst[m]}, waits for message {other}, "
                f"{s.src[other]} -> {s.dst[other]}, which {problem}",
                rank=int(s.src[m]),
                step=int(s.order[m]),
            )


class _BlockProof:
    """Follows some blocks, usually one, through the schedule and checks the order of accesses.

    Cell c of rank r has the number c * n + r. Messages are numbered by position in `messages`.
    """

    def __init__(self, lists: Lists, blocks: list[int], messages: list[int], pairs: list[Pairs]) -> None:
        self.s = lists.schedule
        self.lists = lists
        self.blocks = blocks
        self.messages = messages  # messages that carry the blocks, in order
        self.pairs = pairs  # of each message
        self.steps = lists.steps(messages)
        self.overwritten: list[tuple[int, int, int]] = []  # position of a message, block, lost contributions

    def prove(self) -> None:
        self.add_up()
        self._keep_order()

    def add_up(self) -> None:
        """Execute the schedule in its order, with contributions as bit masks of ranks."""
        n, idempotent = self.s.n, self.s.kind.idempotent
        value = {block * n + rank: 1 << rank for block in self.blocks for rank in self.s.starts(block)}
        holds: dict[int, int] = {}  # the block in a cell, where numbers differ
        moved: list[list[int]] = []  # what each message carried
        for side_by_side in self.steps:
            carried = [self._read(i, value) for i in side_by_side]
            if self.lists.join[self.messages[side_by_side[0]]] >= 0:
                carried = self._sums(side_by_side, carried)
            moved += carried
            for i, masks in zip(side_by_side, carried, strict=True):
                reduce = self.lists.reduce[self.messages[i]]
                for (_, cell, block), new in zip(self.pairs[i], masks, strict=True):
                    if not reduce:
                        if gone := value.get(cell, 0) & ~new:
                            self.overwritten.append((i, block, gone))
                        value[cell] = new
                        if block != cell // n or cell in holds:
                            holds[cell] = block
                        continue
                    old = value.get(cell, 0)
                    if not old:
                        self._refuse(i, f"adds to block {block}, which rank {cell % n} does not have", cell)
                    if old & new and not idempotent:
                        twice = _ranks(old & new)
                        what = f"the contributions of {_text(twice)} to block {block} of rank {cell % n}"
                        self._refuse(i, f"adds {what} again", cell, twice)
                    value[cell] = old | new
        self._compare(value, holds, moved)

    def _read(self, i: int, value: dict[int, int]) -> list[int]:
        """The contributions that a message carries, per block."""
        masks = [value.get(cell, 0) for cell, _, _ in self.pairs[i]]
        if not all(masks):
            cell, _, block = self.pairs[i][masks.index(0)]
            self._refuse(i, f"sends block {block}, which rank {cell % self.s.n} does not have", cell)
        return masks

    def _sums(self, side_by_side: range, carried: list[list[int]]) -> list[list[int]]:
        """The sums that the joins of a step deliver."""
        sums: dict[tuple[int, int], int] = {}
        join = self.lists.join
        for i, masks in zip(side_by_side, carried, strict=True):
            for (cell, _, block), new in zip(self.pairs[i], masks, strict=True):
                key = join[self.messages[i]], block
                old = sums.get(key, 0)
                if old & new and not self.s.kind.idempotent:
                    twice = _ranks(old & new)
                    what = f"the contributions of {_text(twice)} to block {block}"
                    self._refuse(i, f"adds {what} to a join again", cell, twice)
                sums[key] = old | new
        return [[sums[join[self.messages[i]], block] for _, _, block in self.pairs[i]] for i in side_by_side]

    def _compare(self, value: dict[int, int], holds: dict[int, int], moved: list[list[int]]) -> None:
        """Check that all goal ranks have all contributions."""
        n = self.s.n
        for block in self.blocks:
            full = sum(1 << rank for rank in self.s.starts(block))
            for rank in self.s.goals(block):
                cell = block * n + rank
                holder = holds.get(cell, block)
                if holder != block:
                    problem = f"rank {rank} ends with block {holder} in place of block {block}"
                    raise ScheduleError(f"{self.s}: {problem}", rank=rank, block=block)
                if value.get(cell, 0) != full:
                    self._refuse_end(block, rank, full & ~value.get(cell, 0), cell in value, moved)

    def _refuse_end(self, block: int, rank: int, mask: int, partial: bool, moved: list[list[int]]) -> NoReturn:
        """Report that a rank ends without the contributions of `mask`, and how far the first of them came."""
        missing = _ranks(mask)
        what = f"the contributions of {_text(missing)}" if partial else "anything"
        first, last = 1 << missing[0], -1
        for i, masks in enumerate(moved):
            if self._is_copy(i):
                continue
            if any(new & first and carried == block for (_, _, carried), new in zip(self.pairs[i], masks, strict=True)):
                last = i
        contribution = f"that of rank {missing[0]}" if partial else "it"
        wiped = max(
            (i for i, b, gone in self.overwritten if b == block and gone & first and not self._is_copy(i)), default=-1
        )
        if wiped > last:
            last, problem = wiped, f"{contribution} is overwritten by"
        elif last >= 0:
            problem = f"{contribution} gets no further than"
        if last < 0:
            problem, step, file = f"{contribution} never leaves rank {missing[0]}", None, None
        else:
            m = self.messages[last]
            problem, step, file = f"{problem} {self._name(m)}", self._step(m), self._file(m)
        problem = f"{self.s}: rank {rank} ends without {what} in block {block}; {problem}"
        raise ScheduleError(problem, rank=rank, step=step, block=block, missing=missing, file=file)

    def _keep_order(self) -> None:
        """Compare accesses to the same cell. Sets of messages are bit masks over their positions."""
        reduce, idempotent = self.lists.reduce, self.s.kind.idempotent
        place = {m: i for i, m in enumerate(self.messages)}
        before, arrived, left = enforced(self.lists, self.messages, place, place)
        # Per cell: the last message that stored; the writers since, that one included; the readers since.
        stored, wrote, read = dict[int, int](), dict[int, int](), dict[int, int]()
        for side_by_side in self.steps:
            for i in side_by_side:
                for cell, _, block in self.pairs[i]:
                    if loose := wrote.get(cell, 0) & ~before[i]:
                        self.refuse_order(i, (loose & -loose).bit_length() - 1, cell, block)
                    read[cell] = read.get(cell, 0) | 1 << i
            for i in side_by_side:
                adds = reduce[self.messages[i]]
                for _, cell, block in self.pairs[i]:
                    early = 0 if adds and idempotent else read.get(cell, 0) & ~left[i]
                    late = (stored if adds else wrote).get(cell, 0) & ~arrived[i]
                    if loose := early | late:
                        self.refuse_order(i, (loose & -loose).bit_length() - 1, cell, block)
                    if adds:
                        wrote[cell] = wrote.get(cell, 0) | 1 << i
                    else:
                        stored[cell] = wrote[cell] = 1 << i
                        read[cell] = 0

    def refuse_order(self, i: int, j: int, cell: int, block: int) -> NoReturn:
        """Report two messages that access a cell without an order."""
        other = self._name(self.messages[j])
        number, rank = divmod(cell, self.s.n)
        what = f"block {block}" if number == block else f"cell {number}"
        self._refuse(i, f"and {other} both access {what} of rank {rank}, and nothing orders them", cell)

    def _name(self, m: int) -> str:
        src, dst, written = self.lists.src[m], self.lists.dst[m], self._written(m)
        if written is None:
            return f"step {self.s.order[m]} of rank {src} ({'local' if src == dst else f'-> {dst}'})"
        name = f"step {written.step} of {written.part}rank {src}"
        return name if src == dst else f"{name} (-> {dst})"

    def _is_copy(self, i: int) -> bool:
        """Whether a message has no step in the program: a copy of final blocks."""
        return bool(self.s.written) and self._written(self.messages[i]) is None

    def _written(self, m: int) -> StepOrigin | None:
        return self.s.written[m] if self.s.written else None

    def _step(self, m: int) -> int:
        written = self._written(m)
        return int(self.s.order[m]) if written is None else written.step

    def _file(self, m: int) -> str | None:
        written = self._written(m)
        return None if written is None else written.file or None

    def _refuse(self, i: int, problem: str, cell: int, duplicate: tuple[int, ...] = ()) -> NoReturn:
        m = self.messages[i]
        block = next((block for read, write, block in self.pairs[i] if cell in (read, write)), None)
        raise ScheduleError(
            f"{self.s}: {self._name(m)} {problem}",
            rank=cell % self.s.n,
            step=self._step(m),
            block=block,
            duplicate=duplicate,
            file=self._file(m),
        )


def _ranks(mask: int) -> tuple[int, ...]:
    return tuple(rank for rank in range(mask.bit_length()) if mask >> rank & 1)


def _text(ranks: tuple[int, ...]) -> str:
    noun = "rank" if len(ranks) == 1 else "ranks"
    return f"{noun} {', '.join(map(str, ranks[:8]))}" + (", ..." if len(ranks) > 8 else "")
