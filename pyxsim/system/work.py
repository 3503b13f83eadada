"""The work of a collective: chunks, their phases, and the groups that carry a phase out.

    Collective -> Chunk -> ChunkPhase (one phase of one chunk) -> ChunkTask (one group of it)

An NPU goes from stage to stage as its own data come in. Here are positions: rank r of the communicator, which is NPU
`communicator.members[r]`. What a group does message by message is the executor's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pyxsim.collective.communicator import Communicator
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.plan import Phase, Plan
from pyxsim.system.chunk_queue import ChunkQueue
from pyxsim.system.program import Program


class StageServices(Protocol):
    """What a stage uses of its system layer."""

    cycle: int
    options: Any
    executor: Any
    endpoint: Any


class Collective:
    """One collective operation. `joined` is told of each NPU that is through with its part, `done` when all are.
    Cycles: `start`, of an open one -1 until its first NPU enters, and `end`, -1 until it is finished.

    An open one is begun by each NPU for itself: `outside` has the position of each that has not entered, `entering` are
    positions that enter in this cycle.
    """

    def __init__(
        self,
        kind: str,
        size: int,
        start: int,
        communicator: Communicator,
        *,
        name: str = "",
        root: int = 0,
        tag: int = 0,
        joined: Callable[[Collective, int], None] | None = None,
        done: Callable[[Collective], None] | None = None,
    ) -> None:
        self.kind = kind
        self.size = size
        self.start = start
        self.end = -1
        self.priority = 0
        self.communicator = communicator
        self.name = name or kind
        self.root = root  # a position in the communicator
        self.algorithms: tuple[str, ...] = ()
        self.tag = tag  # whose traffic its messages are
        self.joined = joined
        self.done = done
        self.is_open = start < 0
        self.outside: dict[int, int] = {}
        if self.is_open:
            self.outside = {npu: position for position, npu in enumerate(communicator.members)}
        self.entering: list[int] = []
        self.to_go: list[int] = []  # per position: chunks that it is not through with; empty where nobody asks
        self.chunks: list[Chunk] = []
        self.turns: dict[object, int] = {}  # chunks so far, by the order of dimensions in their phases
        self.unfinished = 0

    @property
    def tasks(self) -> Iterator[ChunkTask]:
        """What the groups of all phases of all chunks have to do."""
        return (task for chunk in self.chunks for stage in chunk.stages for task in stage.tasks)

    def take_in(self, npu: int) -> int:
        """The position of an NPU that enters. Raises ValueError where it may not, or has already."""
        if not self.is_open:
            raise ValueError(f"the {self.name} is not open: its NPUs begin when it is issued")
        if npu not in self.outside:
            member = npu in self.communicator.members
            why = "has already entered" if member else "does not take part in"
            raise ValueError(f"NPU {npu} {why} the {self.name}")
        return self.outside.pop(npu)

    def member_finished(self, position: int) -> None:
        """An NPU is through with a chunk, and somebody wants to know when it is with all."""
        self.to_go[position] -= 1
        if not self.to_go[position] and self.joined is not None:
            self.joined(self, self.communicator.members[position])

    def chunk_finished(self, cycle: int) -> None:
        self.unfinished -= 1
        if not self.unfinished:
            self.end = cycle
            if self.done is not None:
                self.done(self)


class PointToPoint:
    """A message of its own from NPU to NPU. `end` is -1 until its receiver has taken it in, `start` of an open one -1
    until it is handed over. `number`: what the system layer knows it by."""

    def __init__(
        self,
        src: int,
        dst: int,
        size: int,
        start: int,
        *,
        name: str,
        done: Callable[[PointToPoint], None] | None,
        tag: int = 0,
        number: int = 0,
    ) -> None:
        self.src, self.dst, self.size = src, dst, size
        self.start, self.end = start, -1
        self.name = name or "message"
        self.tag = tag
        self.number = number
        self.done = done

    @property
    def tasks(self) -> tuple[PointToPoint]:
        """All that is to be done."""
        return (self,)

    def leave(self, cycle: int) -> None:
        """An open message is handed over. Raises ValueError where it has been."""
        if self.start >= 0:
            raise ValueError(f"the {self.name} from NPU {self.src} to {self.dst} has been handed over, or is not open")
        self.start = cycle

    def member_ended(self, rank: int, cycle: int, messages: int, network: int) -> None:
        if rank == 1:
            self.end = cycle
            if self.done is not None:
                self.done(self)


class Chunk:
    """A part of a collective's data that goes through the phases of its plan."""

    def __init__(self, number: int, collective: Collective, plan: Plan) -> None:
        self.number = number
        self.collective = collective
        self.plan = plan
        self.stages: list[ChunkPhase] = []
        self.left = plan.npus  # NPUs that are not through with it

    def member_through(self, position: int, cycle: int) -> None:
        """An NPU has done all phases."""
        if self.collective.to_go:
            self.collective.member_finished(position)
        self.left -= 1
        if not self.left:
            self.collective.chunk_finished(cycle)


