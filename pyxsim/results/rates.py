"""How fast a collective was, in the two measures of nccl-tests (its doc/PERFORMANCE.md), with which people compare.

*Algorithm bandwidth*: the data size divided by the time. *Bus bandwidth*: that, corrected by what an optimal algorithm
has to send per byte, so it can be held against the bandwidth of the links whatever the number of NPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """`data(n, size)`: what counts as the data size (bytes); `bus(n)`: bus over algorithm bandwidth, of n NPUs."""

    data: Callable[[int, int], int]
    bus: Callable[[int], float]


def _buffer(npus: int, size: int) -> int:
    return size


def _gathered(npus: int, size: int) -> int:
    # The size of an all-gather is the shard that one NPU contributes; nccl-tests counts what every NPU has at the end.
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
    """Both bandwidths of a collective; `size` as in `[collective] size`. None where they make no sense:
    another kind, one NPU, no time."""
    measure = MEASURES.get(kind)
    if measure is None or npus < 2 or seconds <= 0:
        return None
    algorithm = measure.data(npus, size) / seconds
    return Rates(algorithm, algorithm * measure.bus(npus))
