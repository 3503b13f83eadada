"""The system layer again: a second implementation of docs/system.md, slow and readable, written from that page alone.

What both sides share are the plans, the schedules and the words of the options; nothing of pyxsim/system runs here.
Every NPU's part in every phase is an object, what is due later stands in one sorted list, and who may leave or be
admitted is found out by looking at everybody. Its network is a function that says how long each message takes.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from pyxsim.collective.communicator import Communicator, coordinates
from pyxsim.collective.kinds import get_kind
from pyxsim.collective.plan import Phase, dimension_order, make_plan
from pyxsim.collective.themis import Themis
from pyxsim.system.options import Options
from tests.system.oracle_parts import NEVER, Chunk, Collective, Line, Npu, Part, PointToPoint, Row, Task

Time = Callable[[int, int, int], int]  # (source, destination, bytes) -> cycles
Action = Callable[[], None]
Todo = tuple[int, int, Action]  # cycle, number that decides within it, what is to be done


class Oracle:
    """Results: `collectives`, `messages`, `sent` (cycle, source, destination, bytes, plane) and `chunk_table`."""

    def __init__(self, time: Time, shape: Sequence[int], options: Options) -> None:
        self.now = 0
        self.collectives: list[Collective] = []
        self.messages: list[PointToPoint] = []
        self.sent: list[Row] = []
        self._time, self._shape, self._options = time, tuple(shape), options
        total = len(Communicator.whole(shape))
        self._npus = [Npu(options, number) for number in range(total)]
        self._lines: dict[tuple[int, int, Row], Line] = {}
        self._chunks = 0  # so far, of all collectives
        self._begun = 0  # collectives
        self._order = count()
        self._arrivals: list[Todo] = []  # by the number of the message
        self._issued: list[Todo] = []  # in the order of the calls
        self._due: list[Todo] = []  # in the order in which it was set down
        self._ended: list[Part | PointToPoint] = []
        self._changed: list[Line] | None = None  # while ranks that have ended join
        self._outbox: list[tuple[int, int, int, int, Action]] = []

    # --- what is asked for ---

    def issue(
        self,
        kind: str,
        size: int,
        *,
        at: int = 0,
        communicator: Communicator | None = None,
        algorithms: Sequence[str] | None = None,
        root: int = 0,
        priority: int | None = None,
        open: bool = False,  # noqa: A002
        joined: Callable[[Collective, int], None] | None = None,
        done: Callable[[Collective], None] | None = None,
    ) -> Collective:
        group = communicator or Communicator.whole(self._shape)
        collective = Collective(len(self.collectives), group, priority or 0, at, joined=joined, done=done)
        self.collectives.append(collective)
        names = algorithms or self._options.algorithms_for(kind, group)
        ways: Counter[tuple[tuple[int, ...], ...]] = Counter()  # orders of dimensions, and how often so far
        optimization = self._options.optimization
        if self._options.inter_dimension.startswith("themis"):
            optimization = "themis"
        plan_of = partial(make_plan, kind, shape=group.shape, algorithms=names, optimization=optimization, root=root)
        whole = plan_of(size)
        if any(phase.schedule().given_bytes is not None for phase in whole.phases):
            plans = [whole]
        else:
            plans = [plan_of(part, order=order) for order, part in self._cut(kind, size, group)]
        for plan in plans:
            way = tuple(phase.dims for phase in plan.phases)
            collective.chunks.append(Chunk(collective, self._chunks, ways[way], plan.phases))
            self._chunks += 1
            ways[way] += 1
        if open:
            collective.issued = NEVER
            return collective
        self._take_its_place(collective)
        starts: dict[int, list[int]] = {}
        for position, npu in enumerate(group.members):
            if position == 0 or not self._options.boost:
                starts.setdefault(at + self._npus[npu].skew, []).append(position)
        for cycle, positions in starts.items():
            self._on(self._issued, cycle, partial(self._begin, collective, positions))
        return collective

    def _take_its_place(self, collective: Collective) -> None:
        """In the order of issue."""
        match self._options.scheduling:
            case "LIFO":
                collective.priority = self._begun
            case "FIFO":
                collective.priority = -self._begun
        self._begun += 1

    def enter(self, collective: Collective, npu: int) -> None:
        if collective.issued == NEVER:
            collective.issued = self.now
            self._take_its_place(collective)

        def together() -> None:
            positions, collective.entering = sorted(collective.entering), []
            self._begin(collective, positions)

        if not collective.entering:
            self._on(self._issued, self.now, together)
        collective.entering.append(collective.group.members.index(npu))

    def at(self, cycle: int, action: Action, npu: int = NEVER) -> None:
        self._on(self._issued, cycle, action)

    def hand_over(self, message: PointToPoint) -> None:
        assert message.leave is not None
        message.leave(self.now, self.now)

    def send(
        self,
        src: int,
        dst: int,
        size: int,
        *,
        at: int = 0,
        open: bool = False,  # noqa: A002
        done: Callable[[PointToPoint], None] | None = None,
    ) -> PointToPoint:
        here, there = coordinates(src, self._shape), coordinates(dst, self._shape)
        dimension = next(d for d in range(len(self._shape)) if here[d] != there[d])
        message = PointToPoint(src, dst, size, self._options.queues[dimension][0].plane, done=done)
        self.messages.append(message)
        sender, receiver = self._npus[src], self._npus[dst]

        def take_in() -> None:
            message.end = self.now
            if message.done is not None:
                self._ended.append(message)

        def receive() -> None:
            def in_memory() -> None:
                self._at(receiver.cross(size, self.now) + receiver.endpoint_delay, take_in)

            self._alone_in(dst, size, in_memory)

        def arrive() -> None:
            if message.receiver_begun:
                receive()
            else:
                message.early = True

        def begin_to_receive() -> None:
            message.receiver_begun = True
            if message.early:
                receive()

        def hand_over() -> None:
            self._outbox.append((src, dst, size, message.plane, arrive))

        def leave() -> None:
            self._alone_out(src, size, lambda: self._through_bus(sender, size, hand_over))

        def begin() -> None:
            self._at(self.now + sender.endpoint_delay, leave)

        def leave_at(sent: int, expected: int) -> None:
            self._on(self._issued, sent, begin)
            self._on(self._issued, expected, begin_to_receive)

        message.leave = leave_at
        if not open:
            leave_at(at + sender.skew, at + receiver.skew)
        return message

    def _cut(self, kind: str, size: int, group: Communicator) -> list[tuple[Sequence[int], int]]:
        """Order of the dimensions, and bytes, of the chunks of a collective."""
        policy, chunks, dims = self._options.inter_dimension, self._options.chunks, len(group.shape)
        if kind == "barrier":
            size = 1
        if policy.startswith("themis") and (get_kind(kind).rooted or kind == "barrier"):
            policy = "ascending"
        themis = Themis(group.shape, [self._options.bandwidths[max(dim, 0)] for dim in group.dims])
        if policy == "themis-flex":
            cuts = themis.cut(kind, size, chunks, flex=True)
            return list(cuts)
        result: list[tuple[Sequence[int], int]] = []
        parts = [size * (i + 1) // chunks - size * i // chunks for i in range(chunks)]
        for i, part in enumerate(part for part in parts if part):
            if policy == "themis":
                order = themis.order(kind, part)
            else:
                order = dimension_order(policy, kind, dims, self._chunks + i)
            result.append((order, part))
        return result

    # --- time ---

    def run(self) -> int:
        """Until nothing moves any more; returns the last cycle."""
        while self._arrivals or self._issued or self._due:
            self.now = min(todo[0][0] for todo in (self._arrivals, self._issued, self._due) if todo)
            self._cycle()
        return self.now

    def _cycle(self) -> None:
        """All that happens in one cycle, in its order."""
        self._do(self._arrivals)
        while self._ended or any(todo and todo[0][0] <= self.now for todo in (self._issued, self._due)):
            self._do(self._issued)
            self._do(self._due)
            ended, self._ended = self._ended, []
            self._all_go_on(ended)
        outbox, self._outbox = self._outbox, []
        for src, dst, size, plane, arrive in outbox:
            number = len(self.sent)
            self.sent.append((self.now, src, dst, size, plane))
            insort(self._arrivals, (self.now + self._time(src, dst, size), number, arrive))

    def _all_go_on(self, ended: Sequence[Part | PointToPoint]) -> None:
        """All ranks that have ended join their next queues; then the queues admit."""
        changed = self._changed = []
        for part in ended:
            if isinstance(part, Part):
                self._go_on(part)
            elif part.done is not None:
                part.done(part)
        self._changed = None
        for line in changed:
            self._admit(line)

    def _do(self, todo: list[Todo]) -> None:
        while todo and todo[0][0] <= self.now:
            todo.pop(0)[2]()

    def _at(self, cycle: int, action: Action) -> None:
        self._on(self._due, cycle, action)

    def _on(self, todo: list[Todo], cycle: int, action: Action) -> None:
        insort(todo, (cycle, next(self._order), action))

    # --- from phase to phase ---

    def _begin(self, collective: Collective, positions: Sequence[int]) -> None:
        for chunk in collective.chunks:
            for position in positions:
                self._next_phase(chunk, position, 0)
        if not collective.chunks:
            self._over(collective)

    def _over(self, collective: Collective) -> None:
        collective.end = self.now
        if collective.done is not None:
            collective.done(collective)

    def _next_phase(self, chunk: Chunk, position: int, number: int) -> None:
        """An NPU has done all phases before this one: it has the data of the next one in which it takes part."""
        for later in range(number, len(chunk.phases)):
            for group in chunk.phases[later].groups.tolist():
                if position in group:
                    self._has_data(chunk, later, group, position)
                    return
        chunk.unfinished.discard(position)
        if self._options.boost:
            chunk.unfinished.clear()
        collective = chunk.collective
        if collective.joined is not None and not any(position in other.unfinished for other in collective.chunks):
            collective.joined(collective, collective.group.members[position])
        if not any(other.unfinished for other in collective.chunks):
            self._over(collective)

    def _has_data(self, chunk: Chunk, number: int, group: Sequence[int], position: int) -> None:
        key = (number, tuple(group))
        new = key not in chunk.tasks
        if new:
            members = chunk.collective.group.members
            npus = tuple(members[p] for p in group)
            line = self._line(chunk, chunk.phases[number], npus)
            chunk.tasks[key] = Task(chunk, number, npus, group, line)
        task = chunk.tasks[key]
        for part in task.parts:
            if self._options.boost or part.rank == group.index(position):
                part.ready = self.now
        if new:
            task.joined = self.now
            task.line.waiting.append(task)
        if new or (task.live and not task.admitted):
            self._admit(task.line)
        self._start(task)

    def _line(self, chunk: Chunk, phase: Phase, npus: Row) -> Line:
        dimension = max(chunk.collective.group.dims[phase.dims[0]], 0)
        queue = chunk.place % len(self._options.queues[dimension])
        key = (dimension, queue, npus)
        if key not in self._lines:
            self._lines[key] = Line(self._options, dimension, queue)
        return self._lines[key]

    def _admit(self, line: Line) -> None:
        if self._changed is not None:  # all ranks that have ended join first
            self._changed.append(line)
            return
        while task := line.admit():
            self._start(task)

    def _start(self, task: Task) -> None:
        """Whoever has its data, and has not started, starts if the task is admitted."""
        for part in task.parts:
            if task.admitted and part.ready != NEVER and part.start == NEVER:
                part.start = self.now
                self._at(self.now + self._npus[part.npu].endpoint_delay, partial(self._first, part))
                for message in part.early:
                    self._hand_over(task, message)
                self._let_go(part)

    def _go_on(self, part: Part) -> None:
        """A rank has ended: it goes on, and what stands behind its task may follow."""
        task = part.task
        position = task.positions[part.rank]
        if position == 0 or not self._options.boost:
            self._next_phase(task.chunk, position, task.number + 1)
        task.working -= 1
        if task.working == 0:
            task.line.running.remove(task)
            self._admit(task.line)

    # --- messages of a task ---

    def _first(self, part: Part) -> None:
        """What waits for nothing leaves."""
        part.begun = True
        self._let_go(part)

    def _let_go(self, part: Part) -> None:
        """Everything leaves that may."""
        task = part.task
        for message in list(part.unsent):
            waits, need = task.waits(message), task.need(message)
            if not waits and not need and not part.begun:
                continue
            if task.taken.issuperset(waits) and part.received >= need:
                self._leave(part, message)
        if part.done and part.end == NEVER:
            part.end = self.now
            self._ended.append(part)

    def _leave(self, part: Part, message: int) -> None:
        task, npu = part.task, self._npus[part.npu]
        part.unsent.remove(message)
        size = task.bytes[message]
        if task.is_local(message):
            nanoseconds = 0 if task.schedule.extra_ns is None else max(int(task.schedule.extra_ns[message]), 0)
            cost = npu.own_step(size if task.schedule.reduce[message] else None, nanoseconds)
            self._own_step(part, message, lambda: self._at(self.now + cost, lambda: self._take_in(task, message)))
        elif size == 0:
            self._arrive(task, message)
        else:
            self._through_bus(npu, size, lambda: self._to_network(part, message))

    # What an endpoint does first that is shared with others: tests/system/slow_endpoint.py.

    def _own_step(self, part: Part, message: int, then: Action) -> None:
        then()

    def _alone_out(self, src: int, size: int, then: Action) -> None:
        then()

    def _alone_in(self, dst: int, size: int, then: Action) -> None:
        then()

    def _through_bus(self, npu: Npu, size: int, action: Action) -> None:
        """Out of an NPU: at once where there is no bus."""
        if self._options.shared_bus is None:
            action()
        else:
            self._at(npu.cross(size, self.now), action)

    def _to_network(self, part: Part, message: int) -> None:
        task = part.task
        task.handed_over[message] = self.now
        to = task.parts[task.destination(message)].npu
        plane = self._plane(task, message)
        self._outbox.append((part.npu, to, task.bytes[message], plane, lambda: self._arrive(task, message)))

    def _plane(self, task: Task, message: int) -> int:
        line, way = task.line, int(task.schedule.way[message])
        if way == line.direction:
            return line.plane
        dimension = max(task.chunk.collective.group.dims[task.phase.dims[0]], 0)
        others = [queue.plane for queue in self._options.queues[dimension] if queue.direction == way]
        return others[0] if others else line.plane

    def _arrive(self, task: Task, message: int) -> None:
        if message in task.handed_over:
            task.parts[task.destination(message)].network += self.now - task.handed_over[message]
        join = int(task.schedule.join[message])
        together = [message]
        if join >= 0:
            arrived = task.joins.setdefault(join, [])
            arrived.append(message)
            mates = task.join_mates(message)
            if len(arrived) < len(mates):
                return
            together = mates
        for each in together:
            part = task.parts[task.destination(each)]
            if part.start == NEVER:
                part.early.append(each)
            else:
                self._hand_over(task, each)

    def _hand_over(self, task: Task, message: int) -> None:
        size = task.bytes[message]
        npu = self._npus[task.parts[task.destination(message)].npu]
        cost = npu.reduction(size) if task.schedule.reduce[message] else 0
        if size > 0:
            cost += npu.cross(size, self.now) - self.now + npu.endpoint_delay
        self._at(self.now + cost, lambda: self._take_in(task, message))

    def _take_in(self, task: Task, message: int) -> None:
        part = task.parts[task.destination(message)]
        task.taken.add(message)
        part.missing.remove(message)
        part.received += not task.is_local(message)
        self._let_go(part)

    # --- what came of it ---

    def chunk_table(self) -> list[Row]:
        """The rows of /chunks with the columns of the system layer, sorted."""
        parts = [
            part
            for collective in self.collectives
            for chunk in collective.chunks
            for task in chunk.tasks.values()
            for part in task.parts
        ]
        return sorted(self._row(part) for part in parts)

    def _row(self, part: Part) -> Row:
        task, phase, line = part.task, part.task.phase, part.task.line
        what = (task.chunk.collective.number, task.chunk.number, task.number, part.npu)
        group = task.chunk.collective.group
        dimension = group.dims[phase.dims[0]] if len(phase.dims) == 1 else -1
        size = int(phase.bytes_in[task.positions[part.rank]])
        when = (part.ready, part.start, part.end)
        return (*what, dimension, line.queue, size, *when, part.received, part.network)
