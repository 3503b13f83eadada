"""What NPUs share between computing and communicating: chunks that come to an endpoint and leave it, computations.

Bytes go through pipes (pipes.pyx), messages by themselves (executor.pyx). Here is what happens less often.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from math import ceil
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pyxsim.errors import InputError
from pyxsim.system.options import Endpoint
from pyxsim.system.pipes import Pipes
from pyxsim.system.work import Chunk

ONE = 2**16  # parts of a byte, and of a cycle's work
MOST = 2**46 - 1  # bytes of a computation, or its cycles: what whole numbers of 64 bits have room for


class Clock(Protocol):
    """Whoever knows the current cycle."""

    cycle: int


class _Move(NamedTuple):
    """A chunk on its way between memory and engine."""

    npu: int
    read: int
    written: int
    then: Callable[[], None]


class Endpoints:
    """The endpoints of all NPUs.

    Without an engine an NPU begins with a chunk at once, and computes more slowly while it is at one. With an engine
    the chunk waits for room there, is read, and written again when all phases are done.
    """

    def __init__(self, npus: int, endpoint: Endpoint, slow: Sequence[Fraction], clock: Clock) -> None:
        self.options = endpoint
        rates = (endpoint.memory, endpoint.communication, endpoint.engine_rate)
        self.pipes = Pipes(npus, *(0 if rate is None else max(int(rate * ONE), 1) for rate in rates))
        self._clock = clock
        self._slow = slow
        self._beside = ONE - int(endpoint.compute_share * ONE)  # of its work in a cycle, beside a collective
        self._at_work = [0] * npus  # chunks
        self._room = [endpoint.engine_memory] * npus
        self._waiting: list[deque[tuple[Chunk, int]]] = [deque() for _ in range(npus)]
        self._needs: dict[Chunk, list[int]] = {}  # per position: room in an engine
        self._reads: list[deque[_Move]] = [deque() for _ in range(npus)]  # one after the other; the first is under way
        self._writes: list[deque[_Move]] = [deque() for _ in range(npus)]
        self._missing: dict[Chunk, int] = {}  # NPUs that do not have a chunk's data yet
        self._actions: dict[int, Callable[[], None]] = {}  # by keys: what follows when something is through
        self._keys = 0

    # -- chunks --

    def check(self, chunk: Chunk) -> None:
        """Raise InputError for a chunk that fits into no engine."""
        room = self.options.engine_memory
        if room is None or not chunk.plan.phases:
            return
        most = np.max([np.maximum(phase.bytes_in, phase.bytes_out) for phase in chunk.plan.phases], axis=0).tolist()
        if max(most) > room:
            raise InputError(
                f"a chunk of {max(most)} bytes of the {chunk.collective.name} does not fit into an engine",
                key="system.endpoint.engine_memory",
                allowed="room for the largest chunk: more of it, or more chunks",
            )
        self._needs[chunk] = most

    def enter(self, chunk: Chunk, position: int) -> None:
        """An NPU has the data of a chunk."""
        if not self.options.engine:
            self._count(chunk, position, 1)
            chunk.stages[0].member_ready(position, self._clock.cycle)
        elif self.options.engine_memory is None:
            self._read(chunk, position)
        else:
            missing = self._missing.pop(chunk, chunk.plan.npus) - 1
            if missing:
                self._missing[chunk] = missing
                return
            members = chunk.collective.communicator.members
            for each, npu in enumerate(members):
                self._waiting[npu].append((chunk, each))
            for npu in members:
                self._serve(npu)

    def leave(self, chunk: Chunk, position: int) -> None:
        """An NPU has done all phases of a chunk."""
        if not self.options.engine:
            self._count(chunk, position, -1)
            chunk.member_through(position, self._clock.cycle)
            return
        npu, written = chunk.collective.communicator.members[position], int(chunk.plan.phases[-1].bytes_out[position])
        self._move(self._writes[npu], _Move(npu, 0, written, partial(self._written, chunk, position)))

    def _count(self, chunk: Chunk, position: int, change: int) -> None:
        """How many chunks an NPU is at: with none it computes as fast as it can."""
        npu = chunk.collective.communicator.members[position]
        before = self._at_work[npu] > 0
        self._at_work[npu] += change
        if self._beside < ONE and before != (self._at_work[npu] > 0):
            self.pipes.slow(npu, self._speed(npu), self._clock.cycle)

    def _speed(self, npu: int) -> int:
        return self._beside if self._at_work[npu] else ONE

    def _serve(self, npu: int) -> None:
        """Chunks get room in an engine in their order, and are read."""
        waiting, room = self._waiting[npu], self._room[npu]
        assert room is not None
        while waiting and (needed := self._needs[waiting[0][0]][waiting[0][1]]) <= room:
            room -= needed
            self._room[npu] = room
            self._read(*waiting.popleft())

    def _read(self, chunk: Chunk, position: int) -> None:
        npu, read = chunk.collective.communicator.members[position], int(chunk.plan.phases[0].bytes_in[position])
        self._move(self._reads[npu], _Move(npu, read, 0, partial(self._begin, chunk, position)))

    def _begin(self, chunk: Chunk, position: int) -> None:
        chunk.stages[0].member_ready(position, self._clock.cycle)

    def _written(self, chunk: Chunk, position: int) -> None:
        npu, room = chunk.collective.communicator.members[position], self.options.engine_memory
        if room is not None:
            self._room[npu] = (self._room[npu] or 0) + self._needs[chunk][position]
        chunk.member_through(position, self._clock.cycle)
        if room is not None:
            self._serve(npu)

    # -- what goes through the memory --

    def _move(self, line: deque[_Move], move: _Move) -> None:
        """A chunk is read or written when those before it are."""
        if not move.read + move.written:
            move.then()
            return
        line.append(move)
        if len(line) == 1:
            self._next(line)

    def _next(self, line: deque[_Move]) -> None:
        while line:
            move = line[0]
            key = self._key(partial(self._moved, line))
            if self.pipes.move(move.npu, key, move.read, move.written, self._clock.cycle):
                return
            del self._actions[key]
            move.then()
            line.popleft()

    def _moved(self, line: deque[_Move]) -> None:
        line[0].then()
        line.popleft()
        self._next(line)

    def compute(self, npu: int, ticks: int, size: int, then: Callable[[], None]) -> None:
        """An NPU begins to compute, now: `ticks` cycles when nothing holds it up, in which it moves so many bytes.

        `then` is called in the cycle of its end.
        """
        slowed = ceil(ticks * self._slow[npu])
        self.pipes.compute(npu, self._key(then), slowed, size, self._speed(npu), self._clock.cycle)

    def _key(self, then: Callable[[], None]) -> int:
        """Keys are used again, so that they stay small."""
        self._keys += 1
        key = self._keys % 2**31
        self._actions[key] = then
        return key

    def tell(self, keys: list[int]) -> None:
        """These are through."""
        for key in keys:
            self._actions.pop(key)()

    def totals(self) -> dict[str, NDArray[np.int64]]:
        """Per NPU: bytes `read`, `written` (communication), `compute`, `engine`; `busy` cycles of the memory."""
        return self.pipes.totals()
