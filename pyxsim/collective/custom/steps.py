"""The steps that a program for one rank yields. A rank executes its steps in order.

`blocks` are block numbers as in `Schedule`; numbers beyond the blocks are scratch places, without limit. The kind of
collective defines what a rank has at the start and must have at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
