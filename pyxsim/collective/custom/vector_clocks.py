"""Whether the program orders all uses of a place by the threads of a rank.

Each thread has a clock: how many steps of every thread are certainly over (Mattern, "Virtual time and global states of
distributed systems", 1988). Clocks travel with messages and along waits between threads. A use of a place is ordered if
all earlier conflicting uses are in the past of its thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pyxsim.collective.arrays import I32


class Use(NamedTuple):
    """A step that uses a place."""

    thread: int
    step: int


@dataclass
class _Uses:
    """The last write of a place, and the reads since."""

    write: Use | None = None
    reads: list[Use] = field(default_factory=list)


class VectorClocks:
    """The clocks of all threads, and the last uses of each place."""

    def __init__(self, threads: int) -> None:
        self._now = np.zeros((threads, threads), dtype=np.int32)
        self._uses: dict[tuple[int, int], _Uses] = {}

    def now(self, thread: int) -> I32:
        """Return the clock of a thread, for `learn`."""
        clock: I32 = self._now[thread].copy()
        return clock

    def learn(self, thread: int, clock: I32) -> None:
        """Advance a thread's clock to that of something that it has waited for."""
        np.maximum(self._now[thread], clock, out=self._now[thread])

    def over(self, thread: int, step: int) -> None:
        """Record that a step of the thread has ended."""
        self._now[thread, thread] = step + 1

    def read(self, use: Use, rank: int, place: int) -> Use | None:
        """Record a read. Return a write that it races with, if any."""
        uses = self._uses.setdefault((rank, place), _Uses())
        uses.reads.append(use)
        return self._loose(use, [uses.write])

    def write(self, use: Use, rank: int, place: int) -> Use | None:
        """Record a write. Return a use that it races with, if any."""
        uses = self._uses.setdefault((rank, place), _Uses())
        loose = self._loose(use, [uses.write, *uses.reads])
        self._uses[rank, place] = _Uses(use)
        return loose

    def _loose(self, use: Use, earlier: list[Use | None]) -> Use | None:
        for each in earlier:
            if each is not None and each.thread != use.thread and self._now[use.thread, each.thread] <= each.step:
                return each
        return None
