"""What the system layer carries out: collectives with their chunks and phases, and point-to-point messages.

    Collective -> Chunk -> ChunkPhase (one phase of one chunk) -> ChunkTask (one group of it)

An NPU proceeds from phase to phase when its own data arrive. NPUs are given as positions: position p is NPU
`communicator.members[p]`. The executor carries out the messages of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.byte_matrix import ByteMatrix
from pyxsim.collective.communicator import Communicator
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.plan import Phase, Plan
from pyxsim.lazy_columns import Repeated
from pyxsim.system.chunk_queue import ChunkQueue
from pyxsim.system.lockstep import check_together
from pyxsim.system.program import Program


class StageServices(Protocol):
    """What a stage uses of its system layer."""

    cycle: int
    options: Any
    executor: Any
    endpoint: Any

    def admit(self, chunk_queue: ChunkQueue) -> None:
        """Let a queue that has changed admit tasks."""


@dataclass(eq=False, repr=False)
class Collective:
    """One collective operation.

    Attributes
    ----------
    number
        Its index among the collectives of the system layer.
    start, end
        Cycles; -1 until an open collective is entered first, and until all NPUs have finished.
    joined, done
        Called with each NPU that has finished its part, and when all have.
    root
        A position in the communicator.
    tag
        Labels the traffic of its messages.
    outside
        Of an open collective: NPUs that have not entered, with their positions.
    entering
        Positions that enter in the current cycle.
    to_go
        Chunks that each position has not finished; empty without `joined`.
    turns
        Number of chunks so far for each order of dimensions.
    matrix
        Bytes between pairs of an all-to-all; None for equal parts of `size`.
    abandoned
        Whether it has ended before its work was done (`SystemLayer.abandon`).
    lost
        Called when a packet of one of its messages is lost, which then never arrives.
    """

    kind: str
    size: int
    start: int
    communicator: Communicator
    _: KW_ONLY
    number: int = -1
    name: str = ""
    root: int = 0
    tag: int = 0
    joined: Callable[[Collective, int], None] | None = None
    done: Callable[[Collective], None] | None = None
    end: int = -1
    priority: int = 0
    algorithms: tuple[str, ...] = ()
    outside: dict[int, int] = field(default_factory=dict)
    entering: list[int] = field(default_factory=list)
    to_go: list[int] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    turns: dict[object, int] = field(default_factory=dict)
    unfinished: int = 0
    matrix: ByteMatrix | None = None
    abandoned: bool = False
    lost: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        self.name = self.name or self.kind
        self.is_open = self.start < 0
        if self.is_open:
            self.outside = {npu: position for position, npu in enumerate(self.communicator.members)}

    @property
    def tasks(self) -> Iterator[ChunkTask]:
        """The tasks of all phases of all chunks."""
        return (task for chunk in self.chunks for stage in chunk.stages for task in stage.tasks)

    def take_in(self, npu: int) -> int:
        """Return the position of an NPU that enters. Raises ValueError if it may not, or has already entered."""
        if not self.is_open:
            raise ValueError(f"the {self.name} is not open, so its NPUs begin when it is issued")
        if npu not in self.outside:
            member = npu in self.communicator.members
            why = "has already entered" if member else "does not participate in"
            raise ValueError(f"NPU {npu} {why} the {self.name}")
        return self.outside.pop(npu)

    def member_finished(self, position: int) -> None:
        """Count a chunk that an NPU has finished; after the last one call `joined`."""
        self.to_go[position] -= 1
        if not self.to_go[position] and self.joined is not None:
            self.joined(self, self.communicator.members[position])

    def chunk_finished(self, cycle: int) -> None:
        """Count a chunk that all NPUs have finished; after the last one call `done`."""
        self.unfinished -= 1
        if not self.unfinished:
            self.end = cycle
            if self.done is not None:
                self.done(self)


@dataclass(eq=False, repr=False)
class PointToPoint:
    """A point-to-point message.

    `end` is -1 until the receiver has taken it in, `start` of an open one -1 until it is handed over. `number`: its
    index in the system layer. `abandoned`, `lost`: as of a Collective.
    """

    src: int
    dst: int
    size: int
    start: int
    _: KW_ONLY
    name: str
    done: Callable[[PointToPoint], None] | None
    tag: int = 0
    number: int = 0
    end: int = -1
    abandoned: bool = False
    lost: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        self.name = self.name or "message"

    @property
    def tasks(self) -> tuple[PointToPoint]:
        """The message itself, as for a collective."""
        return (self,)

    @property
    def work(self) -> PointToPoint:
        """The message itself, as for a task of a collective."""
        return self

    def leave(self, cycle: int) -> None:
        """Note that an open message is handed over. Raises ValueError if it was before."""
        if self.start >= 0:
            raise ValueError(
                f"the {self.name} from NPU {self.src} to {self.dst} has already been handed over, or is not open"
            )
        self.start = cycle

    def leave_queue(self) -> None:
        """A message stands in no queue."""

    def member_ended(self, rank: int, cycle: int, messages: int, network: int) -> None:
        """Note that the sender (rank 0) or the receiver (rank 1) has finished."""
        if rank == 1:
            self.end = cycle
            if self.done is not None:
                self.done(self)


class Chunk:
    """A part of a collective's buffer that passes the phases of its plan."""

    def __init__(self, number: int, collective: Collective, plan: Plan) -> None:
        self.number = number
        self.collective = collective
        self.plan = plan
        self.stages: list[ChunkPhase] = []
        self.left = plan.npus  # NPUs that have not finished it

    def member_through(self, position: int, cycle: int) -> None:
        """Note that an NPU has finished all phases."""
        if self.collective.to_go:
            self.collective.member_finished(position)
        self.left -= 1
        if not self.left:
            self.collective.chunk_finished(cycle)


