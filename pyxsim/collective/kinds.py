"""The kinds of collectives: which ranks hold a block at the start, and which must hold it at the end.

A rank that holds a block at the start has one contribution to it. At the end the goal ranks must have the block with
every contribution exactly once. The checker needs to know nothing else; the algorithm decides the rest.
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
    """(n, unit) or (n, unit, root) -> some ranks of a group of n; the root is rank 0 by default."""

    def __call__(self, n: int, unit: int, root: int = 0, /) -> Sequence[int]: ...


@dataclass(frozen=True)
class Kind:
    """A collective operation on a group of n ranks.

    Attributes
    ----------
    homes
        How many ranks identify a unit of data: 0 (any cut of the buffer), 1 (unit r belongs to rank r: n units) or 2
        (unit i*n+j goes from rank i to rank j: n*n units). An algorithm may cut units further, into equally many
        consecutive blocks each.
    rooted
        All data come from one rank or go to it. Algorithms write rank 0; another root is the same schedule renamed.
    idempotent
        A contribution may be added more than once.
    """

    name: str
    homes: int
    start: Ranks  # ranks that hold the unit, or contribute to it, at the start
    goal: Ranks  # ranks that must have it complete at the end
    rooted: bool = False
    idempotent: bool = False

    def units(self, n: int) -> int:
        """Return the number of units of a group of n ranks."""
        return int(n**self.homes)

    def default_blocks(self, n: int) -> int:
        """Return the default number of blocks of a group of n ranks."""
        return 1 if self.idempotent else int(n ** max(self.homes, 1))

    def moved(self, rank: I64) -> I64:
        """Return where the units go when rank r is renamed to rank[r]: int64[units]."""
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
    """Return the kind of that name; a Kind is returned unchanged. Raises InputError."""
    if isinstance(name, Kind):
        return name
    if name not in KINDS:
        raise InputError(f"unknown collective '{name}'", allowed=list(KINDS), given=name)
    return KINDS[name]
