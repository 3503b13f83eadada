"""The pipes of all NPUs. Time is in cycles; numbers of bytes a cycle are in parts of 1/65536."""

import numpy as np
from numpy.typing import NDArray

class Pipes:
    """The memory and the offload engine of each NPU, as pipes that serve side by side (docs/endpoint.md).

    `memory`, `engine`: bytes a cycle of each, 0 for no limit; `communication`: what everything but computations may
    take of the memory together, 0 for no limit. The executor puts messages in and hears what is through.
    """

    npus: int
    working: int
    """Flows and computations that are in."""

    def __init__(self, npus: int, memory: int, communication: int, engine: int) -> None: ...
    def move(self, npu: int, key: int, read: int, written: int, now: int) -> bool:
        """Bytes go through the memory; whether that takes time. Then the executor tells the key."""
    def compute(self, npu: int, key: int, ticks: int, size: int, full: int, now: int) -> None:
        """A computation of `ticks >= 1` cycles that moves `size` bytes in that time when it is alone begins; it does
        `full` of 65536 parts of its work in a cycle at most. When it ends the executor tells the key."""
    def slow(self, npu: int, full: int, now: int) -> None:
        """From now on computations of the NPU do so much of their work in a cycle at most."""
    def totals(self) -> dict[str, NDArray[np.int64]]:
        """Per NPU: bytes `read` and `written` by communication, moved by `compute`, and by the `engine`; `busy`: cycles
        in which the memory served something."""
