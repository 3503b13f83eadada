"""Columns whose arrays are made when they are read: a table of many rows that repeat few values stays small."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pyxsim.arrays import IntArray

BLOCK = 1 << 16
"""Rows of a block, about."""

Repeated = tuple[IntArray, IntArray | None]
"""Values, and for each row the index of its value; without indices, row i has value i."""


@dataclass(frozen=True, eq=False)
class LazyColumn:
    """A column of `length` numbers without an array: `np.asarray(column)` calls `make`, each time again."""

    length: int
    dtype: np.dtype[Any]
    make: Callable[[], NDArray[Any]]

    @property
    def shape(self) -> tuple[int]:
        """The number of rows."""
        return (self.length,)

    def __len__(self) -> int:
        return self.length

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return self.make().astype(self.dtype if dtype is None else dtype, copy=False)


class LazyColumns(Mapping[str, IntArray]):
    """Columns of runs of rows; `columns[name]` makes the array of a column, and `lazy(name)` one that makes it later.

    Parameters
    ----------
    names
        Names of the columns, in order.
    sizes
        int64[runs]: rows of each run.
    constants
        int64[runs] each: columns with one value per run.
    repeated
        The other columns: the rows of each run. Runs that repeat alike share their arrays, which saves the memory.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        sizes: IntArray,
        constants: Mapping[str, IntArray],
        repeated: Mapping[str, list[Repeated]],
    ) -> None:
        self._names, self._sizes, self._constants, self._repeated = names, sizes, constants, repeated
        self.rows = int(sizes.sum())

    def __getitem__(self, name: str) -> IntArray:
        if name in self._constants:
            return np.repeat(self._constants[name], self._sizes)
        return _joined(self._repeated[name], self._sizes.tolist())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def lazy(self, name: str) -> LazyColumn:
        """Return a column that makes its array when it is read."""
        return LazyColumn(self.rows, np.dtype(np.int64), lambda: self[name])

    def mapped(self, name: str, function: Callable[[IntArray], IntArray]) -> LazyColumns:
        """Return the columns with a function of the values of one that has a value per run."""
        constants = {**self._constants, name: function(self._constants[name])}
        return LazyColumns(self._names, self._sizes, constants, self._repeated)

    def between(self, name: str, first: int, last: int) -> dict[str, IntArray]:
        """Return the rows, in order, whose value in a repeated column is at least `first` and below `last`."""
        places: dict[tuple[int, int], IntArray] = {}
        chosen = []
        for values, index in self._repeated[name]:
            key = id(values), id(index)
            if key not in places:
                own = values if index is None else values[index]
                places[key] = np.flatnonzero((own >= first) & (own < last))
            chosen.append(places[key])
        sizes = np.array([len(rows) for rows in chosen], np.int64)
        part: dict[str, IntArray] = {}
        for other in self._names:
            if other in self._constants:
                part[other] = np.repeat(self._constants[other], sizes)
            else:
                runs = zip(self._repeated[other], chosen, strict=True)
                some: list[Repeated] = [
                    (values, rows if index is None else index[rows]) for (values, index), rows in runs
                ]
                part[other] = _joined(some, sizes.tolist())
        return part


def sources(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns as a dict, lazy ones as such."""
    source = getattr(columns, "source", columns)
    return {name: source.lazy(name) for name in source} if isinstance(source, LazyColumns) else dict(source)


def mapped(
    columns: Mapping[str, IntArray], name: str, function: Callable[[IntArray], IntArray]
) -> Mapping[str, IntArray]:
    """Return the columns with a function of the values of one."""
    if isinstance(columns, LazyColumns):
        return columns.mapped(name, function)
    return {**columns, name: function(columns[name])}


def blocks(columns: Mapping[str, IntArray], name: str, end: int) -> Iterator[dict[str, IntArray]]:
    """Yield the rows in blocks by the value of a column, which is below `end`; lazy columns in several."""
    if not isinstance(columns, LazyColumns):
        yield dict(columns)
        return
    step = max(1, -(-end * BLOCK // columns.rows))
    for first in range(0, end, step):
        yield columns.between(name, first, first + step)


def _joined(runs: list[Repeated], sizes: list[int]) -> IntArray:
    made = np.empty(sum(sizes), np.int64)
    end = 0
    for (values, index), size in zip(runs, sizes, strict=True):
        made[end : end + size] = values if index is None else values[index]
        end += size
    return made
