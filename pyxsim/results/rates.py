"""Bandwidth of a collective in the two measures of nccl-tests (its doc/PERFORMANCE.md).

*Algorithm bandwidth*: the data size divided by the time. *Bus bandwidth*: the same times the bytes that an optimal
algorithm sends per byte of data, which can be compared with the link bandwidth for any number of NPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """`data(n, size)`: the data size in bytes for n NPUs; `bus(n)`: bus over algorithm bandwidth."""

    data: Callable[[int, int], int]
    bus: Callable[[int], float]


def _buffer(npus: int, size: int) -> int:
    return size


def _gathered(npus: int, size: int) -> int:
    # `size` is the shard of one NPU; nccl-tests counts the data that every NPU has at the end.
    return npus * size


def _twice(npus: int) -> float:
    return 2 * (npus - 1) / npus


def _once(npus: int) -> float:
    return (npus - 1) / npus


MEASURES = {
    "all-reduce": Measure(_buffer, _twice),
    "reduce-scatter": Measure(_buffer, _once),
    "all-gather": Measure(_gathered, _once),
    "all-to-all": Measure(_buffer, _once),
}


@dataclass(frozen=True)
class Rates:
    """Bytes per second."""

    algorithm: float
    bus: float


def rates(kind: str, npus: int, size: int, seconds: float) -> Rates | None:
    """Return both bandwidths of a collective; None for other kinds, one NPU or no time.

    `size` is in bytes, as `[collective] size`.
    """
    measure = MEASURES.get(kind)
    if measure is None or npus < 2 or seconds <= 0:
        return None
    algorithm = measure.data(npus, size) / seconds
    return Rates(algorithm, algorithm * measure.bus(npus))