@dataclass(eq=False, repr=False)
class ChunkPhase:
    """One phase of one chunk.

    By position, -1 until known: `ready`, `start`, `end` (cycles), `messages` (received) and `network` (their total time
    in the network, in cycles); in lockstep only of the positions that are simulated. `place`: number of its queue in
    the dimension; `dimension`: -1 for all.
    """

    system: StageServices
    chunk: Chunk
    number: int
    phase: Phase
    place: int
    dimension: int
    following: ChunkPhase | None = None

    def __post_init__(self) -> None:
        options = self.system.options
        self.lockstep = options.lockstep
        self.one_group = options.boost or options.lockstep
        self.ready, self.start, self.end, self.messages, self.network = (self._unknown() for _ in range(5))
        self.tasks: list[ChunkTask] = []
        self.task_of: dict[int, ChunkTask] = {}

    def _unknown(self) -> list[int] | dict[int, int]:
        if self.lockstep:
            return dict.fromkeys(self.phase.groups[0].tolist(), -1)
        return [-1] * self.chunk.plan.npus

    def member_ready(self, position: int, cycle: int) -> None:
        """Note that an NPU has the data that this phase starts from."""
        self.ready[position] = cycle
        task = self.task_of.get(position)
        if task is not None:
            task.member_ready(position)
        else:  # it takes no part in this phase
            self.start[position] = cycle
            self.member_ended(position, cycle, 0, 0)

    def member_ended(self, position: int, cycle: int, messages: int, network: int) -> None:
        """Note that an NPU has sent and received everything of this phase."""
        self.end[position], self.messages[position], self.network[position] = cycle, messages, network
        if self.one_group:
            self._ended_for_all(position, cycle)
        elif self.following is not None:
            self.following.member_ready(position, cycle)
        elif self.system.endpoint is not None:
            self.system.endpoint.leave(self.chunk, position)
        else:
            self.chunk.member_through(position, cycle)

    def _ended_for_all(self, position: int, cycle: int) -> None:
        """Only the groups of the first NPU are simulated: the others keep pace with it."""
        if position:
            return
        if self.following is None:
            self.chunk.collective.chunk_finished(cycle)
        else:
            self.following.all_ready(cycle)

    @property
    def parts(self) -> int:
        """The number of positions that take part."""
        return self.chunk.plan.npus if self.lockstep else sum(len(task.positions) for task in self.tasks)

    @property
    def positions(self) -> IntArray:
        """int64[parts]: the positions that take part."""
        if self.lockstep:
            return np.arange(self.chunk.plan.npus)
        return np.sort(np.array([position for task in self.tasks for position in task.positions], np.int64))

    def measured(self, name: str, part: IntArray | None) -> Repeated:
        """Return the values by position, of some positions if `part` is given.

        In lockstep the NPUs of all groups have the values of their ranks.
        """
        known = getattr(self, name)
        if not self.lockstep:
            return np.array(known, np.int64), part
        return np.array(list(known.values()), np.int64), self.phase.ranks if part is None else self.phase.ranks[part]

    def all_ready(self, cycle: int) -> None:
        """With one group: note that every simulated NPU has its data."""
        for task in self.tasks:
            for position in task.positions:
                self.ready[position] = cycle
                task.member_ready(position)


