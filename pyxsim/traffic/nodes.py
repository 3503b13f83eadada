"""Node numbers of patterns: bits, dimensions, and checks of the options that name nodes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.traffic.pattern import PatternContext, Permutation


def node_ids(context: PatternContext) -> IntArray:
    """Return all nodes, int64[N]: 0, 1, ..."""
    return np.arange(context.npus, dtype=np.int64)


def node_bits(context: PatternContext, name: str) -> int:
    """Return the number of bits of a node number; InputError unless N is a power of two."""
    if context.npus & (context.npus - 1):
        raise InputError(f"{name} requires a power-of-two number of NPUs; the network has {context.npus}")
    return context.npus.bit_length() - 1


def dimensions(context: PatternContext) -> tuple[int, ...]:
    """Return the nodes per dimension; InputError where the shape does not contain exactly N nodes."""
    shape = context.shape or (context.npus,)
    if prod(shape) != context.npus:
        sizes = "x".join(map(str, shape))
        raise InputError(f"this pattern requires dimensions; {context.npus} NPUs do not form a grid of {sizes}")
    return shape


def shift(context: PatternContext, steps: Sequence[int]) -> Permutation:
    """Return the permutation that adds `steps[d]` to the coordinate in each dimension d, modulo its size."""
    nodes, stride = node_ids(context), 1
    dst = np.zeros_like(nodes)
    for size, step in zip(dimensions(context), steps, strict=True):
        dst += (nodes // stride % size + step) % size * stride
        stride *= size
    return Permutation(dst)


def require_nodes(context: PatternContext, least: int) -> int:
    """Return N; InputError where the network has fewer than `least` nodes."""
    if context.npus < least:
        raise InputError(f"this pattern requires at least {least} NPUs; the network has {context.npus}")
    return context.npus


def integers(values: Any, option: str, least: int, most: int) -> list[int]:
    """Return the integers of an option, which is a non-empty list; InputError for others or out of range."""
    for value in _list(values, option):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            allowed = f"whole numbers from {least} to {most}"
            raise InputError(f"{value!r} is out of range", key=f"pattern_options.{option}", allowed=allowed)
    return list(values)


def integer(value: Any, option: str, least: int, most: int) -> int:
    """Return the integer of an option; InputError for others or out of range."""
    return integers([value], option, least, most)[0]


def positive_numbers(values: Any, option: str) -> list[float]:
    """Return the numbers of an option, a non-empty list of numbers above 0 and below 1e9; InputError for others."""
    for value in _list(values, option):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
            raise InputError(
                f"{value!r} is out of range", key=f"pattern_options.{option}", allowed="numbers above zero, below 1e9"
            )
    return [float(value) for value in values]


def _list(values: Any, option: str) -> list[Any]:
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise InputError(f"{values!r} is not a list", key=f"pattern_options.{option}", allowed="a list such as [0, 5]")
    return list(values)
