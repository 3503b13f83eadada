"""Samples of flows at the ends of windows: rate, window, bytes in flight, round-trip time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import FloatArray

SAMPLED = {"rate": np.float64, "window": np.int64, "flight": np.int64, "rtt": np.int64}


class FlowSamples:
    """Keeps a sample of each active flow per window; when windows widen, the last sample in each remains."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, dict[str, NDArray[Any]]]] = {}  # number of the window -> cycle, columns
        self._window = 0

    def record(self, cycle: int, control: Mapping[str, FloatArray], window: int) -> None:
        """Record what `Engine.flow_control` returns at the end of a window of `window` cycles, before `cycle`."""
        if self._window and window > self._window:
            self._rows = {number * self._window // window: row for number, row in self._rows.items()}
        self._window = window
        flow = np.flatnonzero(control["active"])
        if len(flow):
            columns = {name: np.rint(control[name][flow]).astype(dtype) for name, dtype in SAMPLED.items()}
            self._rows[(cycle - 1) // window] = cycle, {"flow": flow, **columns}

    def table(self) -> dict[str, NDArray[Any]]:
        """Return a row per sample, in order of time: "time" (cycles), "flow", and the columns `SAMPLED`."""
        rows = list(self._rows.values())
        counts = [len(columns["flow"]) for _, columns in rows]
        dtypes = {"flow": np.int64, **SAMPLED}
        return {
            "time": np.repeat(np.array([cycle for cycle, _ in rows], np.int64), counts),
            **{
                name: np.concatenate([np.zeros(0, dtype), *(columns[name] for _, columns in rows)])
                for name, dtype in dtypes.items()
            },
        }
