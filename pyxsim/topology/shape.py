"""Check shapes: positive integers, one per dimension."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable

from pyxsim.errors import InputError

# Beyond these the arrays of a network do not fit in the memory of a workstation.
MAX_DIMENSION = 4096
MAX_NPUS = 2**20


def check_npus(npus: object, key: str | None = "network.shape") -> int:
    """Return the number of NPUs of one dimension as an int. Raises InputError."""
    allowed = f"a whole number from 1 to {MAX_DIMENSION}"
    try:
        if isinstance(npus, bool):
            raise TypeError
        number = operator.index(npus)  # type: ignore[arg-type]
    except TypeError:
        text = str(npus).lower() if isinstance(npus, bool) else repr(npus)
        raise InputError(f"{text} is not a number of NPUs", key=key, allowed=allowed) from None
    if number < 1:
        raise InputError(f"a dimension of {number} NPUs is too small", key=key, allowed=allowed)
    if number > MAX_DIMENSION:
        raise InputError(f"a dimension of {number} NPUs is too large", key=key, allowed=allowed)
    return number


def check_count(value: int, key: str, limit: int = MAX_DIMENSION) -> int:
    """Return a number of parts, from 1 to `limit`. Raises InputError."""
    if not 1 <= value <= limit:
        problem = f"{value} is too {'small' if value < 1 else 'large'}"
        raise InputError(problem, key=key, allowed=f"a whole number from 1 to {limit}")
    return value


def check_shape(shape: object, dimensions: int | None = None, key: str = "network.shape") -> tuple[int, ...]:
    """Return the shape as a tuple; `dimensions` is its required length (None: any). Raises InputError."""
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise InputError(f"{shape!r} is not a shape", key=key, allowed="a list of numbers such as [4, 4, 4]")
    numbers = tuple(shape)
    if not numbers:
        raise InputError("the shape is empty", key=key, allowed="a list of numbers such as [4, 4, 4]")
    if dimensions is not None and len(numbers) != dimensions:
        length = "one number" if dimensions == 1 else f"{dimensions} numbers"
        raise InputError(f"{list(numbers)} has {len(numbers)} dimensions", key=key, allowed=f"a list of {length}")
    sizes = tuple(check_npus(number, key) for number in numbers)
    if math.prod(sizes) > MAX_NPUS:
        raise InputError(f"{math.prod(sizes)} NPUs are too many", key=key, allowed=f"at most {MAX_NPUS}")
    return sizes