@dataclass(eq=False, repr=False)
class ChunkTask:
    """The part of one group in a chunk phase: admitted by a ChunkQueue, carried out by the executor.

    `number`: its index in the executor. `planes`: of its clockwise and of its counterclockwise messages.
    """

    stage: ChunkPhase
    positions: list[int]
    program: Program
    chunk_queue: ChunkQueue
    number: int
    planes: tuple[int, int]
    live: bool = False
    admitted: bool = False
    queued: bool = False

    def __post_init__(self) -> None:
        self.rank = {position: rank for rank, position in enumerate(self.positions)}
        self.kind = self.stage.phase.kind
        self.phases_left = len(self.stage.chunk.plan.phases) - self.stage.number
        self.missing = self.unfinished = len(self.positions)

    @cached_property
    def size(self) -> int:
        """The largest number of bytes that an NPU has before or after it."""
        phase = self.stage.phase
        return int(np.maximum(phase.bytes_in, phase.bytes_out)[self.positions].max())

    @property
    def work(self) -> Collective:
        """The collective of which it is a part."""
        return self.stage.chunk.collective

    @property
    def priority(self) -> int:
        """The priority of its collective; of an open one known once an NPU has entered."""
        return self.stage.chunk.collective.priority

    @property
    def members(self) -> list[int]:
        """The NPU of each rank."""
        members = self.stage.chunk.collective.communicator.members
        return [members[position] for position in self.positions]

    @property
    def schedule(self) -> CompiledSchedule:
        """The schedule of its messages."""
        return self.program.schedule

    def member_ready(self, position: int) -> None:
        """Note that a member has its data; start it, or queue the task."""
        self.missing -= 1
        self.live = not self.missing
        if self.admitted:
            if self.live:
                self.chunk_queue.became_live()
            self._start(self.rank[position])
        elif self.live or not self.queued:  # otherwise the queue knows it already
            if not self.queued:
                self.queued = True
                self.chunk_queue.enqueue(self, self.stage.system.cycle)
            self.stage.system.admit(self.chunk_queue)

    def admit(self) -> None:
        """Start the members that have their data."""
        for rank, position in enumerate(self.positions):
            if self.stage.ready[position] >= 0:
                self._start(rank)

    def _start(self, rank: int) -> None:
        system = self.stage.system
        self.stage.start[self.positions[rank]] = system.cycle
        system.executor.start(self.number, rank, system.cycle)

    def leave_queue(self) -> ChunkQueue | None:
        """Leave the queue before the work is done; return it if that may free a slot."""
        if not self.queued or not self.unfinished:
            return None
        self.chunk_queue.forget(self)
        self.unfinished = 0
        return self.chunk_queue

    def member_ended(self, rank: int, cycle: int, messages: int, network: int) -> None:
        """Note that a rank has sent and received everything; after the last one free the slot."""
        self.stage.member_ended(self.positions[rank], cycle, messages, network)
        self.unfinished -= 1
        if not self.unfinished:
            if self.stage.system.options.lockstep:
                check_together(self.stage.end[position] for position in self.positions)
            self.chunk_queue.finished()
            self.stage.system.admit(self.chunk_queue)
