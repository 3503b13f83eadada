"""The system layer of ASTRA-sim 1 and 2, selected by `compat` (docs/compat.md). streams.pyx does the work."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.communicator import NO_GRID, Communicator
from pyxsim.collective.plan import Phase, Plan
from pyxsim.compat.astra.system.bus import SharedBuses
from pyxsim.compat.astra.system.chunks import CommGroup, Cut, Cutter, Step, joined, make_comm_group
from pyxsim.compat.astra.system.custom import Custom, SystemServices, is_custom, plan_of
from pyxsim.compat.astra.system.issued import Chunk, Issued
from pyxsim.compat.astra.system.phase_algorithms import TREE
from pyxsim.compat.astra.system.phase_table import chunk_table, message_rows, queue_times, stuck, traffic
from pyxsim.compat.astra.system.queues import QueueChoice, QueueRotation
from pyxsim.compat.astra.system.refuse import (
    refuse_collective,
    refuse_message,
    refuse_missing_groups,
    refuse_options,
    refuse_other_order,
    refuse_other_ways,
    refuse_rendezvous,
)
from pyxsim.compat.astra.system.streams import REQUEST_BYTES, Streams
from pyxsim.network.protocol import Backend
from pyxsim.system.data_carrier import DataCarrier
from pyxsim.system.options import ASTRA_SIM_1, Options
from pyxsim.system.program import Programs
from pyxsim.system.protocol import SystemLayer
from pyxsim.system.work import Collective, PointToPoint


def _act(action: Callable[[], None], now: int) -> None:
    """Call an action that takes no time."""
    action()


_GIGA = 10**9
_GROUP_DELAY = 10  # ns: endpoint delay of communicator groups, whatever endpoint_delay is
_COLUMNS = 6  # ready, start, end, messages, network, awaited


class AstraSystem(SystemLayer):
    """Carries out collectives as the version of ASTRA-sim that `options.compat` names (see protocol.SystemLayer)."""

    def __init__(self, network: Backend, shape: Sequence[int], options: Options) -> None:
        refuse_options(options)
        super().__init__(network, shape, options)
        self.chunks: list[Chunk] = []
        self.chunks_of: tuple[int, dict[int, list[Chunk]]] = (0, {})  # number of chunks, and those of each collective
        self.issued: dict[int, Issued] = {}  # by the number of the collective
        self.customs: list[Custom] = []
        first = options.compat == ASTRA_SIM_1
        # ASTRA-sim divides by the queues of dimension 0, whatever the dimension.
        slots = -(-options.active_chunks // len(options.queues[0]))
        self._queues = np.cumsum([0, *map(len, options.queues)]).tolist()
        rate = float(options.reduction_bytes_per_cycle or 0)
        # Version 2 computes with bytes per second, then converts to nanoseconds.
        self._rate = (rate, 1.0) if first else (rate * _GIGA, float(_GIGA))
        self._streams = Streams(
            math.prod(self.shape),
            [slots] * self._queues[-1],
            endpoint_delay=options.endpoint_delay,
            group_delay=options.cycles_of_ns(_GROUP_DELAY),
            reduction_delay=options.reduction_delay,
            rate=self._rate[0],
            scale=self._rate[1],
            intra=options.intra_dimension,
            barrier=first,
            boost=options.boost,
            rendezvous=options.rendezvous,
        )
        self._request_bytes = REQUEST_BYTES if options.rendezvous else 0
        if options.shared_bus is not None:
            self._streams.bus = SharedBuses(self._streams, options.shared_bus, math.prod(self.shape))
        self._cutter = Cutter(self.shape, options)
        self._rotation = QueueRotation(options, math.prod(self.shape))
        self._phases: dict[tuple[object, ...], int] = {}
        self._later: dict[int, Callable[[int], None]] = {}
        self._number = 0  # of scheduled calls
        self._issued: dict[Collective, Issued] = {}
        self._custom: dict[Collective, Custom] = {}
        self._posted: dict[int, Callable[[int], None]] = {}  # messages of custom collectives, by negative numbers
        self._programs = Programs(self._reduction, options.cycles_of_ns, unsaid_ns=1)
        self._services = SystemServices(self._now, self._post_custom, self._call_later)
        self._begun = np.zeros(math.prod(self.shape), np.int64)  # per NPU: collectives, for their priorities
        # Per group, by its id, and NPU: number of streams. None is the whole network.
        self._serials: dict[int, tuple[Communicator | None, IntArray]] = {}
        self._equal_issued: Counter[object] = Counter()
        self._running = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._serials = {id(group): (group, serials) for group, serials in self._serials.values()}

    @property
    def cycle(self) -> int:  # type: ignore[override]
        """The current cycle."""
        return self._streams.now

    # -- work --

    @property
    def sends_planned_bytes(self) -> bool:
        """Never: ASTRA-sim rounds sizes, and its trees send more."""
        return False

    def communicator(self, members: Sequence[int]) -> Communicator:
        """The communicator of some NPUs: ASTRA-sim makes a single ring of a list that is not all of them."""
        group = super().communicator(members)
        return group if len(group) == len(self._whole) else replace(group, shape=(len(group),), dims=NO_GRID)

    def carrier(self, seed: int) -> DataCarrier:
        """Not supported: ASTRA-sim moves no data."""
        raise NotImplementedError(f"{self.options.compat} moves no data")

    def _issue(self, collective: Collective, algorithms: Sequence[str] | None, priority: int | None) -> None:
        """Issue a collective. In version 1 all groups along some dimensions must have issued theirs by its start.

        `joined` is called with each NPU when ASTRA-sim tells that NPU's workload that it has finished. Raises
        InputError for what ASTRA-sim cannot do; it has no collective with a root.
        """
        kind, size, group = collective.kind, collective.size, collective.communicator
        key = f"system.{kind.replace('-', '_')}"
        refuse_collective(kind, size, group, self.options, key)
        names = tuple(algorithms or self._algorithms_for(collective))
        if self.options.compat != ASTRA_SIM_1 and is_custom(kind, names):
            collective.algorithms = names
            self._issue_custom(collective, plan_of(kind, size, group, names, collective.root, self.options, key))
            return
        comm = make_comm_group(kind, group, self.shape, self.options, algorithms, key)
        number = len(self.collectives)
        # Version 1's workloads give some of their collectives a priority of their own.
        has_priority = self.options.compat == ASTRA_SIM_1 and priority is not None
        collective.algorithms = tuple(name.name for name in comm.names)
        collective.priority = (
            priority if has_priority and priority is not None else self.options.priority(number, priority)
        )
        counts = not has_priority and self.options.scheduling != "explicit"
        issued = self._issued[collective] = Issued(collective, comm, key, number, counts)
        if collective.joined is not None:
            issued.places = {npu: place for place, npu in enumerate(group.members)}
        self.collectives.append(collective)
        self.issued[number] = issued
        if collective.is_open:
            key_of_equals = (kind, size, comm.dims, comm.names, comm.members)
            issued.turn, self._equal_issued[key_of_equals] = (
                self._equal_issued[key_of_equals],
                self._equal_issued[key_of_equals] + 1,
            )
            return
        self._begun[list(group.members)] = number + 1
        if self._running and collective.start <= self.cycle:
            self._begin(number, self.cycle)
        else:
            self._call_at(collective.start, partial(self._begin, number))

    def _issue_custom(self, collective: Collective, plan: Plan) -> None:
        """Issue a collective that is carried out message by message (custom.py)."""
        refuse_rendezvous(self.options, collective.kind)
        custom = Custom(collective, len(self.collectives), plan, self._programs, self._services)
        self._custom[collective] = custom
        self.collectives.append(collective)
        self.customs.append(custom)
        self.bytes_planned += custom.total
        if not collective.is_open:
            self.at(collective.start, custom.enter_all)

    def enter(self, collective: Collective, npu: int) -> None:
        """Let an NPU issue an open collective, with the queues and the priority that are next at this NPU.

        Raises ValueError as in SystemLayer; InputError where ASTRA-sim would mistake it for another collective.
        """
        position = collective.take_in(npu)
        if (custom := self._custom.get(collective)) is not None:
            collective.start = self.cycle if collective.start < 0 else collective.start
            custom.enter(position)
            return
        issued, now = self._issued[collective], self.cycle
        rank = collective.priority
        if issued.counts:
            rank = self.options.priority(int(self._begun[npu]), None)
            self._begun[npu] += 1
        if not npu:
            self._cutter.new_cycle(now)
        if collective.start < 0:
            collective.start = now
        if issued.streams is None:
            self._plan(issued.number, npu)
        else:
            self._follow(issued, npu)
        if issued.shared:
            members = [self._streams.member(stream, issued.ranks[npu]) for stream in issued.shared]
            self._streams.enter(np.array(members, np.int64), rank)
            return
        if collective.joined is not None:
            collective.joined(collective, npu)
        if not collective.outside:
            self._finished(issued.number, now)

    def _follow(self, issued: Issued, npu: int) -> None:
        """Let an NPU enter a planned collective. Raises InputError if its own rotation would choose differently."""
        collective, serials = issued.collective, self._serial_numbers(issued)
        if serials[npu] != issued.serial:
            refuse_other_order(npu, collective.name, collective.kind)
        comm = joined(issued.comm, self.shape) if self._is_joined(issued.comm) else issued.comm
        if not self._cutter.follow(collective.kind, collective.size, comm, issued.key, issued.serial, issued.cuts):
            refuse_other_ways(npu, collective.name, collective.kind)
        serials[npu] += len(issued.shared)
        if not (self._rotation.matter or self._cutter.trees.matter):
            return
        for stream in issued.shared:
            chunk = self.chunks[stream]
            for step, place in zip(chunk.steps, chunk.places, strict=True):
                self._rotation.follow(chunk.comm.dims[step.axis], npu, step.half, place)
                self._cutter.trees.follow(collective.kind, chunk.comm.dims[step.axis], npu, step.tree)

    def _serial_numbers(self, issued: Issued) -> IntArray:
        """Number of streams that each NPU has begun, counted separately for each communicator group."""
        group = issued.collective.communicator if issued.comm.group else None
        return self._serials.setdefault(id(group), (group, np.zeros(math.prod(self.shape), np.int64)))[1]

    def at(self, cycle: int, action: Callable[[], None], npu: int | None = None) -> int:
        """Call `action` in a cycle: among the events of `npu`, or by itself (see SystemLayer)."""
        self._check_time(cycle)
        return self._call_at(cycle, partial(_act, action), npu)

    def _call_at(self, cycle: int, action: Callable[[int], None], npu: int | None = None) -> int:
        number = self._next_number()
        self._later[number] = action
        self._streams.call_at(cycle, number, -1 if npu is None else npu)
        return number

    def _send(self, message: PointToPoint) -> None:
        """Send a message, which pays no endpoint delay and has ended when it arrives."""
        is_open = message.start < 0
        refuse_message(self.options, asked=is_open)
        message.number = len(self.messages) - 1
        if not is_open and self._running and message.start <= self.cycle:
            self._post(message)
        elif not is_open:
            self._call_at(message.start, partial(_act, partial(self._post, message)))

    def hand_over(self, message: PointToPoint) -> None:
        """Send an open message now. Raises ValueError if it was already sent."""
        message.leave(self.cycle)
        self._post(message)

    def _post(self, message: PointToPoint) -> None:
        src, dst = message.src, message.dst
        self._streams.post(src, dst, message.size, self.plane_between(src, dst), message.number, message.tag)

    def _begin(self, number: int, now: int) -> None:
        """Begin a collective and all others of the same cycle, NPU by NPU: each issues all of its own."""
        at = self.collectives[number].start
        if self.issued[number].begun:
            return
        plain = [
            collective for collective in self.issued.values() if not (collective.begun or collective.collective.is_open)
        ]
        together = [collective.number for collective in plain if collective.collective.start == at]
        rows = []
        for order, index in enumerate(together):
            issued = self.issued[index]
            self._plan(index)
            issued.begun = True
            for stream in issued.streams or []:
                npus = np.array(self.chunks[stream].comm.members, np.int64)
                first = self._streams.member(stream, 0)
                rows.append(np.stack([npus, np.full_like(npus, order), np.arange(len(npus)) + first]))
        if rows:
            all_rows = np.concatenate(rows, axis=1)
            self._streams.begin(all_rows[2, np.lexsort((all_rows[1], all_rows[0]))])
        for index in together:
            if not self.issued[index].left:
                self._finished(index, now)  # nothing to do with one NPU

    def _plan(self, number: int, npu: int | None = None) -> None:
        """Cut a collective into streams; in version 1 all groups along some dimensions together.

        `npu`: the first that enters an open collective; the others follow. Otherwise the rotations of all
        its NPUs advance.
        """
        issued = self.issued[number]
        if issued.streams is not None:
            return
        collective, comm = issued.collective, issued.comm
        together = [number]
        if self._is_joined(comm):
            together = self._all_groups(number)
            comm = joined(comm, self.shape)
        npus = np.array(comm.members, np.int32)
        takers = comm.members if npu is None else (npu,)
        serials = self._serial_numbers(issued)
        owner = np.full(math.prod(self.shape), number)
        streams: list[int] = []
        cuts: list[Cut] = []
        for index in together:
            each = self.issued[index]
            each.streams, each.shared, each.serial = [], streams, int(serials[takers[0]])
            each.cuts = cuts
            each.ends = np.full(math.prod(self.shape), -1, np.int64)
            owner[list(each.comm.members)] = index
            if npu is not None:
                each.ranks = {member: rank for rank, member in enumerate(comm.members)}
        at_once = collective.is_open or any(self.collectives[index].joined is not None for index in together)
        tags = np.array([self.collectives[index].tag for index in owner[npus].tolist()], np.int32)
        if npu is None:
            self._cutter.new_cycle(collective.start)
        pieces = self._cutter.chunks(collective.kind, collective.size, comm, issued.key, issued.serial, takers)
        for cut, steps in pieces:
            if not steps:
                return
            cuts.append(cut)
            places = [self._rotation.take(comm.dims[step.axis], takers, step.half) for step in steps]
            rows = np.full((len(steps), len(npus), _COLUMNS), -1, np.int64)
            rows[:, :, 3:] = 0
            phases = [self._phase(comm, step, place) for step, place in zip(steps, places, strict=True)]
            streams.append(self._streams.add_stream(npus, tags, phases, collective.priority, rows, at_once))
            gone = np.full(len(npus), -1, np.int64)
            self.chunks.append(Chunk(owner[npus], cut.size, comm, steps, places, rows, gone))
            self.bytes_planned += sum(
                step.program.load(self._request_bytes) * self._groups(comm, step) for step in steps
            )
        issued.streams = streams
        serials[list(takers)] += len(streams)
        for index in together:
            each = self.issued[index]
            each.left = len(streams) * len(each.comm.members)
            if each.collective.joined is not None:
                each.collective.to_go = [len(streams)] * len(each.comm.members)

    def _is_joined(self, comm: CommGroup) -> bool:
        """Whether all groups along its dimensions are one collective."""
        return self.options.compat == ASTRA_SIM_1 and len(comm.members) < math.prod(self.shape)

    def _all_groups(self, number: int) -> list[int]:
        """The equal collectives on all groups along its dimensions, which are one collective in version 1."""
        first = self.issued[number]
        groups: dict[tuple[int, ...], int] = {}
        for index, collective in self.issued.items():
            if collective.streams is None and collective.equal_key == first.equal_key:
                groups.setdefault(collective.comm.members, index)
        refuse_missing_groups(list(groups), math.prod(self.shape), first.key)
        return list(groups.values())

    def _groups(self, comm: CommGroup, step: Step) -> int:
        """Number of groups of a phase; with boost only that of NPU 0 (for a tree: all that begin at its rank)."""
        n, stride = step.program.n, math.prod(comm.shape[: step.axis])
        if not self.options.boost:
            return len(comm.members) // n
        return len(comm.members) // (n * stride) if step.program.algorithm == TREE else 1

    def _phase(self, comm: CommGroup, step: Step, place: QueueChoice) -> int:
        """The number of a phase in `_streams`."""
        program, dim = step.program, comm.dims[step.axis]
        stride = math.prod(comm.shape[: step.axis])
        key = (program, stride, dim, place, comm.group)
        if key not in self._phases:
            self._phases[key] = self._streams.add_phase(
                program.algorithm,
                program.kind,
                program.pays,
                program.n,
                stride,
                place.direction,
                self._queues[dim] + place.number,
                place.plane,
                program.sends,
                program.parallel,
                program.others,
                program.slots,
                comm.group,
                program.size,
                max(program.entering, program.leaving),
                program.table,
            )
        return self._phases[key]

    # -- time --

    def run(self) -> int:
        """Carry out everything that was issued (see SystemLayer)."""
        self._running = True
        try:
            self._streams.run(self.network, self._call, self._member_ended, self._arrived)
        finally:
            self._running = False
        return self._last_end()

    def _call(self, number: int, now: int) -> None:
        self._later.pop(number)(now)

    def _member_ended(self, stream: int, rank: int, now: int) -> None:
        chunk = self.chunks[stream]
        number = int(chunk.owner[rank])
        issued = self.issued[number]
        npu = chunk.comm.members[rank]
        chunk.left[rank] = now
        issued.ends[npu] = now  # finally the end of the last chunk
        issued.left -= 1
        if issued.collective.to_go:
            issued.collective.member_finished(issued.places[npu])
        if not issued.left:
            self._finished(number, now)

    def _finished(self, number: int, now: int) -> None:
        collective = self.collectives[number]
        collective.unfinished = 1
        collective.chunk_finished(now)

    def _arrived(self, number: int, now: int) -> None:
        if number < 0:
            self._posted.pop(number)(now)
        else:
            self.messages[number].member_ended(1, now, 1, 0)

    # -- collectives message by message --

    def _reduction(self, size: int) -> int:
        """Cycles of a reduction, as in streams.pyx."""
        rate, scale = self._rate
        return self.options.reduction_delay + (3 * int(size / rate * scale) if rate else 0)

    def _next_number(self) -> int:
        self._number += 1
        return self._number - 1

    def _now(self) -> int:
        return self.cycle

    def _call_later(self, cycles: int, action: Callable[[int], None]) -> None:
        self._call_at(self.cycle + cycles, action)

    def _post_custom(self, src: int, dst: int, size: int, tag: int, arrived: Callable[[int], None]) -> None:
        number = -1 - self._next_number()
        self._posted[number] = arrived
        self._streams.post(src, dst, size, self.plane_between(src, dst), number, tag)

    # -- inspection --

    def ends(self, collective: Collective) -> IntArray:
        """Return the cycle in which each member finished a collective, int64[members]."""
        if (custom := self._custom.get(collective)) is not None:
            return custom.ends()
        issued = self._issued[collective]
        return issued.ends[list(issued.comm.members)]

    def plan_all(self) -> None:
        """Plan everything that was issued in the order of the starts, which decides the queues.

        Open collectives are planned when the first NPU enters.
        """
        for number in sorted(self.issued, key=lambda index: self.collectives[index].start):
            if not self.collectives[number].is_open:
                self._plan(number)

    def schedules(self) -> Iterator[Phase]:
        """Yield one phase for each different schedule (see SystemLayer).

        A tree always carries out an all-reduce, and is proved to do that.
        """
        self.plan_all()
        seen = set()
        for chunk in self.chunks:
            for step in chunk.steps:
                kind = "all-reduce" if step.algorithm.endswith("double-binary-tree") else step.kind
                name, n = step.algorithm.removeprefix("one-"), step.program.n
                if (kind, name, n) not in seen:
                    seen.add((kind, name, n))
                    whole = step.program.entering * (n if kind == "all-gather" else 1)
                    yield Phase(kind, name, (0,), (n,), whole, ())
        for custom in self.customs:
            for phase in custom.plan.phases:
                if (phase.kind, phase.algorithm, phase.npus) not in seen:
                    seen.add((phase.kind, phase.algorithm, phase.npus))
                    yield phase

    def traffic(self, work: Iterable[Collective | PointToPoint] | None = None) -> IntArray:
        """Rows (source, destination, plane, bytes, count), int64[K, 5] (see SystemLayer)."""
        self.plan_all()
        if work is None:
            return traffic(self)
        chosen = {id(item) for item in work}
        rows = [traffic(self, number) for number, collective in enumerate(self.collectives) if id(collective) in chosen]
        messages = [message for message in self.messages if id(message) in chosen]
        return np.concatenate([np.zeros((0, 5), np.int64), *rows, *(message_rows(self, messages))])

    def chunk_table(self) -> dict[str, IntArray]:
        """The columns of /chunks (see SystemLayer)."""
        return chunk_table(self)

    def phase_kinds(self) -> Iterator[tuple[int, int, str]]:
        """(collective, phase, kind) of everything that is planned (see SystemLayer)."""
        for chunk in self.chunks:
            yield from ((chunk.collective, phase, step.kind) for phase, step in enumerate(chunk.steps))
        for custom in self.customs:
            yield from ((custom.number, order, phase.kind) for order, phase in enumerate(custom.plan.phases))

    def queue_times(self, chunks: dict[str, IntArray]) -> tuple[IntArray, IntArray]:
        """A chunk stays in its queue until all NPUs have finished the phase, and its messages are expected from a time
        on (see SystemLayer)."""
        return queue_times(self, chunks)

    def may_stall(self, chunks: int) -> bool:
        """In version 2 chunks keep their slots while they wait for other NPUs, unless all chunks have one."""
        slots = self.options.active_chunks // max(map(len, self.options.queues))
        return self.options.compat != ASTRA_SIM_1 and not 0 < chunks <= slots

    def stuck(self) -> list[str]:
        """What has not ended, and what it waits for; empty if all has (see SystemLayer)."""
        return stuck(self, self._streams.unfinished())
