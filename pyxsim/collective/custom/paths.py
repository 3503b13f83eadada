"""Paths: an all-to-all that ranks forward for each other, as a schedule and as text.

A path carries some *units* of the data of a rank for another one, from neighbor to neighbor: a rank in between stores a
message before it sends it on. All paths together are an all-to-all. Every hop has a step: the order in which ranks
send.

The text has one line for each path: first unit, units, the ranks from source to destination, then the step of each hop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pyxsim.collective.arrays import I32, I64
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.slices import check_slices
from pyxsim.collective.custom.transfers import Transfer, compile_transfers
from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths between all pairs of `n` ranks.

    Attributes
    ----------
    units
        Equal parts of what a rank has for another one; paths carry each of them once.
    first, count
        int32[paths]: the units that a path carries.
    ranks
        int32[paths, longest + 1]: the ranks of a path from source to destination, then -1.
    step
        int32[paths, longest]: in which step each hop is sent, then -1. Steps increase along a path.
    """

    n: int
    units: int
    first: I32
    count: I32
    ranks: I32
    step: I32

    kinds: ClassVar[tuple[str, ...]] = ("all-to-all",)
    pipelined: ClassVar[bool] = True
    noun: ClassVar[str] = "paths"
    lines: ClassVar[str] = "A path in each line: first unit, units; the ranks from source to destination; steps."

    @property
    def hops(self) -> I64:
        """int64[paths]: hops of each path."""
        hops: I64 = (self.ranks >= 0).sum(axis=1) - 1
        return hops

    @property
    def ends(self) -> tuple[I32, I32]:
        """int32[paths] each: source and destination."""
        return self.ranks[:, 0], self.ranks[np.arange(len(self.ranks)), self.hops]

    def check(self) -> None:
        """Raise InputError unless the paths carry every unit from every rank to every other one, once."""
        inner, hops = self.ranks >= 0, self.hops
        whole = inner.sum(axis=1) == np.where(inner, np.arange(inner.shape[1]) + 1, 0).max(axis=1, initial=0)
        if (hops < 1).any() or not whole.all() or (self.ranks >= self.n).any():
            raise InputError("a path has no hops, or a rank that does not exist", allowed=f"0 to {self.n - 1}")
        # What is behind the end gets numbers of its own.
        ordered = np.sort(np.where(inner, self.ranks, self.n + np.arange(inner.shape[1])), axis=1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise InputError("a path passes a rank twice")
        if ((self.first < 0) | (self.count < 1) | (self.first + self.count > self.units)).any():
            raise InputError("a path has units that do not exist", allowed=f"units 0 to {self.units - 1}")
        carried = np.zeros((self.n, self.n, self.units + 1), np.int64)
        source, to = self.ends
        np.add.at(carried, (source, to, self.first), 1)
        np.add.at(carried, (source, to, self.first + self.count), -1)
        carried[np.arange(self.n), np.arange(self.n), 0] += 1  # nothing to send
        if (np.cumsum(carried, axis=2)[:, :, :-1] != 1).any():
            raise InputError("the paths do not carry every unit of every pair of ranks once")
        sent = inner[:, 1:]
        later = self.step[:, 1:] > self.step[:, :-1]
        if (self.step[sent] < 0).any() or (self.step[~sent] != -1).any() or not later[sent[:, 1:]].all():
            raise InputError("the steps of a path do not increase from its source to its destination")

    def messages(self, kind: str, slices: int = 1) -> int:
        """Return the number of messages of a schedule."""
        return int(self.hops.sum()) * slices

    def edge_units(self, kind: str) -> tuple[I32, I32, I64]:
        """Return from, to and units of each hop, one array each."""
        path, at = np.nonzero(self.ranks[:, 1:] >= 0)
        return self.ranks[path, at], self.ranks[path, at + 1], self.count[path].astype(np.int64)

    def schedule(self, kind: str, slices: int = 1, name: str = "paths", n: int | None = None) -> CompiledSchedule:
        """Return the schedule, with every unit cut in `slices` equal parts, one step behind each other.

        Raises InputError for another kind, for a group of other than `n` ranks, and for more blocks or messages than
        are kept in memory.
        """
        check_slices(self, kind, slices, name, n)
        blocks = self.n**2 * self.units * slices
        return compile_transfers(KINDS[kind], self.n, blocks, self._transfers(slices), name)

    def _transfers(self, slices: int) -> Iterator[Transfer]:
        path, at = np.nonzero(self.ranks[:, 1:] >= 0)
        part = np.tile(np.arange(slices), len(path))
        path, at = np.repeat(path, slices), np.repeat(at, slices)
        order = np.argsort(self.step[path, at] + part, kind="stable")
        path, at, part = path[order], at[order], part[order]
        source, to = (ends.astype(np.int64) for ends in self.ends)
        pair = (source * self.n + to)[path]
        count = self.count[path]
        first = (pair * self.units + self.first[path]) * slices + part * count
        rows = np.stack([self.ranks[path, at], self.ranks[path, at + 1], path, first, count]).T.tolist()
        for src, dst, number, begin, width in rows:
            yield Transfer(src, dst, range(begin, begin + width), dst, f"path {number}")

    def text(self) -> str:
        """Return the lines of the paths."""
        rows = zip(self.first.tolist(), self.count.tolist(), self.hops.tolist(), self.ranks, self.step, strict=True)
        return "\n".join(
            " ".join(map(str, [first, count, *ranks[: hops + 1].tolist(), *step[:hops].tolist()]))
            for first, count, hops, ranks, step in rows
        )

    @classmethod
    def of_text(cls, n: int, units: int, text: str) -> Paths:
        """Return the paths of such lines. Raises InputError."""
        rows: list[tuple[int, int, list[int], list[int]]] = []
        for number, line in enumerate(filter(str.strip, text.splitlines()), 1):
            words = line.split()
            if len(words) < 5 or len(words) % 2 == 0 or not all(word.isdecimal() and len(word) < 10 for word in words):
                raise InputError(
                    f"path {number} is not first unit, units, ranks and steps", allowed="5, 7, ... whole numbers"
                )
            first, count, *rest = map(int, words)
            hops = len(rest) // 2
            rows.append((first, count, rest[: hops + 1], rest[hops + 1 :]))
        paths = paths_of(n, units, rows)
        paths.check()
        return paths


def paths_of(n: int, units: int, rows: Sequence[tuple[int, int, Sequence[int], Sequence[int]]]) -> Paths:
    """Return the paths of rows (first unit, units, ranks, steps)."""
    longest = max((len(row[3]) for row in rows), default=0)
    first, count = np.array([row[:2] for row in rows], np.int32).reshape(len(rows), 2).T
    ranks, step = np.full((len(rows), longest + 1), -1, np.int32), np.full((len(rows), longest), -1, np.int32)
    for number, row in enumerate(rows):
        ranks[number, : len(row[2])] = row[2]
        step[number, : len(row[3])] = row[3]
    return Paths(n, units, first, count, ranks, step)
