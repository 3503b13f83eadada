"""Forests: spanning trees from every rank, as a schedule and as text.

A tree broadcasts some *units* of the data of its root: all trees together are an all-gather. Reversed, they add up: a
reduce-scatter; both in turn are an all-reduce. In an all-to-all, a block follows its tree from its source to its
destination. Every edge has a step: the order in which ranks send.

The trees of an all-reduce may begin anywhere, and one rank may be the root of more trees than another: each adds up
some units of the whole buffer and returns them at once, while other trees still add up. Such *all-reduce trees* have a
step for each direction of an edge.

The text has one line for each tree: root, first unit, units, then the parent and the step of every rank, and of
all-reduce trees the step in which every rank sends to its parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from pyxsim.collective.arrays import I32, I64, Bools
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.custom.slices import check_slices
from pyxsim.collective.custom.transfers import Transfer, compile_transfers
from pyxsim.collective.kinds import KINDS
from pyxsim.errors import InputError

FOREST_KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


@dataclass(frozen=True, eq=False)
class Forest:
    """Spanning trees over `n` ranks.

    Attributes
    ----------
    units
        Equal parts of the data of a rank, of all-reduce trees of the buffer; trees carry each of them once.
    root, first, count
        int32[trees]: where a tree begins, and the units of its root that it carries.
    parent, step
        int32[trees, n]: from which rank each rank receives, and in which step; -1 at the root. Steps increase on the
        way down.
    up
        Of all-reduce trees, int32[trees, n]: the step in which each rank sends its sum to its parent; -1 at the root.
        Steps increase on the way up, and those on the way down are later. None for all other trees.
    """

    n: int
    units: int
    root: I32
    first: I32
    count: I32
    parent: I32
    step: I32
    up: I32 | None = None

    noun: ClassVar[str] = "spanning trees"
    lines: ClassVar[str] = (
        "A tree in each line: root, first unit, units; parent of every rank; step in which it receives."
    )

    @property
    def kinds(self) -> tuple[str, ...]:
        """The collectives that the trees can do."""
        return FOREST_KINDS if self.up is None else ("all-reduce",)

    @property
    def pipelined(self) -> bool:
        """Whether the trees, without slices, already follow each other in a pipeline."""
        return self.up is not None

    def check(self) -> None:
        """Raise InputError unless these are spanning trees that carry every unit of every rank once."""
        trees = np.arange(len(self.root))
        owner = self.root if self.up is None else np.zeros_like(self.root)
        carried = np.zeros((self.n if self.up is None else 1, self.units + 1), np.int64)
        wrong = (self.root < 0) | (self.root >= self.n) | (self.first < 0) | (self.count < 1)
        if wrong.any() or (self.first + self.count > self.units).any():
            raise InputError("a tree has a root or units that do not exist", allowed=f"units 0 to {self.units - 1}")
        np.add.at(carried, (owner, self.first), 1)
        np.add.at(carried, (owner, self.first + self.count), -1)
        if (np.cumsum(carried, axis=1)[:, :-1] != 1).any():
            whose = "every unit of every rank" if self.up is None else "every unit of the buffer"
            raise InputError(f"the trees do not carry {whose} once")
        inner = np.ones(self.parent.shape, bool)
        inner[trees, self.root] = False
        if ((self.parent < 0) | (self.parent >= self.n))[inner].any() or (self.parent[~inner] != -1).any():
            raise InputError("a rank has no parent in a tree", allowed=f"0 to {self.n - 1}, and -1 at the root")
        above = np.take_along_axis(self.step, np.where(inner, self.parent, 0), axis=1)
        if (self.step[~inner] != -1).any() or (self.step <= above)[inner].any():
            raise InputError("the steps of a tree do not increase from its root to its leaves")
        if self.up is not None:
            self._check_up(self.up, inner)

    def _check_up(self, up: I32, inner: Bools) -> None:
        at_root = (up[~inner] != -1).any() or (up[inner] < 0).any()
        parents = np.where(inner, self.parent, 0)
        above = np.take_along_axis(up, parents, axis=1)
        above[np.take_along_axis(~inner, parents, axis=1)] = np.iinfo(np.int32).max
        first = np.where(inner, self.step, np.iinfo(np.int32).max).min(axis=1)
        if at_root or (up >= above)[inner].any() or (up.max(axis=1) >= first).any():
            raise InputError("the steps of an all-reduce tree do not increase from its leaves to its root and back")

    @cached_property
    def steps(self) -> int:
        """The number of steps on the way down."""
        return int(self.step.max(initial=0)) + 1

    def ways(self) -> tuple[I32, I32]:
        """Return int32[trees, n] each: the steps of an all-reduce on the way up, and on the way down.

        Trees that are not those of an all-reduce go up in the opposite order, all before the first one goes down.
        """
        if self.up is not None:
            return self.up, self.step
        last, inner = self.steps - 1, self.step >= 0
        return np.where(inner, last - self.step, -1), np.where(inner, last + 1 + self.step, -1)

    def blocks(self, slices: int) -> int:
        """Return the blocks of an all-gather, a reduce-scatter or an all-reduce."""
        return self.units * slices * (self.n if self.up is None else 1)

    def first_block(self, tree: int, slices: int, part: int) -> int:
        """Return the first block of a slice of a tree; as many as its units follow."""
        before = int(self.root[tree]) * self.units if self.up is None else 0
        return (before + int(self.first[tree])) * slices + part * int(self.count[tree])

    @cached_property
    def depth(self) -> I32:
        """int32[trees, n]: edges from the root."""
        at, depth = self.parent.copy(), np.zeros(self.parent.shape, np.int32)
        while (up := at >= 0).any():
            depth[up] += 1
            at = np.where(up, np.take_along_axis(self.parent, np.where(up, at, 0), axis=1), -1)
        return depth

    @cached_property
    def edges(self) -> tuple[I32, I32, I32]:
        """int32[edges] each: tree, parent and child, in the order of the steps."""
        trees, children = np.nonzero(self.parent >= 0)
        order = np.argsort(self.step[trees, children], kind="stable")
        tree: I32 = trees[order].astype(np.int32)
        child: I32 = children[order].astype(np.int32)
        return tree, self.parent[tree, child], child

    def by_depth(self) -> Forest:
        """Return the same trees with the depth of an edge as its step."""
        return replace(self, step=np.where(self.parent >= 0, self.depth - 1, -1).astype(np.int32))

    def below(self) -> I32:
        """int32[trees, n]: the ranks at and below each rank."""
        below = np.ones(self.parent.shape, np.int32)
        for level in range(int(self.depth.max(initial=0)), 0, -1):
            tree, child = np.nonzero(self.depth == level)
            np.add.at(below, (tree, self.parent[tree, child]), below[tree, child])
        return below

    def messages(self, kind: str, slices: int = 1) -> int:
        """Return the number of messages of a schedule."""
        return len(self.root) * (self.n - 1) * slices * (2 if kind == "all-reduce" else 1)

    def edge_units(self, kind: str) -> tuple[I32, I32, I64]:
        """Return from, to and units of each edge, one array each, of all-reduce trees in both directions.

        An all-to-all carries, on an edge, the units of all ranks below it.
        """
        tree, parent, child = self.edges
        weight = self.count[tree].astype(np.int64)
        if kind == "all-to-all":
            weight *= self.below()[tree, child]
        if kind == "reduce-scatter":
            parent, child = child, parent
        if self.up is not None:
            parent, child = np.concatenate([parent, child]), np.concatenate([child, parent])
            weight = np.concatenate([weight, weight])
        return parent, child, weight

    def schedule(self, kind: str, slices: int = 1, name: str = "forest", n: int | None = None) -> CompiledSchedule:
        """Return the schedule of a kind, with every unit cut in `slices` equal parts, one step behind each other.

        Raises InputError for a kind that trees cannot do, for a group of other than `n` ranks, and for more blocks or
        messages than are kept in memory.
        """
        check_slices(self, kind, slices, name, n)
        blocks = self.blocks(slices) * (self.n if kind == "all-to-all" else 1)
        return compile_transfers(KINDS[kind], self.n, blocks, self._transfers(kind, slices), name)

    def _transfers(self, kind: str, slices: int) -> Iterator[Transfer]:
        trees, parents, children = (values.tolist() for values in self.edges)
        ways = [way[self.edges[0], self.edges[2]].tolist() for way in self.ways()]
        rows: list[tuple[int, int, int, int, int, bool]] = []
        for tree, parent, child, up, down in zip(trees, parents, children, *ways, strict=True):
            for part in range(slices):
                if kind in ("reduce-scatter", "all-reduce"):
                    rows.append((part + up, tree, part, child, parent, True))
                if kind != "reduce-scatter":
                    rows.append((part + down, tree, part, parent, child, False))
        rows.sort(key=lambda row: row[0])
        root, first, count = self.root.tolist(), self.first.tolist(), self.count.tolist()
        subtree = self._subtrees() if kind == "all-to-all" else {}
        for _, tree, part, src, dst, reduce in rows:
            if kind == "all-to-all":
                begin = first[tree] * slices + part * count[tree]
                size = self.units * slices
                blocks = [
                    (root[tree] * self.n + rank) * size + begin + unit
                    for rank in subtree[tree, dst]
                    for unit in range(count[tree])
                ]
            else:
                begin = self.first_block(tree, slices, part)
                blocks = list(range(begin, begin + count[tree]))
            yield Transfer(src, dst, blocks, dst, f"tree {tree}", reduce)

    def _subtrees(self) -> dict[tuple[int, int], list[int]]:
        """The ranks at and below each rank of each tree."""
        below: dict[tuple[int, int], list[int]] = {}
        for tree in range(len(self.root)):
            for rank in np.argsort(-self.depth[tree], kind="stable").tolist():
                below.setdefault((tree, rank), []).append(rank)
                if (parent := int(self.parent[tree, rank])) >= 0:
                    below.setdefault((tree, parent), []).extend(below[tree, rank])
        return below

    def text(self) -> str:
        """Return the lines of the trees."""
        ups = [] if self.up is None else [self.up]
        rows = np.concatenate(
            [np.stack([self.root, self.first, self.count], axis=1), self.parent, self.step, *ups], axis=1
        ).tolist()
        return "\n".join(" ".join(map(str, row)) for row in rows)

    @classmethod
    def of_text(cls, n: int, units: int, text: str) -> Forest:
        """Return the forest of such lines. Raises InputError."""
        lines = [line.split() for line in text.splitlines() if line.strip()]
        both_ways = bool(lines) and len(lines[0]) == 3 + 3 * n
        words = 3 + (3 if both_ways else 2) * n
        for number, line in enumerate(lines, 1):
            if len(line) != words or not all(word.removeprefix("-").isdecimal() for word in line):
                raise InputError(f"tree {number} does not have {words} whole numbers")
        rows = np.array(lines, dtype=np.int64).reshape(len(lines), words).astype(np.int32)
        root, first, count = rows[:, :3].T
        parent, step, up = rows[:, 3 : 3 + n], rows[:, 3 + n : 3 + 2 * n], rows[:, 3 + 2 * n :]
        forest = cls(n, units, root, first, count, parent, step, up if both_ways else None)
        forest.check()
        return forest


def forest_of(n: int, units: int, trees: Sequence[tuple[int, int, int, I64 | list[int], I64 | list[int]]]) -> Forest:
    """Return a forest of rows (root, first unit, units, parents, steps)."""
    root, first, count = np.array([tree[:3] for tree in trees], np.int32).reshape(len(trees), 3).T
    parent, step = (np.array([tree[at] for tree in trees], np.int32) for at in (3, 4))
    return Forest(n, units, root, first, count, parent, step)
