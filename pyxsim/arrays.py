"""Names for the array types that annotations use, and helpers for arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

IntArray = NDArray[np.int64]
Int32Array = NDArray[np.int32]
AnyIntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]


def unique_by_identity(values: Iterable[T]) -> tuple[list[T], IntArray]:
    """Return the different objects of `values`, and int64[len(values)]: the index of each among them.

    Objects are compared by identity, because fractions take long to compare and links of a kind share theirs.
    """
    place: dict[int, int] = {}
    kinds: list[T] = []
    which = []
    for value in values:
        number = place.setdefault(id(value), len(kinds))
        if number == len(kinds):
            kinds.append(value)
        which.append(number)
    return kinds, np.array(which, np.int64)
