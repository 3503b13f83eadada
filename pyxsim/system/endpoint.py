"""Endpoints that computation and communication share: chunks that enter and leave them, computations.

The pipes (pipes.pyx) serve the bytes; the executor (executor.pyx) handles messages. This file handles the rarer events.
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

ONE = 2**16  # unit of bytes and of work per cycle: 1/ONE
MOST = 2**46 - 1  # bytes or cycles of a computation that 64-bit integers can represent in this unit


class Clock(Protocol):
    """An object with the current cycle."""

    cycle: int


class _Move(NamedTuple):
    """A transfer of a chunk between memory and engine."""

    npu: int
    read: int
    written: int
    then: Callable[[], None]


class Endpoints:
    """The endpoints of all NPUs.

    Without an engine an NPU begins with a chunk at once, and computes more slowly while it works on one. With an engine
    the chunk waits for memory there, is read, and written back after all phases.
    """

    def __init__(self, npus: int, endpoint: Endpoint, slow: Sequence[Fraction], clock: Clock) -> None:
        self.options = endpoint
        rates = (endpoint.memory, endpoint.communication, endpoint.engine_rate)
        self.pipes = Pipes(npus, *(0 if rate is None else max(int(rate * ONE), 1) for rate in rates))
        self._clock = clock
        self._slow = slow
        self._beside = ONE - int(endpoint.compute_share * ONE)  # of its work per cycle, during a collective
        self._active_chunks = [0] * npus
        self._free_memory = [endpoint.engine_memory] * npus  # of each engine
        self._waiting: list[deque[tuple[Chunk, int]]] = [deque() for _ in range(npus)]
        self._needs: dict[Chunk, list[int]] = {}  # per position: memory in an engine
        self._reads: list[deque[_Move]] = [
            deque() for _ in range(npus)
        ]  # one after the other; the first is in progress
        self._writes: list[deque[_Move]] = [deque() for _ in range(npus)]
        self._missing: dict[Chunk, int] = {}  # NPUs without the data of a chunk
        self._actions: dict[int, Callable[[], None]] = {}  # by key: called when it has finished
        self._keys = 0

    # -- chunks --

    def check(self, chunk: Chunk) -> None:
        """Raise InputError for a chunk that does not fit into an engine."""
        capacity = self.options.engine_memory
        if capacity is None or not chunk.plan.phases:
            return
        needed = np.max([np.maximum(phase.bytes_in, phase.bytes_out) for phase in chunk.plan.phases], axis=0).tolist()
        if max(needed) > capacity:
            raise InputError(
                f"a chunk of {max(needed)} bytes of the {chunk.collective.name} does not fit into an engine",
                key="system.endpoint.engine_memory",
                allowed="a larger value, or more chunks",
            )
        self._needs[chunk] = needed

    def enter(self, chunk: Chunk, position: int) -> None:
        """Let an NPU that has the data of a chunk begin with it."""
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
            for member, npu in enumerate(members):
                self._waiting[npu].append((chunk, member))
            for npu in members:
                self._serve(npu)

    def leave(self, chunk: Chunk, position: int) -> None:
        """Let a chunk leave an NPU that has finished all its phases."""
        if not self.options.engine:
            self._count(chunk, position, -1)
            chunk.member_through(position, self._clock.cycle)
            return
        npu, written = chunk.collective.communicator.members[position], int(chunk.plan.phases[-1].bytes_out[position])
        self._move(self._writes[npu], _Move(npu, 0, written, partial(self._written, chunk, position)))

    def _count(self, chunk: Chunk, position: int, change: int) -> None:
        """Count the chunks that an NPU works on: without any it computes at full speed."""
        npu = chunk.collective.communicator.members[position]
        before = self._active_chunks[npu] > 0
        self._active_chunks[npu] += change
        if self._beside < ONE and before != (self._active_chunks[npu] > 0):
            self.pipes.slow(npu, self._speed(npu), self._clock.cycle)

    def _speed(self, npu: int) -> int:
        return self._beside if self._active_chunks[npu] else ONE

    def _serve(self, npu: int) -> None:
        """Give engine memory to chunks in their order, and read them."""
        waiting, free = self._waiting[npu], self._free_memory[npu]
        assert free is not None
        while waiting and (needed := self._needs[waiting[0][0]][waiting[0][1]]) <= free:
            free -= needed
            self._free_memory[npu] = free
            self._read(*waiting.popleft())

    def _read(self, chunk: Chunk, position: int) -> None:
        npu, read = chunk.collective.communicator.members[position], int(chunk.plan.phases[0].bytes_in[position])
        self._move(self._reads[npu], _Move(npu, read, 0, partial(self._begin, chunk, position)))

    def _begin(self, chunk: Chunk, position: int) -> None:
        chunk.stages[0].member_ready(position, self._clock.cycle)

    def _written(self, chunk: Chunk, position: int) -> None:
        npu, limited = chunk.collective.communicator.members[position], self.options.engine_memory is not None
        if limited:
            self._free_memory[npu] = (self._free_memory[npu] or 0) + self._needs[chunk][position]
        chunk.member_through(position, self._clock.cycle)
        if limited:
            self._serve(npu)

    # -- memory traffic --

    def _move(self, line: deque[_Move], move: _Move) -> None:
        """Read or write a chunk after those before it."""
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
        """Start a computation of `ticks` cycles at full speed that moves `size` bytes; call `then` at its end."""
        slowed = ceil(ticks * self._slow[npu])
        self.pipes.compute(npu, self._key(then), slowed, size, self._speed(npu), self._clock.cycle)

    def _key(self, then: Callable[[], None]) -> int:
        """Register an action. Keys are reused, so that they stay small."""
        self._keys += 1
        key = self._keys % 2**31
        self._actions[key] = then
        return key

    def finish(self, keys: list[int]) -> None:
        """Call the actions of moves and computations that have finished."""
        for key in keys:
            self._actions.pop(key)()

    def totals(self) -> dict[str, NDArray[np.int64]]:
        """Return per NPU: bytes `read`, `written` (communication), `compute`, `engine`; `busy` cycles of the memory."""
        return self.pipes.totals()
