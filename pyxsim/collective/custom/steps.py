"""The steps that a program for one rank yields. A rank executes its steps one after the other.

`blocks` are numbers of blocks, as in `Schedule`; numbers from the count of the blocks on are scratch places, as many as
one likes. A rank has at the start, and must have at the end, what the kind of collective says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Send:
    """Send the blocks to rank `peer`, and go on at once.

    The k-th send of a rank to another is what the other's k-th reception from it gets; with tags, counted by tag.
    """

    peer: int
    blocks: int | Iterable[int]
    tag: int = 0


@dataclass(frozen=True)
class Receive:
    """Wait for the next message of rank `peer`; store it in the blocks, or add it to what is there (`reduce`)."""

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
    """Add the blocks `source` to what is in the places `target` of the same rank."""

    source: int | Iterable[int]
    target: int | Iterable[int]


@dataclass(frozen=True)
class Blocks:
    """First step of all: in how many blocks the data are cut, where it is not what `Schedule` does; see `Kind`."""

    count: int


Step = Send | Receive | Copy | Reduce | Blocks
