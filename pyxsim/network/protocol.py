"""What the system layer knows of a network: send a message, let time pass, hear what arrived.

A backend is any class with these members. Time is in whole cycles of the backend's clock, and never goes back.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]


class Network(Protocol):
    """A network of `npus` endpoints, numbered from 0."""

    npus: int
    clock_hz: Fraction

    @property
    def now(self) -> int:
        """The current cycle. Messages can still be sent in it."""

    def send(self, src: int, dst: int, nbytes: int, *, plane: int = 0, at: int, tag: int = 0) -> int:
        """Hand over a message of `nbytes >= 1` bytes in cycle `at >= now`; returns its number.

        `plane` is one of the planes of the topology (a queue's way through the network). `tag`: whose traffic it is; a
        backend that tells who made whom wait tells it of tags.
        """

    def send_many(self, src: Longs, dst: Longs, nbytes: Longs, plane: Longs, at: int, tag: Longs | int = 0) -> int:
        """The same for K >= 1 messages, int64[K] each. Returns the number of the first; the others follow it."""

    def advance(self, until: int | None, *, slack: int = 0) -> tuple[Longs, Longs]:
        """Let time pass to cycle `until` (None: until nothing is left to do), but stop at arrivals.

        Returns (messages, cycles), int64[K]: what has arrived completely since the last call, in order of
        (cycle, message), as soon as there is something; `slack` cycles later if the caller promises to send nothing
        before that. K = 0: `until` is reached or nothing is left. Raises SimulationError.
        """
