"""What takes the place of MPI in tests: the ranks are threads of this process, which meet at a barrier."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

PATIENCE = 60  # seconds


class ThreadWorld:
    """One rank: the methods of MpiWorld that a run calls."""

    def __init__(self, rank: int, meeting: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.size, self._meeting, self._barrier = rank, len(meeting), meeting, barrier

    def _together(self, mine: Any) -> list[Any]:
        """What all ranks bring."""
        self._meeting[self.rank] = mine
        self._barrier.wait()
        found = list(self._meeting)
        self._barrier.wait()
        return found

    def exchange(self, mails: Sequence[Any]) -> list[Any]:
        return [bytearray(sent[self.rank]) for sent in self._together([bytes(mail) for mail in mails])]

    def sum(self, values: Any) -> Any:
        return np.sum(self._together(values), axis=0, dtype=values.dtype)

    def max(self, values: Any) -> Any:
        return np.max(self._together(values), axis=0)

    def gather(self, entries: list[Any]) -> list[Any]:
        return [entry for part in self._together(entries) for entry in part]


def worlds(size: int) -> list[Any]:
    """The worlds of all ranks."""
    meeting, barrier = [None] * size, threading.Barrier(size, timeout=PATIENCE)
    return [ThreadWorld(rank, meeting, barrier) for rank in range(size)]


def on_all(pool: ThreadPoolExecutor, call: Callable[[Any], Any], ranks: Sequence[Any]) -> list[Any]:
    """Call a function for every rank, each in a thread, and return the results by rank."""
    return [future.result(PATIENCE) for future in [pool.submit(call, rank) for rank in ranks]]
