"""Names for the array types that annotations use, and helpers for arrays."""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

IntArray = NDArray[np.int64]
Int32Array = NDArray[np.int32]
AnyIntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

MANY = 64  # from this many entries on, NumPy sums them faster than Python


def unique_by_identity(values: Iterable[T]) -> tuple[list[T], IntArray]:
    """Return the different objects of `values`, and int64[len(values)]: the index of each among them.

    Objects are compared by identity, because fractions take long to compare and links of a kind share theirs.
    """
    objects = values if isinstance(values, list) else list(values)
    number = np.fromiter(map(id, objects), np.int64, len(objects))
    if not len(number) or (number == number[0]).all():
        return objects[:1], np.zeros(len(number), np.int64)
    _, first, which = np.unique(number, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return [objects[index] for index in first[order].tolist()], place[which]


def unique_rows(table: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct rows in order, and int64[len(table)]: the number of each row among them.

    The same as `np.unique` with an axis, which sorts whole rows and takes far longer.
    """
    if not table.size:
        rows, number = np.unique(table, axis=0, return_inverse=True)
        return rows, number.ravel()
    low = table.min(axis=0).tolist()
    sizes = [high - least + 1 for high, least in zip(table.max(axis=0).tolist(), low, strict=True)]
    if math.prod(sizes) >= 1 << 63:
        rows, number = np.unique(table, axis=0, return_inverse=True)
        return rows, number.ravel()
    code = np.zeros(len(table), np.int64)
    for column, (least, size) in enumerate(zip(low, sizes, strict=True)):
        if size > 1:
            code *= size
            code += table[:, column] - least
    codes, number = np.unique(code, return_inverse=True)
    rows = np.empty((len(codes), table.shape[1]), np.int64)
    for column in reversed(range(table.shape[1])):
        codes, rows[:, column] = np.divmod(codes, sizes[column])
    return rows + np.array(low, np.int64), number.ravel()


@dataclass(frozen=True, eq=False)
class Rows(Sequence[IntArray]):
    """Arrays of different lengths in one: array i is values[first[i]:first[i + 1]]."""

    values: IntArray
    first: IntArray

    def __len__(self) -> int:
        return len(self.first) - 1

    def __getitem__(self, number: Any) -> Any:
        return self.values[self.first[number] : self.first[number + 1]]

    def alike(self, numbers: IntArray) -> IntArray:
        """Return int64[len(numbers), length]: some of the arrays, which must have the same length."""
        length = int(self.first[numbers[0] + 1] - self.first[numbers[0]])
        table: IntArray = self.values[self.first[numbers][:, None] + np.arange(length)]
        return table


class ArrayMemo(Generic[T]):
    """Values by the contents of arrays. It forgets all when it would hold more than `most` entries of arrays."""

    def __init__(self, most: int) -> None:
        self.most, self._held = most, 0
        self._values: dict[tuple[Hashable, ...], T] = {}

    def __getstate__(self) -> int:
        """Pickle and copy it without values."""
        return self.most

    def __setstate__(self, most: int) -> None:
        self.__init__(most)  # type: ignore[misc]

    @staticmethod
    def key(columns: Iterable[Any]) -> tuple[Hashable, ...]:
        """The key of a value: the contents of arrays, and numbers."""
        return tuple(each.tobytes() if isinstance(each, np.ndarray) else each for each in columns)

    def get(self, key: tuple[Hashable, ...]) -> T | None:
        return self._values.get(key)

    def put(self, key: tuple[Hashable, ...], value: T, size: int) -> None:
        """Add a value that holds `size` entries of arrays with its key."""
        if self._held + size > self.most:
            self.clear()
        if size <= self.most:
            self._values[key] = value
            self._held += size

    def clear(self) -> None:
        self._values.clear()
        self._held = 0


def append(column: array[int], values: NDArray[np.integer]) -> None:
    """Append values to an array of Python, converted to its type."""
    column.frombytes(values.astype(column.typecode).tobytes())


def sum_at(column: array[int], places: IntArray) -> int:
    """Return the sum of these entries of an array of Python."""
    if len(places) <= MANY:
        return sum(map(column.__getitem__, places.tolist()))
    # The view must not outlive this line: an array with a view cannot grow.
    return int(np.frombuffer(column, column.typecode)[places].sum())
