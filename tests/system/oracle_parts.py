"""What the second implementation of docs/system.md is made of: NPUs, parts, tasks, lines, and what is issued."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from pyxsim.collective.communicator import Communicator
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.plan import Phase
from pyxsim.system.options import Options

Row = tuple[int, ...]
OPPOSITE = {"reduce-scatter": "all-gather", "all-gather": "reduce-scatter"}
NEVER = -1


class Npu:
    """What an NPU needs for its own work on a message: endpoint delay, reductions, and its bus."""

    def __init__(self, options: Options, number: int) -> None:
        self._options = options
        self._factor = options.slowdown[number] if options.slowdown else Fraction(1)
        self.skew = options.start_skew[number] if options.start_skew else 0
        self.endpoint_delay = 0 if options.shared_bus else ceil(options.endpoint_delay * self._factor)
        self._bus_free = 0

    def reduction(self, size: int) -> int:
        """What it takes to add so many bytes."""
        return ceil(self._reduction(size) * self._factor)

    def own_step(self, added: int | None, nanoseconds: int) -> int:
        """What a step takes that concerns nobody else: bytes to add, and a computation."""
        cost = 0 if added is None else self._reduction(added)
        return ceil((cost + ceil(nanoseconds * self._options.cycles_per_ns)) * self._factor)

    def _reduction(self, size: int) -> int:
        bus, rate = self._options.shared_bus, self._options.reduction_bytes_per_cycle
        if bus is not None:
            return ceil(size // 100 * bus.reduction) + bus.reduction_start
        return self._options.reduction_delay + (0 if rate is None else ceil(Fraction(3 * size) / rate))

    def cross(self, size: int, now: int) -> int:
        """A message enters the bus as soon as that is free; returns when it is on the other side."""
        bus = self._options.shared_bus
        if bus is None:
            return now
        begin = max(now, self._bus_free)
        busy = ceil((bus.o + ceil((size - 1) * bus.G)) * self._factor)
        self._bus_free = begin + max(bus.g, busy)
        return begin + busy + bus.L + bus.o


@dataclass(eq=False)
class Part:
    """One NPU's part in a task."""

    task: Task
    rank: int
    npu: int
    ready: int = NEVER
    start: int = NEVER
    end: int = NEVER
    begun: bool = False  # what waits for nothing has left
    early: list[int] = field(default_factory=list)  # arrived before the start
    unsent: list[int] = field(default_factory=list)  # in the order of the schedule
    missing: set[int] = field(default_factory=set)  # not yet taken in
    received: int = 0
    network: int = 0

    @property
    def done(self) -> bool:
        return self.start != NEVER and not self.unsent and not self.missing


class Task:
    """One phase of one chunk in one group."""

    def __init__(self, chunk: Chunk, number: int, npus: Sequence[int], positions: Sequence[int], line: Line) -> None:
        self.chunk, self.number, self.line = chunk, number, line
        self.phase: Phase = chunk.phases[number]
        piece = int(self.phase.pieces[positions[0]])
        self.schedule: CompiledSchedule
        self.schedule, sizes = self.phase.messages(piece, mirror=line.direction < 0)
        self.bytes = [int(size) for size in sizes]
        self.parts = [Part(self, rank, npu) for rank, npu in enumerate(npus)]
        self.largest = max(int(max(self.phase.bytes_in[p], self.phase.bytes_out[p])) for p in positions)
        self.positions = list(positions)
        self.taken: set[int] = set()
        self.handed_over: dict[int, int] = {}  # message -> when it was handed to the network
        self.joins: dict[int, list[int]] = {}  # join -> its messages that have arrived
        self.working = len(self.parts)
        self.admitted = False
        self.joined = NEVER
        for message in range(len(self.schedule)):
            self.parts[self.source(message)].unsent.append(message)
            self.parts[self.destination(message)].missing.add(message)

    def source(self, message: int) -> int:
        return int(self.schedule.src[message])

    def destination(self, message: int) -> int:
        return int(self.schedule.dst[message])

    def is_local(self, message: int) -> bool:
        return self.source(message) == self.destination(message)

    def waits(self, message: int) -> list[int]:
        return [int(other) for other in self.schedule.waits_for(message)]

    def need(self, message: int) -> int:
        return int(self.schedule.need[message])

    def join_mates(self, message: int) -> list[int]:
        """The messages that arrive together with this one."""
        join = self.schedule.join[message]
        return [other for other in range(len(self.schedule)) if self.schedule.join[other] == join]

    @property
    def live(self) -> bool:
        return all(part.ready != NEVER for part in self.parts)


class Line:
    """Where the tasks of one group stand for one queue."""

    def __init__(self, options: Options, dimension: int, queue: int) -> None:
        self._policy = options.intra_dimension
        self.queue = queue
        self.room = options.slots[dimension]
        self.plane = options.queues[dimension][queue].plane
        self.direction = options.queues[dimension][queue].direction
        self.waiting: list[Task] = []  # in the order in which they joined
        self.running: list[Task] = []
        self._last = ""  # the kind of the phase that was admitted last

    def admit(self) -> Task | None:
        """The next task that may run, if there is one; it runs from now on."""
        for task in sorted(self.waiting, key=self._rank):
            live = sum(other.live for other in self.running)
            if (live if task.live else len(self.running)) < self.room:
                self.waiting.remove(task)
                self.running.append(task)
                task.admitted = True
                self._last = task.phase.kind
                return task
        return None

    def _rank(self, task: Task) -> tuple[int, int, int, int]:
        """Lowest first; among equals the cycle in which they joined, then the order of issue."""
        match self._policy:
            case "smallest-first":
                among = task.largest
            case "fewest-phases-first":
                among = len(task.chunk.phases) - task.number
            case "RG":
                among = 0 if task.phase.kind == OPPOSITE.get(self._last) else 1
            case _:
                among = 0
        return -task.chunk.collective.priority, among, task.joined, task.chunk.number


@dataclass(eq=False)
class Collective:
    number: int
    group: Communicator
    priority: int
    issued: int
    end: int = NEVER
    chunks: list[Chunk] = field(default_factory=list)
    entering: list[int] = field(default_factory=list)  # positions, in this cycle
    joined: Callable[[Collective, int], None] | None = None
    done: Callable[[Collective], None] | None = None


class Chunk:
    """Part of the data of a collective. `number` counts over all of them, `place` those of its own with the same order
    of dimensions."""

    def __init__(self, collective: Collective, number: int, place: int, phases: Sequence[Phase]) -> None:
        self.collective, self.number, self.place, self.phases = collective, number, place, phases
        self.tasks: dict[tuple[int, Row], Task] = {}
        self.unfinished = set(range(len(collective.group)))  # positions


@dataclass(eq=False)
class PointToPoint:
    src: int
    dst: int
    size: int
    plane: int
    end: int = NEVER
    receiver_begun: bool = False
    early: bool = False  # it has come before its receiver had begun
    done: Callable[[PointToPoint], None] | None = None
    leave: Callable[[int, int], None] | None = None  # sets down when its sender and its receiver begin
