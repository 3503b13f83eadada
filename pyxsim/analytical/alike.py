"""Few values that many links share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def alike(values: Iterable[T]) -> tuple[list[T], NDArray[np.int64]]:
    """The different objects among `values`, and which of them each is.

    Objects are told apart as such, not by what they are worth: fractions take long to compare, and links of a kind
    share theirs.
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
