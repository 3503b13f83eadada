"""Reads the events of a Chrome trace of torch.profiler, piece by piece."""

from enum import IntEnum
from typing import Any

from numpy.typing import NDArray

from pyxsim.arrays import Int32Array, IntArray

NOT_TOLD: int
"""Of a correlation that an event does not have."""

TRACE: str
"""What a file should be."""

class NotJson(ValueError):
    """A text that is not JSON. `at`: the byte of the file at which that shows."""

    at: int

class Kind(IntEnum):
    """What an event is, by its category."""

    OPERATOR = 1
    RUNTIME = 2
    KERNEL = 3
    COPY = 4
    GLOO = 5

class Events:
    """The complete events of these kinds, and `distributedInfo`; takes the bytes of a file as they are read.

    Attributes
    ----------
    listed
        Whether there is a list `traceEvents`.
    head
        What stands in `distributedInfo`; None without it.
    args
        The arguments, as bytes, of events that may communicate: kernels of NCCL, operators of c10d, records of gloo.
    names
        The names of events.
    """

    listed: bool
    head: Any
    args: dict[int, bytes]
    names: list[str]

    def __init__(self, file: str) -> None: ...
    def feed(self, text: bytes, last: bool) -> int:
        """Take bytes; return how many were used: what follows begins those of the next call. Raises InputError,
        NotJson."""

    def columns(self) -> tuple[IntArray, IntArray, IntArray, Int32Array, Int32Array, NDArray[Any]]:
        """Return start and end (ns), correlation, name, lane (thread, or device and stream) and `Kind` of events."""
