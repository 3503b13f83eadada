"""What a GOAL schedule says: for each rank its operations and their dependencies, as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

ANY = 2**32 - 1
"""The peer or tag of a receive that takes any (-1 in the text)."""

UINT32 = NDArray[np.uint32]


class Op(IntEnum):
    """The kind of an operation, with the numbers of the binary form."""

    SEND = 1
    RECV = 2
    CALC = 3


@dataclass(frozen=True, eq=False)
class Rank:
    """The operations of a rank, one row of each array per operation.

    Attributes
    ----------
    kind
        `Op`.
    size
        Bytes of a message, nanoseconds of a `calc`.
    peer, tag
        Of a message; `ANY` for any. 0 for a `calc`.
    cpu, nic
        The stream of computation and the network interface that carry it out.
    after, before, at_start
        The dependencies, one row each: operation `after` waits for the end of operation `before`, or for its start
        where `at_start`. Sorted by `before`, `at_start`, `after`; none occurs twice.
    """

    number: int
    kind: NDArray[np.uint8]
    size: NDArray[np.uint64]
    peer: UINT32
    tag: UINT32
    cpu: NDArray[np.uint8]
    nic: NDArray[np.uint8]
    after: UINT32
    before: UINT32
    at_start: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.kind)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rank) or self.number != other.number:
            return False
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _COLUMNS)

    __hash__ = None  # type: ignore[assignment]


_COLUMNS = ("kind", "size", "peer", "tag", "cpu", "nic", "after", "before", "at_start")


@dataclass
class Schedule:
    """The ranks of a schedule, as they come from a file: one is held in memory at a time.

    Each of `count` ranks occurs once, in any order.
    """

    count: int
    ranks: Iterable[Rank]


def rank_of(
    number: int,
    columns: tuple[NDArray[np.uint8], NDArray[np.uint64], UINT32, UINT32, NDArray[np.uint8], NDArray[np.uint8]],
    dependencies: tuple[UINT32, UINT32, NDArray[np.bool_]],
) -> Rank:
    """Return a rank; `dependencies` (after, before, at_start) in any order, also repeatedly."""
    after, before, at_start = dependencies
    order = np.lexsort((after, at_start, before))
    after, before, at_start = after[order], before[order], at_start[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (after[1:] != after[:-1]) | (before[1:] != before[:-1]) | (at_start[1:] != at_start[:-1])
    return Rank(number, *columns, after[new], before[new], at_start[new])
