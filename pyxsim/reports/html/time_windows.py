"""Windows of time taken together, where a page has no room for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.reports.plots.style import Clock, nice_top
from pyxsim.results.result import Result


def together(result: Result, most: int) -> tuple[FloatArray, IntArray]:
    """(how busy each link was in at most so many spans of time, the first window of each).

    Cycles are added up before they are divided: the last window is shorter than the others.
    """
    count = len(result.windows)
    starts = np.arange(0, count, max(1, -(-count // max(1, most))))
    cycles = np.add.reduceat(result.window_cycles, starts).astype(np.float64)
    return np.add.reduceat(result.busy, starts, axis=0) / cycles[:, np.newaxis], starts


def edges(result: Result, starts: IntArray) -> Any:
    """Where these spans begin on the axis of time, and where the last one ends."""
    clock = Clock.of(result)
    return np.append(clock.at(result.windows.start[starts]), clock.end)


def top_of(*shares: FloatArray) -> float:
    """Where a scale for such shares of time ends: at 100 % at most, though models without packets may tell more."""
    return min(1.0, nice_top(max((float(each.max(initial=0)) for each in shares), default=0.0)))


def beyond(*shares: FloatArray) -> list[str]:
    """What is to be said where a scale does not show all."""
    most = max((float(each.max(initial=0)) for each in shares), default=0.0)
    if most <= 1.0 + 1e-9:
        return []
    # Shares do not say which of the two it is.
    return [
        f"Links carried more than they can, up to {100 * most:.0f} %: this network model lets them, or the run was "
        "interrupted while a flit was under way, which is counted where it began. The scale ends at 100 %."
    ]
