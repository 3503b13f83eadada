"""Windows of time taken together, where a page has no room for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyxsim.output.result import Floats, Longs, Result
from pyxsim.report.style import Clock


def together(result: Result, most: int) -> tuple[Floats, Longs]:
    """(how busy each link was in at most so many spans of time, the first window of each).

    Cycles are added up before they are divided: the last window is shorter than the others.
    """
    count = len(result.windows)
    starts = np.arange(0, count, max(1, -(-count // max(1, most))))
    cycles = np.add.reduceat(result.window_cycles, starts).astype(np.float64)
    return np.add.reduceat(result.busy, starts, axis=0) / cycles[:, np.newaxis], starts


def edges(result: Result, starts: Longs) -> Any:
    """Where these spans begin on the axis of time, and where the last one ends."""
    clock = Clock.of(result)
    return np.append(clock.at(result.windows.start[starts]), clock.end)