class ChunkPhase:
    """One phase of one chunk. Lists by position, -1 where it has not happened: `ready`, `start`, `end` (cycles),
    `messages` (received) and `network` (cycles that these were in the network, added up)."""

    def __init__(
        self, system: StageServices, chunk: Chunk, number: int, phase: Phase, place: int, dimension: int
    ) -> None:
        self.system = system
        self.chunk = chunk
        self.number = number
        self.phase = phase
        self.place = place  # number of its queue in the dimension
        self.dimension = dimension  # of the network, -1 for all of them
        self.following: ChunkPhase | None = None
        count = chunk.plan.npus
        self.ready, self.start, self.end, self.messages, self.network = ([-1] * count for _ in range(5))
        self.boost = system.options.boost
        self.tasks: list[ChunkTask] = []
        self.task_of: list[ChunkTask | None] = [None] * count

    def member_ready(self, position: int, cycle: int) -> None:
        """An NPU has the data that this phase starts from."""
        self.ready[position] = cycle
        task = self.task_of[position]
        if task is not None:
            task.member_ready(position)
        else:  # the phase does not concern it
            self.start[position] = cycle
            self.member_ended(position, cycle, 0, 0)

    def member_ended(self, position: int, cycle: int, messages: int, network: int) -> None:
        """An NPU has sent and received everything of this phase."""
        self.end[position], self.messages[position], self.network[position] = cycle, messages, network
        if self.boost:
            self._boosted(position, cycle)
        elif self.following is not None:
            self.following.member_ready(position, cycle)
        elif self.system.endpoint is not None:
            self.system.endpoint.leave(self.chunk, position)
        else:
            self.chunk.member_through(position, cycle)

    def _boosted(self, position: int, cycle: int) -> None:
        """Only the groups of the first NPU are there; all others are taken to be as far as it is."""
        if position:
            return
        if self.following is None:
            self.chunk.collective.chunk_finished(cycle)
        else:
            self.following.all_ready(cycle)

    def all_ready(self, cycle: int) -> None:
        """With boost: every NPU that takes part has its data."""
        for task in self.tasks:
            for position in task.positions:
                self.ready[position] = cycle
                task.member_ready(position)


class ChunkTask:
    """One group's part of a stage: it stands in line (see lines.py), and is carried out by the executor."""

    def __init__(
        self,
        stage: ChunkPhase,
        positions: list[int],
        program: Program,
        line: ChunkQueue,
        number: int,
        planes: tuple[int, int],
    ) -> None:
        self.stage = stage
        self.positions = positions
        self.program = program
        self.line = line
        self.number = number  # the executor's
        self.planes = planes  # of messages that go clockwise, and anticlockwise
        self.rank = {position: rank for rank, position in enumerate(positions)}
        self.kind = stage.phase.kind
        self.phases_left = len(stage.chunk.plan.phases) - stage.number
        self.live = False
        self.admitted = False
        self.queued = False
        self.missing = len(positions)
        self.unfinished = len(positions)

    @cached_property
    def size(self) -> int:
        """The most bytes that an NPU has before or after it."""
        phase = self.stage.phase
        return int(np.maximum(phase.bytes_in, phase.bytes_out)[self.positions].max())

    @property
    def priority(self) -> int:
        """That of its collective, which an open one has when somebody enters it."""
        return self.stage.chunk.collective.priority

    @property
    def members(self) -> list[int]:
        """The NPU of each rank."""
        of = self.stage.chunk.collective.communicator.members
        return [of[position] for position in self.positions]

    @property
    def schedule(self) -> CompiledSchedule:
        """What the ranks do."""
        return self.program.schedule

    def member_ready(self, position: int) -> None:
        self.missing -= 1
        self.live = not self.missing
        if self.admitted:
            if self.live:
                self.line.became_live()
            self._start(self.rank[position])
        elif self.live or not self.queued:  # else nothing is new for the line
            if not self.queued:
                self.queued = True
                self.line.join(self)
            self.line.serve()

    def admit(self) -> None:
        for rank, position in enumerate(self.positions):
            if self.stage.ready[position] >= 0:
                self._start(rank)

    def _start(self, rank: int) -> None:
        system = self.stage.system
        self.stage.start[self.positions[rank]] = system.cycle
        system.executor.start(self.number, rank, system.cycle)

    def member_ended(self, rank: int, cycle: int, messages: int, network: int) -> None:
        self.stage.member_ended(self.positions[rank], cycle, messages, network)
        self.unfinished -= 1
        if not self.unfinished:
            self.line.left()
            self.line.serve()
