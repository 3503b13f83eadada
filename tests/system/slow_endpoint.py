"""The endpoint again: docs/endpoint.md on top of the second implementation of docs/system.md, cycle by cycle.

No virtual time, no heaps: every cycle everybody in a pipe is served its share, which is found anew each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from pyxsim.system.options import Endpoint, Options
from tests.system.oracle import Action, Oracle, Time
from tests.system.oracle_parts import Chunk, Collective, Part, Task

UNITS = 65536


@dataclass(eq=False)
class User:
    """Something in a pipe. `left`: units of bytes, or of work. `demand`: of a computation that shares, else 0."""

    left: int
    then: Action
    is_message: bool = False
    is_work: bool = False
    demand: int = 0


class Pipe:
    """See docs/endpoint.md, Sharing."""

    def __init__(self, rate: int, limit: int = 0) -> None:
        self.rate, self.limit = rate, limit
        self.full = UNITS
        self.users: list[User] = []
        self.busy = 0

    def wants(self, user: User) -> int | None:
        """None: everything."""
        if user.is_work:
            return -(-user.demand * self.full // UNITS)
        flows = sum(not other.is_work for other in self.users)
        return max(self.limit // flows, 1) if self.limit else None

    def pass_a_cycle(self) -> None:
        """Everybody gets what it has a right to."""
        sharing = [user for user in self.users if not user.is_work or user.demand]
        self.busy += bool(sharing)
        left, got = self.rate, {}
        # who is modest: with works before flows, as flows come last of those that want the same
        modest = [user for user in sharing if self.wants(user) is not None]
        modest.sort(key=lambda user: (self.wants(user), not user.is_work))
        open_ones = len(sharing)
        while modest:
            wanted = self.wants(modest[0])
            assert wanted is not None
            if wanted > left // open_ones:
                break
            together = [modest[0]] if modest[0].is_work else [user for user in modest if not user.is_work]
            for user in together:
                got[user] = wanted
                modest.remove(user)
            left -= wanted * len(together)
            open_ones -= len(together)
        for user in self.users:
            if not user.is_work:
                user.left -= got.get(user, max(left // open_ones, 1) if open_ones else 0)
            elif user in got or not user.demand:
                user.left -= self.full
            else:
                user.left -= max(max(left // open_ones, 1) * UNITS // user.demand, 1)

    def take_out(self) -> list[User]:
        """Those that are through."""
        through = [user for user in self.users if user.left <= 0]
        self.users = [user for user in self.users if user.left > 0]
        return through


class SlowEndpoint(Oracle):
    """`read`, `written`, `computed`, `engine`: bytes per NPU."""

    def __init__(self, time: Time, shape: Sequence[int], options: Options) -> None:
        super().__init__(time, shape, options)
        assert options.endpoint is not None
        self._own: Endpoint = options.endpoint
        npus = range(len(self._npus))
        memory, limit, engine = (
            0 if rate is None else max(int(rate * UNITS), 1)
            for rate in (self._own.memory, self._own.communication, self._own.engine_rate)
        )
        self.memories = [Pipe(memory, limit) for _ in npus]
        self.engines = [Pipe(engine) for _ in npus]
        self.read, self.written, self.computed, self.engine = ([0 for _ in npus] for _ in range(4))
        self._at_work = [0 for _ in npus]
        self._room = [self._own.engine_memory for _ in npus]
        self._asking: list[list[tuple[Chunk, int]]] = [[] for _ in npus]
        self._reads: list[list[Action]] = [[] for _ in npus]
        self._writes: list[list[Action]] = [[] for _ in npus]
        self._there: dict[Chunk, set[int]] = {}
        self._told: list[Action] = []

    # --- time ---

    def run(self) -> int:
        while True:
            todo = [each[0][0] for each in (self._arrivals, self._issued, self._due) if each]
            if any(pipe.users for pipe in (*self.memories, *self.engines)):
                todo.append(self.now + 1)
            if not todo:
                return self.now
            later = min(todo)
            if later > self.now:
                for pipe in (*self.memories, *self.engines):
                    if pipe.users:
                        pipe.pass_a_cycle()
            self.now = later
            self._cycle()

    def _cycle(self) -> None:
        self._do(self._arrivals)
        self._do(self._issued)
        for pipe in (*self.memories, *self.engines):
            for user in pipe.take_out():
                if user.is_message:
                    user.then()
                else:
                    self._told.append(user.then)
        while True:
            self._do(self._issued)
            self._do(self._due)
            told, self._told = self._told, []
            for action in told:
                action()
            ended, self._ended = self._ended, []
            self._all_go_on(ended)
            due = any(todo and todo[0][0] <= self.now for todo in (self._issued, self._due))
            if not (told or ended or due or self._ended):
                break
        super()._cycle()  # nothing is left to do there but to send

    def through(self, pipe: Pipe, size: int, then: Action, *, message: bool = True) -> None:
        if not pipe.rate or not size:
            then()
        else:
            pipe.users.append(User(size * UNITS, then, is_message=message))

    def compute(self, npu: int, ticks: int, size: int, then: Action) -> None:
        ticks = ceil(ticks * self._npus[npu]._factor)
        memory = self.memories[npu]
        self.computed[npu] += size
        demand = -(-UNITS * size // ticks) if memory.rate else 0
        memory.users.append(User(ticks * UNITS, then, is_work=True, demand=demand))

    # --- chunks ---

    def _begin(self, collective: Collective, positions: Sequence[int]) -> None:
        if not any(chunk.phases for chunk in collective.chunks):
            super()._begin(collective, positions)
            return
        for chunk in collective.chunks:
            for position in positions:
                self._enter(chunk, position)

    def _enter(self, chunk: Chunk, position: int) -> None:
        members = chunk.collective.group.members
        npu = members[position]

        def begin() -> None:
            Oracle._next_phase(self, chunk, position, 0)

        if not self._own.engine:
            self._count(npu, +1)
            begin()
        elif self._own.engine_memory is None:
            self._read(chunk, position)
        else:
            there = self._there.setdefault(chunk, set())
            there.add(position)
            if len(there) == len(members):
                for each, other in enumerate(members):
                    self._asking[other].append((chunk, each))
                for other in members:
                    self._let_in(other)

    def _let_in(self, npu: int) -> None:
        while self._asking[npu]:
            chunk, position = self._asking[npu][0]
            room = self._room[npu]
            assert room is not None
            if room < needed(chunk, position):
                return
            self._room[npu] = room - needed(chunk, position)
            self._asking[npu].pop(0)
            self._read(chunk, position)

    def _read(self, chunk: Chunk, position: int) -> None:
        npu = chunk.collective.group.members[position]
        size = int(chunk.phases[0].bytes_in[position])
        self._one_by_one(self._reads[npu], npu, size, self.read, lambda: Oracle._next_phase(self, chunk, position, 0))

    def _one_by_one(self, line: list[Action], npu: int, size: int, counted: list[int], then: Action) -> None:
        def through() -> None:
            then()
            line.pop(0)
            if line:
                line[0]()

        def begin() -> None:
            counted[npu] += size
            self.through(self.memories[npu], size, through, message=False)

        if size == 0:
            then()
            return
        line.append(begin)
        if len(line) == 1:
            begin()

    def _next_phase(self, chunk: Chunk, position: int, number: int) -> None:
        later = [group for phase in chunk.phases[number:] for group in phase.groups.tolist()]
        if not chunk.phases or any(position in group for group in later):
            super()._next_phase(chunk, position, number)
            return
        npu = chunk.collective.group.members[position]

        def end() -> None:
            Oracle._next_phase(self, chunk, position, len(chunk.phases))

        if not self._own.engine:
            self._count(npu, -1)
            end()
            return
        size = int(chunk.phases[-1].bytes_out[position])

        def out() -> None:
            room = self._room[npu]
            if room is not None:
                self._room[npu] = room + needed(chunk, position)
            end()
            if room is not None:
                self._let_in(npu)

        self._one_by_one(self._writes[npu], npu, size, self.written, out)

    def _count(self, npu: int, change: int) -> None:
        self._at_work[npu] += change
        beside = UNITS - int(UNITS * self._own.compute_share)
        self.memories[npu].full = beside if self._at_work[npu] else UNITS

    # --- messages ---

    def _to_network(self, part: Part, message: int) -> None:
        task = part.task
        size = task.bytes[message]
        waits = task.waits(message)
        if self._own.engine:
            self.engine[part.npu] += size
            pipe, out = self.engines[part.npu], size
        else:
            out = 0 if any(task.schedule.reduce[other] for other in waits) else size
            self.read[part.npu] += out
            pipe = self.memories[part.npu]
        self.through(pipe, out, lambda: Oracle._to_network(self, part, message))

    def _hand_over(self, task: Task, message: int) -> None:
        self._take(task, message, lambda: Oracle._hand_over(self, task, message))

    def _own_step(self, part: Part, message: int, then: Action) -> None:
        self._take(part.task, message, then)

    def _take(self, task: Task, message: int, then: Action) -> None:
        npu = task.parts[task.destination(message)].npu
        size, adds, own = task.bytes[message], bool(task.schedule.reduce[message]), task.is_local(message)
        if self._own.engine:
            self.engine[npu] += size
            self.through(self.engines[npu], size, then)
            return
        read = 2 * size if adds else size if own else 0
        written = size if own or not adds else 2 * size
        self.read[npu] += read
        self.written[npu] += written
        self.through(self.memories[npu], read + written, then)

    def _alone_out(self, src: int, size: int, then: Action) -> None:
        self.read[src] += size
        self.through(self.memories[src], size, then)

    def _alone_in(self, dst: int, size: int, then: Action) -> None:
        self.written[dst] += size
        self.through(self.memories[dst], size, then)

    def totals(self) -> dict[str, Any]:
        rows = {"read": self.read, "written": self.written, "compute": self.computed, "engine": self.engine}
        return rows | {"busy": [pipe.busy for pipe in self.memories]}


def needed(chunk: Chunk, position: int) -> int:
    """Room in an engine."""
    return max(max(int(phase.bytes_in[position]), int(phase.bytes_out[position])) for phase in chunk.phases)
