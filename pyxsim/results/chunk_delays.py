"""Delays of the chunks of NPU 0, by layer and phase and by dimension: the datasets layer_phases and occupancy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray


@dataclass(eq=False, repr=False)
class ChunkDelays:
    """Delays of the chunks of NPU 0, in cycles.

    Dimensions are those of the system layer; a workload that splits one in two has one more.

    Attributes
    ----------
    layer_names
        Names of the layers.
    queueing
        For each layer the mean wait of a chunk, from its creation to its first queue, then in each phase.
    network
        For each layer the mean time for which a message was expected, in each phase.
    chunk_time
        For each dimension the mean time from the start of a chunk there until it continues; NaN without chunks.
    window
        Cycles of a time window.
    busy
        int64[windows, dimensions]: cycles of each whole window in which the dimension had a chunk.
    """

    layer_names: list[str]
    queueing: list[list[float]]
    network: list[list[float]]
    chunk_time: list[float]
    window: int
    busy: IntArray
    clock_hz: Fraction

    def __repr__(self) -> str:
        return f"ChunkDelays({len(self.layer_names)} layers, {self.busy.shape[1]} dimensions)"

    def rows(self) -> dict[str, NDArray[Any]]:
        """Return the columns of /layer_phases. Phase 0 is the time before the first queue."""
        rows = [
            (layer, phase, wait, self.network[layer][phase - 1] if phase else np.nan)
            for layer, waits in enumerate(self.queueing)
            for phase, wait in enumerate(waits)
        ]
        table = np.array(rows, np.float64).reshape(-1, 4)
        names = np.array([self.layer_names[int(layer)] for layer in table[:, 0]], dtype=object)
        places = {"layer": table[:, 0].astype(np.int64), "name": names, "phase": table[:, 1].astype(np.int64)}
        return {**places, "queueing": table[:, 2], "network": table[:, 3]}

    @classmethod
    def of_rows(
        cls,
        names: list[str],
        rows: dict[str, NDArray[Any]],
        chunk_time: list[float],
        window: int,
        busy: IntArray,
        clock: Fraction,
    ) -> ChunkDelays:
        """Make it from the columns of `rows`."""
        places = [np.flatnonzero(rows["layer"] == layer) for layer in range(len(names))]
        return cls(
            layer_names=names,
            queueing=[rows["queueing"][place].tolist() for place in places],
            network=[rows["network"][place[1:]].tolist() for place in places],
            chunk_time=chunk_time,
            window=window,
            busy=busy,
            clock_hz=clock,
        )
