"""Merge time windows where a page has no space for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.reports.plots.style import Clock, nice_top
from pyxsim.results.result import Result


def together(result: Result, most: int) -> tuple[FloatArray, IntArray]:
    """Return (utilization of each link in at most `most` spans, first window of each span).

    Cycles are summed before the division, because the last window is shorter.
    """
    count = len(result.windows)
    starts = np.arange(0, count, max(1, -(-count // max(1, most))))
    cycles = np.add.reduceat(result.window_cycles, starts).astype(np.float64)
    return np.add.reduceat(result.busy, starts, axis=0) / cycles[:, np.newaxis], starts


def edges(result: Result, starts: IntArray) -> Any:
    """Return where the spans start on the time axis, and where the last one ends."""
    clock = Clock.of(result)
    return np.append(clock.at(result.windows.start[starts]), clock.end)


def top_of(*shares: FloatArray) -> float:
    """Return the end of a scale for utilization: at most 100 %, although backends without packets may exceed it."""
    return min(1.0, nice_top(max((float(share.max(initial=0)) for share in shares), default=0.0)))


def beyond(*shares: FloatArray) -> list[str]:
    """Return notes about values beyond the scale."""
    most = max((float(share.max(initial=0)) for share in shares), default=0.0)
    if most <= 1.0 + 1e-9:
        return []
    # Shares do not distinguish the two cases.
    return [
        f"Links exceeded their capacity, up to {100 * most:.0f} %: either this network model ignores it, or the run "
        "was interrupted while a flit was in transmission, which counts in the window in which it began. The scale "
        "ends at 100 %."
    ]
