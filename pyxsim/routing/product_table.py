"""Routing tables of products: a block's table is stored once, whatever the number of its copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from pyxsim.arrays import Int32Array, IntArray

NONE = -1  # no route
FIRST_SET = -2  # candidate set number FIRST_SET - value


class Copies(NamedTuple):
    """The entries of all copies of a block, one copy after the other.

    Attributes
    ----------
    values
        int32[entries of a copy]: of the first copy.
    copies
        Number of copies.
    links, sets
        From one copy to the next, link numbers and numbers of candidate sets increase by this.
    """

    values: Int32Array
    copies: int
    links: int = 0
    sets: int = 0


class ProductTable(NDArrayOperatorsMixin):
    """int32[entries], computed when it is read: entries of links, or of VC classes.

    An operand of NumPy functions like an array that cannot be changed; those but indexing make the whole array.
    """

    dtype = np.dtype(np.int32)
    ndim = 1

    def __init__(self, parts: Sequence[Copies]) -> None:
        self.parts = tuple(parts)
        sizes = [len(part.values) for part in parts]
        self._values = np.concatenate([part.values for part in parts])
        self._size = np.array(sizes, np.int64)
        self._first = np.cumsum([0, *sizes])[:-1]
        ends = np.cumsum([0, *(size * part.copies for size, part in zip(sizes, parts, strict=True))])
        self._begin, self._end = ends[:-1], ends[1:]
        self._links = np.array([part.links for part in parts], np.int64)
        self._sets = np.array([part.sets for part in parts], np.int64)

    def __len__(self) -> int:
        return int(self._end[-1])

    @property
    def shape(self) -> tuple[int]:
        """The shape as an array."""
        return (len(self),)

    def place(self, entry: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the part of each entry, its copy, and its place in the copy."""
        part = np.searchsorted(self._end, entry, side="right")
        copy, place = np.divmod(entry - self._begin[part], self._size[part])
        return part, copy, place

    def __getitem__(self, entry: Any) -> Any:
        if isinstance(entry, slice):
            entry = np.arange(*entry.indices(len(self)))
        elif getattr(entry, "dtype", None) == np.bool_:
            entry = np.flatnonzero(entry)
        part, copy, place = self.place(np.asarray(entry, np.int64))
        values = self._values[self._first[part] + place]
        if self._links.any():
            values = np.where(values > NONE, values + self._links[part] * copy, values)
        if self._sets.any():
            values = np.where(values <= FIRST_SET, values - self._sets[part] * copy, values)
        return values.astype(np.int32)[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Int32Array:
        tables = []
        for values, copies, links, sets in self.parts:
            number = np.arange(copies)[:, None]
            table = values + np.where(values > NONE, links, np.where(values <= FIRST_SET, -sets, 0)) * number
            tables.append(table.ravel().astype(dtype or np.int32))
        return np.concatenate(tables)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = (np.asarray(value) if isinstance(value, ProductTable) else value for value in inputs)
        return getattr(ufunc, method)(*arrays, **options)

    def __iter__(self) -> Any:
        return iter(np.asarray(self))

    def columns(self) -> dict[str, Any]:
        """Return what the table is made of, by name."""
        return {"values": self._values, "parts": [(len(p.values), *p[1:]) for p in self.parts]}


class Ties(NamedTuple):
    """The entries of one plane that has the candidates of two.

    Attributes
    ----------
    link, vc_class
        The tables with these entries behind the others.
    offset
        int64[rows, nd]: the first entry of a router and dimension.
    first_link, first_class, other_link, other_class
        int32[sets] each: the candidates of each set.
    """

    link: ProductTable
    vc_class: ProductTable
    offset: IntArray
    first_link: Int32Array
    first_class: Int32Array
    other_link: Int32Array
    other_class: Int32Array


def ties(link: ProductTable, vc_class: ProductTable, first: IntArray, other: IntArray, used: Any) -> Ties | None:
    """Return the entries with the candidates of both planes, by block; None if the planes are not parts of a product.

    Parameters
    ----------
    link, vc_class
        The tables of both planes, with one candidate or none per entry.
    first, other
        int64[rows, nd]: the first entry of each router and dimension on either plane.
    used
        bool[rows, nd]: whether a router decides in a dimension.
    """
    offset = first.copy()
    links, classes = list(link.parts), list(vc_class.parts)
    sets: list[list[Int32Array]] = [[np.zeros(0, np.int32)] for _ in range(4)]
    count, end = 0, len(link)
    for dim in range(first.shape[1]):
        rows = np.flatnonzero(used[:, dim])
        if not len(rows) or (first[rows, dim] == other[rows, dim]).all():
            continue
        (part, copy, place), (part_2, copy_2, place_2) = (link.place(each[rows, dim]) for each in (first, other))
        apart = int(place_2[0] - place[0])
        if apart < 0 or (part != part[0]).any() or (part_2 != part[0]).any():
            return None
        if (copy != copy_2).any() or (place_2 - place != apart).any():
            return None
        of, of_class = links[part[0]], classes[part[0]]
        size = len(of.values) - apart
        a, b, class_a, class_b = of.values[:size], of.values[apart:], of_class.values[:size], of_class.values[apart:]
        tie = (a != NONE) & (b != NONE) & ((a != b) | (class_a != class_b))
        either = np.where(a == NONE, b, a)
        class_of = np.where(tie | (either == NONE), 0, np.where(a == NONE, class_b, class_a))
        distinct, number = np.unique(np.stack([a, class_a, b, class_b])[:, tie], axis=1, return_inverse=True)
        either[tie] = FIRST_SET - (count + number.ravel())
        links.append(Copies(either.astype(np.int32), of.copies, of.links, distinct.shape[1]))
        classes.append(Copies(class_of.astype(np.int32), of.copies))
        offset[rows, dim] = end + copy * size + place
        end += size * of.copies
        count += distinct.shape[1] * of.copies
        shift = of.links * np.arange(of.copies)[:, None]
        for column, (values, moves) in enumerate(zip(distinct, (True, False, True, False), strict=True)):
            sets[column].append((values + shift * moves).ravel().astype(np.int32))
    members = [np.concatenate(column) for column in sets]
    return Ties(ProductTable(links), ProductTable(classes), offset, *members)
