"""Estimated times of experiments of several sizes on this machine, from the measured cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

FLIT = 256  # bytes
SIZES = (("1 MiB", 1 << 20), ("64 MiB", 1 << 26), ("1 GiB", 1 << 30))
SPEED_OF = {
    (4, 4, 4): "torus4x4x4-all-reduce",
    (8, 8, 8): "torus8x8x8-all-reduce",
    (16, 16, 16): "torus16x16x16-all-reduce",
}
"""The case with the speed of this shape: a network that exceeds the cache is several times slower."""


class Expected(NamedTuple):
    """A ring all-reduce on a torus, flit by flit. `cpu_s`: of the simulation, with nothing skipped."""

    npus: int
    size: str
    router_visits: int
    cpu_s: float


def expected(visits_per_cpu_s: Mapping[str, float]) -> Iterator[Expected]:
    """Return all sizes on all shapes, at the measured speeds by the names of the cases."""
    for shape, case in SPEED_OF.items():
        npus = prod(shape)
        for size, nbytes in SIZES:
            visits = ring_visits(npus, nbytes)
            yield Expected(npus, size, visits, visits / visits_per_cpu_s[case])


def ring_visits(npus: int, nbytes: int) -> int:
    """Router visits of a ring all-reduce, over one dimension or several.

    Every NPU sends each byte but its own part twice, once to be reduced and once as a sum: 2 (N - 1) / N of the
    buffer, each message to a neighbour, past the two routers of a link.
    """
    return 2 * npus * (2 * (npus - 1) * nbytes // (npus * FLIT))
