"""How long experiments of some sizes will take on this machine, by what its cases took."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

FLIT = 256  # bytes
SIZES = (("1 MiB", 1 << 20), ("64 MiB", 1 << 26), ("1 GiB", 1 << 30))
SHAPES = ((4, 4, 4), (8, 8, 8), (16, 16, 16))


class Expected(NamedTuple):
    """A ring all-reduce on a torus, flit by flit. `cpu_s`: at the speed that was measured, with nothing skipped."""

    npus: int
    size: str
    router_visits: int
    cpu_s: float


def expected(visits_per_cpu_s: float) -> Iterator[Expected]:
    """All sizes on all shapes."""
    for shape in SHAPES:
        npus = prod(shape)
        for size, nbytes in SIZES:
            visits = ring_visits(npus, nbytes)
            yield Expected(npus, size, visits, visits / visits_per_cpu_s)


def ring_visits(npus: int, nbytes: int) -> int:
    """Router visits of a ring all-reduce, over one dimension or several.

    Every NPU sends each byte but its own part twice, once to be added up and once as a sum: 2 (N - 1) / N of the
    buffer, each message to a neighbour, past the two routers of a link.
    """
    return 2 * npus * (2 * (npus - 1) * nbytes // (npus * FLIT))
