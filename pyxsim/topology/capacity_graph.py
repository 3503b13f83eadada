"""A network as a graph of capacities: what cuts and flows of it are computed on, with its symmetries."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import BoolArray, Int32Array, IntArray, unique_by_identity

Link = tuple[Hashable, Hashable, int]
Labels = NDArray[np.uint64]
Ends = Sequence[int] | Int32Array
_MOST = 1 << 62  # sum of widths that is computed in arrays of 64 bits


class Unreached(ValueError):
    """No flow reaches a node."""

    def __init__(self, node: int) -> None:
        super().__init__(f"nothing reaches node {node}")
        self.node = node


@dataclass(frozen=True, eq=False)
class CapacityGraph:
    """Nodes, and the whole-number bandwidth from each to each.

    Attributes
    ----------
    nodes
        Number of nodes.
    src, dst
        int64[links], ends; every pair occurs once, in order.
    width
        Bandwidth of each link: its value is `width` times `unit`.
    unit
        What a width of 1 stands for.
    """

    nodes: int
    src: IntArray
    dst: IntArray
    width: tuple[int, ...]
    unit: Fraction = Fraction(1)

    @classmethod
    def of(
        cls,
        nodes: int,
        src: Sequence[int] | Int32Array,
        dst: Sequence[int] | Int32Array,
        rates: Sequence[Fraction | int],
    ) -> CapacityGraph:
        """Return the graph of these links: parallel ones add up; loops and links without bandwidth have no effect."""
        kinds, which = unique_by_identity(rates)
        exact = [Fraction(rate) for rate in kinds]
        whole = math.lcm(*(rate.denominator for rate in exact))
        of_kind = [int(rate * whole) for rate in exact]
        small = max(of_kind, default=0) * max(len(which), 1) < _MOST
        amounts = np.array(of_kind, np.int64 if small else object)[which]
        keys = np.asarray(src, np.int64) * nodes + np.asarray(dst, np.int64)
        used = (np.asarray(src) != np.asarray(dst)) & (amounts > 0)
        pairs, place = np.unique(keys[used], return_inverse=True)
        sums = np.zeros(len(pairs), amounts.dtype)
        np.add.at(sums, place, amounts[used])
        widths = sums.tolist()
        shared = math.gcd(*widths) or 1
        return cls(
            nodes, pairs // nodes, pairs % nodes, tuple(width // shared for width in widths), Fraction(shared, whole)
        )

    @classmethod
    def named(cls, links: Iterable[Link], npus: Sequence[Hashable]) -> tuple[CapacityGraph, list[Hashable]]:
        """Return the graph of links between nodes of any names, and the names; the NPUs are nodes 0, 1, ..."""
        rows = list(links)
        names = list(dict.fromkeys([*npus, *(end for a, b, _ in rows for end in (a, b))]))
        number = {name: index for index, name in enumerate(names)}
        src, dst = ([number[row[side]] for row in rows] for side in (0, 1))
        return cls.of(len(names), src, dst, [rate for *_, rate in rows]), names

    @cached_property
    def reverse(self) -> CapacityGraph:
        """The graph with every link the other way; the graph itself, if that is the same."""
        order = np.lexsort((self.src, self.dst))
        src, dst, width = self.dst[order], self.src[order], tuple(self.width[link] for link in order.tolist())
        if width == self.width and np.array_equal(src, self.src) and np.array_equal(dst, self.dst):
            return self
        return CapacityGraph(self.nodes, src, dst, width, self.unit)

    @cached_property
    def widths(self) -> NDArray[Any]:
        """The widths as an array: int64[links], or Python integers if their sum might not fit."""
        small = sum(self.width) < _MOST
        return np.array(self.width, np.int64 if small else object)

    @cached_property
    def into(self) -> list[int]:
        """The total width of the links to each node."""
        sums = np.zeros(self.nodes, self.widths.dtype)
        np.add.at(sums, self.dst, self.widths)
        return [int(value) for value in sums.tolist()]

    def width_into(self, behind: BoolArray) -> int:
        """Return the total width of the links from all other nodes to these, bool[nodes]."""
        crossing = behind[self.dst] & ~behind[self.src]
        return int(self.widths[crossing].sum()) if crossing.any() else 0

    def width_out(self, inside: BoolArray) -> int:
        """Return the total width of the links from these nodes, bool[nodes], to all others."""
        return self.width_into(~inside)


def symmetries(graph: CapacityGraph, npus: IntArray, shape: Sequence[int] = ()) -> list[IntArray]:
    """Return permutations of the nodes, int64[nodes] each, that map links on links of the same width, and NPUs on NPUs.

    Candidates are the turns of a grid of the NPUs along each of its dimensions: of `shape` (the first dimension is the
    fastest), and of every way to divide them into rows of equal length. The images of the other nodes follow from
    their neighbors. Each candidate is verified, so what is returned is an automorphism, but there may be others.
    """
    found: list[IntArray] = []
    together = Classes(len(npus))
    for image in _turns(len(npus), shape):
        if together.count == 1:
            break
        if together.has(image):
            continue
        mapping = _extended(graph, npus, image)
        if mapping is not None:
            found.append(mapping)
            together.join(image)
    return found


class Classes:
    """Classes of numbers that permutations map on each other."""

    def __init__(self, count: int) -> None:
        self.of = np.arange(count)
        """int64[count]: the smallest number of the class of each."""

    @property
    def count(self) -> int:
        """The number of classes."""
        return len(np.unique(self.of))

    @property
    def first(self) -> list[int]:
        """The smallest number of each class."""
        return [int(number) for number in np.unique(self.of)]

    def has(self, image: IntArray) -> bool:
        """Return whether a permutation maps every number on one of its class."""
        return bool((self.of == self.of[image]).all())

    def join(self, image: IntArray) -> None:
        """Join the classes that a permutation maps on each other."""
        while not self.has(image):
            np.minimum.at(self.of, image, self.of.copy())
            np.minimum.at(self.of, np.arange(len(image)), self.of[image])
            self.of = self.of[self.of]


def _turns(count: int, shape: Sequence[int]) -> Iterator[IntArray]:
    """Permutations int64[count] that turn a grid of numbers along one dimension, or mirror it."""
    number = np.arange(count)
    tried = set[bytes]()
    grids = [tuple(reversed(shape))] if math.prod(shape) == count and len(shape) > 1 else []
    grids += [(count // row, row) for row in range(1, count + 1) if count % row == 0]
    for grid in grids:
        for axis in reversed(range(len(grid))):
            for image in (np.roll(number.reshape(grid), -1, axis), np.flip(number.reshape(grid), axis)):
                flat = image.ravel()
                if (key := flat.tobytes()) not in tried:
                    tried.add(key)
                    yield flat


def _extended(graph: CapacityGraph, npus: IntArray, image: IntArray) -> IntArray | None:
    """The permutation of all nodes that maps NPU i on NPU image[i] and every link on one of its width; None without.

    Nodes are labelled by their neighbors, round by round, beginning with the number of the image of each NPU; and once
    more beginning with the numbers of the NPUs. A node and its image have the same label. Nodes that share theirs are
    mapped in order.
    """
    here, there = np.zeros((2, graph.nodes), np.uint64)
    here[npus] = _mixed(image.astype(np.uint64) + np.uint64(1))
    there[npus] = _mixed(np.arange(1, len(npus) + 1, dtype=np.uint64))
    widths = np.array([hash(width) for width in graph.width], np.int64).astype(np.uint64)
    distinct = 0
    while distinct < (now := len(np.unique(there))) < graph.nodes:
        here, there = _relabelled(graph, here, widths), _relabelled(graph, there, widths)
        distinct = now
    order_here, order_there = np.argsort(here, kind="stable"), np.argsort(there, kind="stable")
    if not np.array_equal(here[order_here], there[order_there]):
        return None
    mapping = np.empty(graph.nodes, np.int64)
    mapping[order_here] = order_there
    if not np.array_equal(mapping[npus], npus[image]):
        return None
    key = mapping[graph.src] * graph.nodes + mapping[graph.dst]
    order = np.argsort(key)
    same_ends = np.array_equal(key[order], graph.src * graph.nodes + graph.dst)
    return mapping if same_ends and bool((graph.widths[order] == graph.widths).all()) else None


def _relabelled(graph: CapacityGraph, labels: Labels, widths: Labels) -> Labels:
    """New labels: of the label of each node, and of those of its neighbors with the widths of the links."""
    new = _mixed(labels)
    np.add.at(new, graph.dst, _mixed(labels[graph.src] ^ widths))
    np.add.at(new, graph.src, _mixed(_mixed(labels[graph.dst] + np.uint64(1)) ^ widths))
    return new


def _mixed(values: Labels) -> Labels:
    """Scramble 64-bit numbers (SplitMix64, Steele and others 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
