"""pyxsim's own system layer: issues collectives, cuts them into chunks, keeps the queues, drives the network."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.collective.byte_matrix import ByteMatrix
from pyxsim.collective.plan import Phase, Plan, dimension_order, make_plan
from pyxsim.collective.sizes import chunk_sizes
from pyxsim.collective.themis import Themis
from pyxsim.errors import InputError, LockstepLost, StuckError
from pyxsim.network.lines import Lines
from pyxsim.network.protocol import Backend
from pyxsim.system.chunk_queue import ChunkQueue
from pyxsim.system.data_carrier import DataCarrier
from pyxsim.system.endpoint import Endpoints
from pyxsim.system.executor import Executor
from pyxsim.system.lockstep import check_members, check_options, check_phase
from pyxsim.system.options import Options
from pyxsim.system.program import Program, Programs
from pyxsim.system.protocol import SystemLayer
from pyxsim.system.stuck import stuck
from pyxsim.system.table import accesses, chunk_table, lines, merged, traffic
from pyxsim.system.work import Chunk, ChunkPhase, ChunkTask, Collective, PointToPoint

MOST_BYTES = 2**62
THEMIS_KNOWS = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")
Log = NDArray[np.int64]


class System(SystemLayer):
    """pyxsim's own system layer (see protocol.SystemLayer): each NPU continues as soon as its own data are there.

    `listen`: with `options.carry`, called with the log of messages as it grows (see Executor.take_log).
    """

    pays_endpoint_delays = True
    independent_messages = True

    def __init__(self, network: Backend, shape: Sequence[int], options: Options) -> None:
        super().__init__(network, shape, options)
        if options.lockstep:
            check_options(options, network.npus)
        self.cycle = 0
        self.listen: Callable[[Log], None] = _ignore
        slow = options.slow(network.npus)
        self._delays = options.endpoint_delays(network.npus)
        if options.endpoint is not None:
            self.endpoint = Endpoints(network.npus, options.endpoint, slow, self)
        self.executor = Executor(
            self._delays,
            [factor.numerator for factor in slow],
            [factor.denominator for factor in slow],
            bus=options.shared_bus,
            log=options.carry,
            pipes=None if self.endpoint is None else self.endpoint.pipes,
        )
        self.tasks: list[ChunkTask | PointToPoint] = []  # by the executor's numbers
        offload = None if options.endpoint is None else options.endpoint.engine
        self._programs = Programs(options.reduction_cost, options.cycles_of_ns, offload=offload)
        self._plans_of: dict[Any, list[Plan]] = {}
        self._program_numbers: dict[int, int] = {}  # id of a program -> its number in the executor
        self._traffic: tuple[int, NDArray[np.int64]] | None = None  # number of tasks, and their traffic
        self._chunk_queues: dict[Any, ChunkQueue] = {}
        self._changed: dict[ChunkQueue, None] | None = None  # in order, while ranks that have ended join queues
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._event_number = 0
        self._begun = 0  # collectives; open ones count once their first NPU has entered
        self._chunks = 0
        self._abandons = False  # whether any work was abandoned

    # -- work --

    @property
    def sends_planned_bytes(self) -> bool:
        """Whether all NPUs are simulated (see SystemLayer)."""
        return not self.options.boost

    def carrier(self, seed: int) -> DataCarrier:
        """Carry real data from now on (see SystemLayer)."""
        carrier = DataCarrier(self, seed)
        self.listen = carrier.feed
        return carrier

    def _issue(self, collective: Collective, algorithms: Sequence[str] | None, priority: int | None) -> None:
        kind, size, group = collective.kind, collective.size, collective.communicator
        if self.options.boost and (collective.is_open or collective.joined is not None):
            raise InputError(
                "boost simulates only the groups of one NPU; others do not begin and end on their own",
                key="system.boost",
                allowed="false",
            )
        if self.options.boost and collective.matrix is not None:
            problem = "boost simulates only the groups of one NPU; with a matrix NPUs send different amounts"
            raise InputError(problem, key="system.boost", allowed="false")
        if size * len(group) > MOST_BYTES:
            raise InputError(
                f"{kind} of {size} bytes on {len(group)} NPUs exceeds the range of the counters",
                key="collective.size",
                allowed=f"at most {MOST_BYTES} bytes over all NPUs",
            )
        if self.options.lockstep:
            if collective.is_open or collective.joined is not None:
                raise LockstepLost("NPUs enter collectives one by one")
            check_members(group, self.network.npus)
        collective.algorithms = tuple(algorithms or self._algorithms_for(collective))
        collective.priority = self.options.priority(self._begun, priority)
        self.collectives.append(collective)
        for plan in self._plans(collective):
            self._add_chunk(collective, plan)
        collective.unfinished = len(collective.chunks)
        if collective.joined is not None:
            collective.to_go = [len(collective.chunks)] * len(group)
        if not collective.is_open:
            self._begun += 1
            self._begin(collective)

    def enter(self, collective: Collective, npu: int) -> None:
        """Let an NPU begin its part of an open collective in the current cycle (see SystemLayer).

        It begins with all NPUs that enter the collective in this cycle, in the order of what is issued in it. The start
        skew does not apply.
        """
        position = collective.take_in(npu)
        if collective.start < 0:
            collective.start = self.cycle
            collective.priority = self.options.priority(self._begun, collective.priority)
            self._begun += 1
        if not collective.entering:
            self._at(self.cycle, partial(self._enter, collective))
        collective.entering.append(position)

    def _enter(self, collective: Collective) -> None:
        positions, collective.entering = sorted(collective.entering), []
        if collective.abandoned:
            return
        if self._is_empty(collective):
            self._nothing_to_do(collective)
        else:
            self._ready(collective, positions)

    def at(self, cycle: int, action: Callable[[], None], npu: int | None = None) -> int:
        """Call `action` in a cycle; actions of one cycle run in the order of the calls, whatever `npu` is."""
        self._check_time(cycle)
        return self._at(cycle, action)

    def cancel(self, actions: Iterable[int]) -> None:
        """Forget actions that have not been called (see SystemLayer)."""
        forgotten = set(actions)
        self._events[:] = [event for event in self._events if event[1] not in forgotten]
        heapq.heapify(self._events)

    def abandon(self, work: Iterable[Collective | PointToPoint]) -> None:
        """End work that has not ended in the current cycle (see SystemLayer)."""
        changed: dict[ChunkQueue, None] = {}
        for item in work:
            if item.end >= 0:
                continue
            item.end, item.abandoned, self._abandons = self.cycle, True, True
            for task in item.tasks:
                self.bytes_abandoned += self.executor.abandon(task.number)
                if (chunk_queue := task.leave_queue()) is not None:
                    changed[chunk_queue] = None
        for chunk_queue in changed:
            chunk_queue.admit_waiting()

    def _send(self, message: PointToPoint) -> None:
        if self.options.lockstep:
            raise LockstepLost("there are point-to-point messages")
        plane = self.plane_between(message.src, message.dst)
        message.number = len(self.tasks)
        program = self._number(self._programs.single(message.size))
        self.executor.add_task(program, (message.src, message.dst), plane, plane, message.tag)
        self.tasks.append(message)
        if message.start >= 0:
            for rank, npu in enumerate((message.src, message.dst)):
                self._at(message.start + self.options.skew(npu), partial(self._start, message.number, rank))

    def hand_over(self, message: PointToPoint) -> None:
        """Send an open message in the current cycle; its receiver is ready (see SystemLayer)."""
        message.leave(self.cycle)
        for rank in (0, 1):
            self._at(self.cycle, partial(self._start, message.number, rank))

    def _start(self, task: int, rank: int) -> None:
        self.executor.start(task, rank, self.cycle)

    def _plans(self, collective: Collective) -> Iterable[Plan]:
        """The plan of each chunk, reused from an equal earlier collective where plans do not depend on the history."""
        if self.options.inter_dimension == "round-robin":  # depends on the chunks before
            return self._new_plans(collective)
        group = collective.communicator
        if collective.matrix is not None:  # seldom comes again
            return self._new_plans(collective)
        key = collective.kind, collective.size, group.shape, group.dims, collective.algorithms, collective.root
        if key not in self._plans_of:
            self._plans_of[key] = list(self._new_plans(collective))
        return self._plans_of[key]

    def _new_plans(self, collective: Collective) -> Iterator[Plan]:
        """Plan each chunk with its order of dimensions."""
        whole = self._plan(collective, collective.size)
        self._check_routes(collective, whole)
        if any(phase.schedule().given_bytes is not None for phase in whole.phases):
            yield whole  # a file gives the bytes of each message: no chunks
            return
        if collective.matrix is not None:
            for order, part in self._cut_matrix(collective, collective.matrix):
                yield self._plan(collective, part.size, order, part)
            return
        for order, size in self._cut(collective):
            yield self._plan(collective, size, order)

    def _cut_matrix(self, collective: Collective, matrix: ByteMatrix) -> Iterator[tuple[tuple[int, ...], ByteMatrix]]:
        """Yield the order of dimensions and the bytes between pairs of each chunk; Themis sees its largest buffer."""
        options, group = self.options, collective.communicator
        bandwidths = [options.bandwidths[dim] for dim in group.dims] if group.is_grid else options.bandwidths[:1]
        themis = Themis(group.shape, bandwidths)
        chunks = options.chunks if matrix.rows.any() else 1  # one without bytes: all NPUs end when they begin
        for index in range(chunks):
            part = matrix.part(index, chunks)
            if chunks > 1 and not part.rows.any():
                continue
            if options.inter_dimension.startswith("themis"):
                yield themis.order(collective.kind, part.size), part
            else:
                yield dimension_order(options.inter_dimension, collective.kind, len(group.shape), self._chunks), part

    def _plan(
        self,
        collective: Collective,
        size: int,
        order: tuple[int, ...] | None = None,
        matrix: ByteMatrix | None = None,
    ) -> Plan:
        kind, themis = collective.kind, self.options.inter_dimension.startswith("themis")
        return make_plan(
            kind,
            size,
            collective.communicator.shape,
            collective.algorithms,
            optimization="themis" if themis else self.options.optimization,
            order=order,
            root=collective.root,
            key=f"system.{kind.replace('-', '_')}",
            matrix=collective.matrix if matrix is None else matrix,
        )

    def _check_routes(self, collective: Collective, plan: Plan) -> None:
        """Raise InputError for a group over several dimensions of a network whose rings are not connected (Garnet)."""
        group = collective.communicator
        apart = any(len(phase.dims) > 1 for phase in plan.phases) or not (group.is_grid or len(group) == 1)
        if self.options.confined and apart:
            raise InputError(
                f"{collective.name} on NPUs of several dimensions as one group requires routes between them, which "
                "these rings do not have",
                key=f"system.{collective.kind.replace('-', '_')}",
                allowed="NPUs that form a grid, and one algorithm per dimension",
            )

    def _cut(self, collective: Collective) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yield the order of dimensions and the bytes of each chunk."""
        options, group = self.options, collective.communicator
        policy, kind, size = options.inter_dimension, collective.kind, collective.size
        bandwidths = [options.bandwidths[dim] for dim in group.dims] if group.is_grid else options.bandwidths[:1]
        themis = Themis(group.shape, bandwidths)
        if kind not in THEMIS_KNOWS and policy.startswith("themis"):
            policy = "ascending"
        if policy == "themis-flex":
            yield from themis.cut(kind, size, options.chunks, flex=True)
            return
        for part in chunk_sizes(size, options.chunks):
            if policy == "themis":
                yield themis.order(kind, part), part
            else:
                yield dimension_order(policy, kind, len(group.shape), self._chunks), part

    def _add_chunk(self, collective: Collective, plan: Plan) -> None:
        chunk = Chunk(len(collective.chunks), collective, plan)
        self._chunks += 1
        collective.chunks.append(chunk)
        if self.endpoint is not None:
            self.endpoint.check(chunk)
        group = collective.communicator
        # Round robin over queues, separately for each order of dimensions: with alternating orders, chunks that load a
        # dimension equally would otherwise share a queue.
        way = tuple(phase.dims for phase in plan.phases)
        turn = collective.turns.get(way, 0)
        collective.turns[way] = turn + 1
        for number, phase in enumerate(plan.phases):
            own = group.dims[phase.dims[0]] if group.is_grid else 0
            place = turn % len(self.options.queues[own])
            dimension = own if group.is_grid and len(phase.dims) == 1 else -1
            stage = ChunkPhase(self, chunk, number, phase, place, dimension)
            self._add_tasks(stage, own)
            if chunk.stages:
                chunk.stages[-1].following = stage
            chunk.stages.append(stage)

    def _add_tasks(self, stage: ChunkPhase, own: int) -> None:
        phase, members = stage.phase, stage.chunk.collective.communicator.members
        queues = self.options.queues[own]
        queue = queues[stage.place]
        other = next(
            (chunk_queue.plane for chunk_queue in queues if chunk_queue.direction != queue.direction), queue.plane
        )
        planes = (queue.plane, other) if queue.direction > 0 else (other, queue.plane)  # clockwise, counterclockwise
        keys, groups, copies = phase.keys, phase.groups, 1
        if stage.one_group:
            groups = groups[groups[:, 0] == 0]
        if self.options.lockstep:
            check_phase(phase)
            copies = len(phase.groups)
        for positions in groups.tolist():
            program = self._programs.get(phase, int(keys[positions[0]]), mirror=queue.direction < 0)
            npus = tuple(members[position] for position in positions)
            key = (own, stage.place, npus)
            if key not in self._chunk_queues:
                self._chunk_queues[key] = ChunkQueue(self.options.slots[own], self.options.intra_dimension)
            number = self.executor.add_task(self._number(program), npus, *planes, stage.chunk.collective.tag)
            task = ChunkTask(stage, positions, program, self._chunk_queues[key], number, planes)
            self.tasks.append(task)
            self.bytes_planned += program.total * copies
            stage.tasks.append(task)
            for position in positions:
                stage.task_of[position] = task

    def _number(self, program: Program) -> int:
        """The number of a program in the executor."""
        if id(program) not in self._program_numbers:
            self._program_numbers[id(program)] = self.executor.add_program(program)
        return self._program_numbers[id(program)]

    def _begin(self, collective: Collective) -> None:
        """Let every NPU begin at the start of the collective plus its skew."""
        if self._is_empty(collective):
            late = max(self.options.skew(npu) for npu in collective.communicator.members)
            self._at(collective.start + late, partial(self._nothing_to_do, collective))
            return
        begin: dict[int, list[int]] = {}
        for position, npu in enumerate(collective.communicator.members):
            begin.setdefault(collective.start + self.options.skew(npu), []).append(position)
        for cycle, positions in begin.items():
            self._at(cycle, partial(self._ready, collective, positions))

    def _is_empty(self, collective: Collective) -> bool:
        """Whether there is nothing to do, as with one NPU."""
        return not any(chunk.stages for chunk in collective.chunks)

    def _nothing_to_do(self, collective: Collective) -> None:
        for _ in collective.chunks:
            for position in range(len(collective.to_go)):
                collective.member_finished(position)
            collective.chunk_finished(self.cycle)

    def _ready(self, collective: Collective, positions: Sequence[int]) -> None:
        one_group = self.options.boost or self.options.lockstep
        for chunk in collective.chunks:
            if self.endpoint is not None:
                for position in positions:
                    self.endpoint.enter(chunk, position)
            elif not one_group:
                for position in positions:
                    chunk.stages[0].member_ready(position, self.cycle)
            elif 0 in positions:
                chunk.stages[0].all_ready(self.cycle)

    # -- time and messages --

    def _at(self, cycle: int, action: Callable[[], None]) -> int:
        """Schedule an action and return its number; actions of one cycle run in the order of the calls."""
        heapq.heappush(self._events, (cycle, self._event_number, action))
        self._event_number += 1
        return self._event_number - 1

    def run(self) -> int:
        """Carry out everything that was issued (see SystemLayer)."""
        executor, network = self.executor, self.network
        # An arrival enables nothing before an endpoint has taken it in, so arrivals can be collected for that long.
        slack = 0 if self.options.shared_bus or self.endpoint else int(min(self._delays))
        while True:
            until = self._next_event()
            try:
                messages, cycles = network.advance(until, slack=slack)
            except StuckError:
                if until is None and self._abandons and not self.stuck():
                    break  # only what was abandoned is still in the network
                raise
            lost = network.take_losses()
            if len(messages) or lost:
                self.cycle = network.now
                executor.arrive(messages, cycles)
                self._report_losses(lost)
            elif until is None:
                break
            else:
                self.cycle = until
            self._process_cycle()
            if self.options.carry:
                self.listen(executor.take_log())
        if self.options.lockstep and any(task.unfinished for task in self._chunk_tasks):
            raise LockstepLost("the NPUs of a group do not end a phase together")
        return self._last_end()

    def _report_losses(self, messages: Iterable[int]) -> None:
        """Let work know that messages of it never arrive."""
        for message in messages:
            work = self.tasks[self.executor.task_of(message)].work
            if work.lost is not None and work.end < 0:
                work.lost()

    def _next_event(self) -> int | None:
        cycles = [self.executor.next_event(), self._events[0][0] if self._events else -1]
        return min((cycle for cycle in cycles if cycle >= 0), default=None)

    def _process_cycle(self) -> None:
        """Process everything that is due in this cycle, and send the messages that result."""
        executor, events = self.executor, self._events
        while True:
            while events and events[0][0] <= self.cycle:
                heapq.heappop(events)[2]()
            executor.run_events(self.cycle)
            keys = executor.take_finished_keys()
            if self.endpoint is not None:
                self.endpoint.finish(keys)
            ended = executor.take_ended()
            if not ended and not keys and not (events and events[0][0] <= self.cycle):
                break
            changed = self._changed = {}
            for task, rank, messages, network in ended:
                self.tasks[task].member_ended(rank, self.cycle, messages, network)
            self._changed = None
            for chunk_queue in changed:
                chunk_queue.admit_waiting()
        src, dst, size, plane, tag = executor.outbox()
        if len(src):
            executor.sent(self._send_all(src, dst, size, plane, tag), self.cycle)

    def _send_all(self, src: Log, dst: Log, size: Log, plane: Log, tag: Log) -> int:
        if self.network.capabilities.transactions:
            accesses = self.executor.accesses()
            return self.network.send_accesses(src, dst, size, plane, self.cycle, tag, accesses)
        return self.network.send_many(src, dst, size, plane, self.cycle, tag)

    def admit(self, chunk_queue: ChunkQueue) -> None:
        """Let a queue that has changed admit tasks; where ranks have ended a phase, after all of them have joined."""
        if self._changed is None:
            chunk_queue.admit_waiting()
        else:
            self._changed[chunk_queue] = None

    # -- inspection --

    def stages(self) -> Iterator[ChunkPhase]:
        """Yield every phase of every chunk of every collective, in order of issue."""
        for collective in self.collectives:
            for chunk in collective.chunks:
                yield from chunk.stages

    def schedules(self) -> Iterator[Phase]:
        """Yield one phase for each different schedule (see SystemLayer)."""
        seen = set()
        for stage in self.stages():
            key = (stage.phase.kind, stage.phase.algorithm, stage.phase.npus)
            if key not in seen:
                seen.add(key)
                yield stage.phase

    def traffic(self, work: Iterable[Collective | PointToPoint] | None = None) -> NDArray[np.int64]:
        """Rows (source, destination, plane, bytes, count), int64[K, 5] (see SystemLayer)."""
        if work is not None:
            return self._traffic_of(task for item in work for task in item.tasks)
        if self._traffic is None or self._traffic[0] != len(self.tasks):
            self._traffic = len(self.tasks), self._traffic_of(self.tasks)
        return self._traffic[1]

    def _traffic_of(self, tasks: Iterable[Any]) -> NDArray[np.int64]:
        if self.options.lockstep:
            return merged(np.concatenate([kind.traffic for kind in lines(tasks)] or [np.zeros((0, 5), np.int64)]))
        return traffic(tasks, self.plane_between)

    def accesses(self) -> NDArray[np.int64]:
        """Rows (kind, initiator, target, bytes, members, plane, count), int64[K, 7] (see SystemLayer)."""
        return accesses(self.tasks, self.plane_between)

    def traffic_by_copies(self) -> list[tuple[NDArray[np.int64], int]]:
        """Of groups in lockstep only the first one (see SystemLayer)."""
        if not self.options.lockstep:
            return super().traffic_by_copies()
        return [(Lines(kind.members[:1], kind.messages).traffic, len(kind.members)) for kind in self.lines()]

    def lines(self) -> list[Lines]:
        return lines(self._chunk_tasks)

    @property
    def _chunk_tasks(self) -> Iterator[ChunkTask]:
        return (task for collective in self.collectives for task in collective.tasks)

    def chunk_table(self) -> Mapping[str, NDArray[np.int64]]:
        """The columns of /chunks (see SystemLayer)."""
        return chunk_table(self.collectives)

    def phase_kinds(self) -> Iterator[tuple[int, int, str]]:
        """(collective, phase, kind) of every chunk (see SystemLayer)."""
        for number, collective in enumerate(self.collectives):
            for chunk in collective.chunks:
                yield from ((number, stage.number, stage.phase.kind) for stage in chunk.stages)

    def queue_times(self, chunks: dict[str, Log]) -> tuple[Log, Log]:
        """A chunk leaves a queue when its NPU has finished the phase (see SystemLayer)."""
        return chunks["end"], chunks["network"]

    def may_stall(self, chunks: int) -> bool:
        """Never: a chunk that holds a slot waits for nothing but its own messages (see chunk_queue.py)."""
        return False

    def stuck(self) -> list[str]:
        """What has not ended, and what it waits for; empty if all has (see SystemLayer)."""
        return stuck(self.collectives, self.messages, self.tasks, self.executor)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        # Unpickled programs have new identities.
        self._program_numbers = {id(program): number for number, program in enumerate(self.executor.sources)}


def _ignore(log: Log) -> None:
    """Without a carrier the log is not used."""
