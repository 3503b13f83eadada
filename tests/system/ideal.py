"""A network without a network: every message takes the time that a function says, however many there are."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from pyxsim import library
from pyxsim.arrays import IntArray
from pyxsim.network.protocol import Capabilities
from pyxsim.system import Options, System
from pyxsim.topology.topology import Queue

library.load_all()

Time = Callable[[int, int, int], int]  # (source, destination, bytes) -> cycles


class Ideal:
    """A `Network` (pyxsim/network/protocol.py). `sent`: (cycle, source, destination, bytes, plane) of every message;
    `tags`: whose each is."""

    capabilities = Capabilities()

    def __init__(self, npus: int, time: Time | int, *, lost: Sequence[int] = ()) -> None:
        self.npus = npus
        self.clock_hz = Fraction(10**9)
        self.now = 0
        self.sent: list[tuple[int, int, int, int, int]] = []
        self.tags: list[int] = []
        self._time: Time = time if callable(time) else lambda src, dst, size: time
        self._lost = lost
        self._flying: list[tuple[int, int]] = []

    def send(self, src: int, dst: int, nbytes: int, *, plane: int = 0, at: int, tag: int = 0) -> int:
        assert at >= self.now
        assert nbytes > 0
        assert src != dst
        number = len(self.sent)
        self.sent.append((at, src, dst, nbytes, plane))
        self.tags.append(tag)
        if number not in self._lost:
            heapq.heappush(self._flying, (at + self._time(src, dst, nbytes), number))
        return number

    def send_many(
        self, src: IntArray, dst: IntArray, nbytes: IntArray, plane: IntArray, at: int, tag: IntArray | int = 0
    ) -> int:
        columns = np.broadcast_arrays(src, dst, nbytes, plane, tag)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return min([self.send(a, b, size, plane=p, at=at, tag=t) for a, b, size, p, t in rows])

    def take_losses(self) -> Sequence[int]:
        return ()

    def advance(self, until: int | None, *, slack: int = 0) -> tuple[IntArray, IntArray]:
        first = self._flying[0][0] if self._flying else None
        if first is None or (until is not None and first > until):
            self.now = self.now if until is None else until
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.now = first
        batch = []
        while self._flying and self._flying[0][0] == first:
            cycle, number = heapq.heappop(self._flying)
            batch.append((number, cycle))
        messages, cycles = np.array(batch, np.int64).T
        return messages, cycles


def options(algorithms: str | Sequence[str] = "ring", dims: int = 1, **others: Any) -> Options:
    """Options with one clockwise queue and room for one chunk in each dimension, unless said otherwise."""
    names = [algorithms] * dims if isinstance(algorithms, str) else list(algorithms)
    known: dict[str, Any] = {
        "algorithms": lambda kind: names,
        "queues": [(Queue(0, 1),)] * len(names),
        "slots": [1] * len(names),
        "bandwidths": [Fraction(1)] * len(names),
    }
    return Options(**(known | others))


def system(shape: Sequence[int], time: Time | int, algorithms: str | Sequence[str] = "ring", **others: Any) -> System:
    """A system layer on an ideal network."""
    npus = 1
    for size in shape:
        npus *= size
    names = [algorithms] * len(shape) if isinstance(algorithms, str) else algorithms
    return System(Ideal(npus, time), shape, options(names, **others))
