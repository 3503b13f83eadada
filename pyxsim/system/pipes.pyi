"""Shared bandwidth of the endpoints. Times are cycles; rates are bytes per cycle in units of 1/65536."""

import numpy as np
from numpy.typing import NDArray

class Pipes:
    """The memory and the offload engine of each NPU as pipes with max-min fair shares (docs/endpoint.md).

    `memory`, `engine`: rate of each, 0 for no limit; `communication`: limit of all flows in the memory
    together, without computations, 0 for none. The executor starts flows and collects those that have finished.
    """

    npus: int
    working: int
    """Flows and computations in progress."""

    def __init__(self, npus: int, memory: int, communication: int, engine: int) -> None: ...
    def move(self, npu: int, key: int, read: int, written: int, now: int) -> bool:
        """Read and write bytes in the memory. Returns whether that takes time; the executor then returns the key."""
    def compute(self, npu: int, key: int, ticks: int, size: int, full: int, now: int) -> None:
        """Start a computation of `ticks >= 1` cycles that moves `size` bytes when it is alone, at most `full` / 65536
        cycles of work per cycle. The executor returns the key at its end."""
    def slow(self, npu: int, full: int, now: int) -> None:
        """Limit the computations of an NPU to `full` / 65536 cycles of work per cycle from now on."""
    def totals(self) -> dict[str, NDArray[np.int64]]:
        """Return per NPU: bytes `read` and `written` by communication, moved by `compute` and by the `engine`; `busy`
        cycles of the memory."""
