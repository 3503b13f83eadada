"""Programs: what the readers of Python and MSCCL XML return, and `compile_program` turns into a schedule.

A rank has one or more threads. A thread executes its steps in order; a send does not wait, a receive waits for its
message: the k-th receive on a link (source, destination, tag) gets the k-th message sent there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pyxsim.collective.kinds import Kind

# More waits than this are gathered in one local step. Any number is correct; this one keeps gates small.
MANY = 8
# How many members of a circular wait an error names.
SHOWN = 4

Places = tuple[int, ...]
Link = tuple[int, int, int]  # from, to, tag


class Instruction(NamedTuple):
    """One step of a thread: receive, add what is read, send, write; each part is optional.

    Without a receive, what is read is sent and written; with `adds` it is added to the places `writes`.
    """

    receive: tuple[int, int] | None = None  # peer, tag
    send: tuple[int, int] | None = None
    reads: Places = ()
    writes: Places = ()
    adds: bool = False
    after: tuple[tuple[int, int], ...] = ()  # steps of other threads of the rank: number of the thread, step
    width: int = 0  # how many places it is about
    origin: str = ""  # file:line


class Thread(NamedTuple):
    """The steps of one thread; `name` is for errors: "rank 3"."""

    rank: int
    name: str
    steps: Sequence[Instruction]


class Layout(NamedTuple):
    """The data of a rank: the block in each place at the start, and the place of each block at the end."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    names: Mapping[int, str] = {}  # what errors call a place; "block 3" where it is not here

    def name(self, place: int) -> str:
        """Return the name of a place in messages."""
        return self.names.get(place, f"block {place}")


@dataclass(frozen=True)
class Program:
    """All threads of all ranks, rank by rank, in the order of their numbers."""

    kind: Kind
    n: int
    blocks: int
    threads: Sequence[Thread]
    layouts: Sequence[Layout]

    @cached_property
    def first(self) -> list[int]:
        """The first thread of every rank."""
        first = [0] * self.n
        for number, thread in reversed(list(enumerate(self.threads))):
            first[thread.rank] = number
        return first


def shorter(src: int, dst: int, n: int) -> int:
    """Return the direction of a message of a file, which has none: the shorter one on a ring of the ranks."""
    return +1 if (dst - src) % n <= n // 2 else -1


def held(kind: Kind, n: int, blocks: int, rank: int) -> tuple[list[int], list[int]]:
    """Return the blocks of a rank at the start, and those at the end, in order. The root is rank 0."""
    per_unit = blocks // kind.units(n)
    starts, ends = (
        [block for block in range(blocks) if rank in ranks(n, block // per_unit)] for ranks in (kind.start, kind.goal)
    )
    return starts, ends
