"""What a collective must achieve: which ranks hold a block at the start, and which must hold it at the end.

A rank that holds a block at the start has one contribution to it. At the end the ranks of the goal must have the block
with every contribution exactly once. That is all the checker knows of a kind; how it is done is up to the algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pyxsim.collective.arrays import I64
from pyxsim.errors import InputError
from pyxsim.settings.algorithms import KINDS as NAMES
from pyxsim.settings.algorithms import ROOTED


class Ranks(Protocol):
    """(n, unit) or (n, unit, root) -> some ranks of a group of n; the root is rank 0 unless it is said otherwise."""

    def __call__(self, n: int, unit: int, root: int = 0, /) -> Sequence[int]: ...


@dataclass(frozen=True)
class Kind:
    """A collective operation on a group of n ranks.

    `homes` says how many ranks a block is named after: 0 (a cut of the buffer that may be anywhere: any number of
    blocks), 1 (block r belongs to rank r: n blocks) or 2 (block i*n+j goes from rank i to rank j: n*n blocks). An
    algorithm may cut each of these units further, into the same number of consecutive blocks.

    A `rooted` kind has one rank that all data come from or go to. Algorithms write it down for rank 0; a schedule for
    another root is the same one renamed. In an `idempotent` kind a contribution may be added more than once: only
    whether it is there counts.
    """

    name: str
    homes: int
    start: Ranks  # the ranks that hold the unit, or contribute to it, at the start
    goal: Ranks  # the ranks that must have it complete at the end
    rooted: bool = False
    idempotent: bool = False

    def units(self, n: int) -> int:
        """In how many pieces the meaning of the operation cuts the data of a group of n ranks."""
        return int(n**self.homes)

    def default_blocks(self, n: int) -> int:
        """In how many blocks an algorithm cuts the data unless it says otherwise."""
        return 1 if self.idempotent else int(n ** max(self.homes, 1))

    def moved(self, rank: I64) -> I64:
        """Where the units go when rank r is renamed to rank[r]: int64[units]."""
        unit = np.zeros(1, dtype=np.int64)
        for _ in range(self.homes):
            unit = (unit[:, None] * len(rank) + rank[None, :]).ravel()
        return unit


def _all(n: int, unit: int, root: int = 0) -> Sequence[int]:
    return range(n)


def _own(n: int, unit: int, root: int = 0) -> Sequence[int]:
    return (unit,)


def _root(n: int, unit: int, root: int = 0) -> Sequence[int]:
    return (root,)


def _source(n: int, unit: int, root: int = 0) -> Sequence[int]:
    return (unit // n,)


def _destination(n: int, unit: int, root: int = 0) -> Sequence[int]:
    return (unit % n,)


_HOMES_START_GOAL: dict[str, tuple[int, Ranks, Ranks]] = {
    "all-reduce": (0, _all, _all),
    "reduce-scatter": (1, _all, _own),
    "all-gather": (1, _own, _all),
    "all-to-all": (2, _source, _destination),
    "broadcast": (0, _root, _all),
    "reduce": (0, _all, _root),
    "gather": (1, _own, _root),
    "scatter": (1, _root, _own),
    "barrier": (0, _all, _all),
}
KINDS = {
    name: Kind(name, *_HOMES_START_GOAL[name], rooted=name in ROOTED, idempotent=name == "barrier") for name in NAMES
}


def get_kind(name: str | Kind) -> Kind:
    """The kind of that name; a Kind of one's own is passed through. Raises InputError."""
    if isinstance(name, Kind):
        return name
    if name not in KINDS:
        raise InputError(f"unknown collective '{name}'", allowed=list(KINDS), given=name)
    return KINDS[name]
