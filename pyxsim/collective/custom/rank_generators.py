"""Programs in Python: the steps that function(kind, n, rank) yields for every rank, combined into one program."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.compile_program import compile_program
from pyxsim.collective.custom.program import Instruction, Layout, Places, Program, Thread, held
from pyxsim.collective.kinds import Kind, get_kind
from pyxsim.collective.schedule import ScheduleError

MAX_STEPS = 1_000_000  # of all ranks; stops endless programs


def is_rank_generator(function: Callable[..., Any]) -> bool:
    """Return whether a function is a program for one rank: its third parameter is called `rank`."""
    return list(inspect.signature(function).parameters)[2:3] == ["rank"]


def schedule_builder(function: Callable[..., Iterable[Any]], name: str) -> Callable[[str, int], CompiledSchedule]:
    """Return the function(kind, n) that returns the schedule of a program."""

    def build(kind: str, n: int) -> CompiledSchedule:
        return compile_program(_Reader(function, get_kind(kind), n, name).program(), name)

    return build


class _Reader:
    """Calls a program for every rank and translates its steps."""

    def __init__(self, function: Callable[..., Iterable[Any]], kind: Kind, n: int, name: str) -> None:
        self.function = function
        self.kind = kind
        self.n = n
        self.name = name
        self.left = MAX_STEPS
        self.rank = self.step = 0
        self.origin = ""

    def program(self) -> Program:
        counts, threads = [], []
        for rank in range(self.n):
            self.rank = rank
            blocks, steps = self._steps()
            counts.append(blocks)
            threads.append(Thread(rank, f"rank {rank}", steps))
        if other := next((rank for rank, count in enumerate(counts) if count != counts[0]), 0):
            self._refuse(f"cuts the data into {counts[other]} blocks, but rank 0 into {counts[0]}", f"rank {other}")
        layouts = []
        for rank in range(self.n):
            starts, ends = held(self.kind, self.n, counts[0], rank)
            layouts.append(Layout({block: block for block in starts}, {block: block for block in ends}))
        return Program(self.kind, self.n, counts[0], threads, layouts)

    def _steps(self) -> tuple[int, list[Instruction]]:
        """The number of blocks and the steps of one rank."""
        blocks, steps = self.kind.default_blocks(self.n), list[Instruction]()
        self.step, self.origin = 0, self._defined()
        for number, item in enumerate(self._yielded()):
            self.step = len(steps)
            if isinstance(item, Blocks):
                if number:
                    self._refuse("cuts the data into blocks, but is not the first step")
                blocks = self._whole(item.count, "a number of blocks", 1)
                if blocks % self.kind.units(self.n):
                    allowed = f"a multiple of {self.kind.units(self.n)}"
                    self._refuse(f"cuts {self.kind.name} into {blocks} blocks", allowed=allowed)
                continue
            self.left -= 1
            if self.left < 0:
                self._refuse(f"exceeds the limit of {MAX_STEPS} steps per program")
            steps.append(self._instruction(item))
        return blocks, steps

    def _defined(self) -> str:
        """The first line of the program."""
        code = getattr(self.function, "__code__", None)
        return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"

    def _yielded(self) -> Iterator[Any]:
        """Yield the steps of the program and record the current line in `origin`."""
        steps = self.function(self.kind.name, self.n, self.rank)
        if not isinstance(steps, Iterable):
            self._refuse(
                f"does not exist, because the program returned {type(steps).__name__}",
                allowed="a function that yields steps",
            )
        for item in steps:
            if inspect.isgenerator(steps) and steps.gi_frame is not None:
                self.origin = f"{steps.gi_code.co_filename}:{steps.gi_frame.f_lineno}"
            yield item

    def _instruction(self, item: Any) -> Instruction:
        match item:
            case Send(peer, blocks, tag):
                places = self._places(blocks)
                return Instruction(send=self._peer(peer, tag), reads=places, width=len(places), origin=self.origin)
            case Receive(peer, blocks, reduce, tag):
                places = self._places(blocks)
                own = places if reduce else ()
                return Instruction(
                    receive=self._peer(peer, tag), reads=own, writes=places, width=len(places), origin=self.origin
                )
            case Copy(source, target) | Reduce(source, target):
                reads, writes = self._places(source), self._places(target)
                if len(reads) != len(writes):
                    self._refuse(f"puts {len(reads)} blocks into {len(writes)} places")
                adds = isinstance(item, Reduce)
                return Instruction(reads=reads, writes=writes, adds=adds, width=len(reads), origin=self.origin)
        self._refuse(f"is {item!r}", allowed="Send, Receive, Copy, Reduce, or Blocks as the first")

    def _peer(self, peer: object, tag: object) -> tuple[int, int]:
        rank = self._whole(peer, "a rank", 0)
        if rank >= self.n or rank == self.rank:
            what = "itself" if rank == self.rank else f"rank {rank}, which does not exist"
            self._refuse(f"names {what}", allowed=f"another rank of 0 to {self.n - 1}")
        return rank, self._whole(tag, "a tag", 0)

    def _places(self, blocks: object) -> Places:
        several = blocks if isinstance(blocks, Iterable) else (blocks,)
        places = tuple(self._whole(block, "a block", 0) for block in several)
        if not places:
            self._refuse("names no block", allowed="at least one")
        if len(set(places)) < len(places):
            self._refuse(f"names a block twice: {places}", allowed="each block once")
        return places

    def _whole(self, value: Any, what: str, least: int) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            number = -1
        if number < least:
            self._refuse(f"has {value!r} for {what}", allowed=f"a whole number from {least}")
        return number

    def _refuse(self, problem: str, where: str = "", *, allowed: str | None = None) -> NoReturn:
        where = where or f"step {self.step} of rank {self.rank}"
        title = f"{self.name} {self.kind.name} on {self.n} ranks"
        raise ScheduleError(
            f"{title}: {where} {problem}", rank=self.rank, step=self.step, allowed=allowed, file=self.origin or None
        )


@dataclass(frozen=True)
class Send:
    """Send the blocks to rank `peer` without waiting.

    The k-th send of a rank to another matches the other's k-th receive from it; tags are counted separately.
    """

    peer: int
    blocks: int | Iterable[int]
    tag: int = 0


@dataclass(frozen=True)
class Receive:
    """Wait for the next message of rank `peer`; store it in the blocks, or add it to them (`reduce`)."""

    peer: int
    blocks: int | Iterable[int]
    reduce: bool = False
    tag: int = 0


@dataclass(frozen=True)
class Copy:
    """Store the blocks `source` in the places `target` of the same rank."""

    source: int | Iterable[int]
    target: int | Iterable[int]


@dataclass(frozen=True)
class Reduce:
    """Add the blocks `source` to the places `target` of the same rank."""

    source: int | Iterable[int]
    target: int | Iterable[int]


@dataclass(frozen=True)
class Blocks:
    """First step: the number of blocks of the data, if it is not the default of `Schedule`; see `Kind`."""

    count: int


Step = Send | Receive | Copy | Reduce | Blocks
