"""Recorded times of other simulators for the work of a case, where they cannot be installed from a registry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recorded:
    """Minimum and maximum CPU seconds of the whole process. `work`: its own, if not the work of the case."""

    what: str
    case: str
    cpu_s: tuple[float, float]
    source: str
    work: int | None = None
    peak_mb: float | None = None

    def scaled(self, work: int) -> tuple[float, float]:
        """Return the minimum and maximum CPU seconds for this work."""
        factor = 1.0 if self.work is None else work / self.work
        least, most = self.cpu_s
        return least * factor, most * factor


# Measured on a shared machine with two AMD EPYC cores. BookSim2 counts "hops" (routers visited by a flit): accepted
# load x nodes x cycles x hops is its work.
_BOOKSIM = "BookSim2 with g++ 12.2 -O3, user time of its simulation, the faster of two runs"
RECORDED = (
    Recorded("BookSim2", "torus8x8-uniform-0.4", (1.218, 1.218), _BOOKSIM, round(0.3992 * 64 * 10069 * 4.997), 14),
    Recorded("BookSim2", "torus8x8-uniform-0.1", (0.312, 0.312), _BOOKSIM, round(0.0996 * 64 * 10048 * 4.993), 14),
    Recorded(
        "BookSim2", "torus8x8-uniform-0.2-1flit", (0.927, 0.927), _BOOKSIM, round(0.1997 * 64 * 10052 * 5.003), 14
    ),
    Recorded("BookSim2", "torus32x32-uniform-0.1", (10.08, 10.08), _BOOKSIM, round(0.0998 * 1024 * 2215 * 17.058), 65),
    Recorded(
        "ASTRA-sim 1 over Garnet",
        "torus4x4x4-all-reduce-garnet",
        (385, 394),
        "gem5_astra 4169587 with the system layer of ASTRA-sim e4aed7e; it ends in the same cycle",
        peak_mb=5200,
    ),
    Recorded("ASTRA-sim 2, analytical", "torus16x16x16-analytical", (7.8, 9.1), "ASTRA-sim 518bd51, C++"),
)
