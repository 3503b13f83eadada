"""The system layer of ASTRA-sim 1 and 2: what `compat` asks for. docs/compat.md says what it does, and why.

It has the face of `pyxsim.system.System`; the work is done in streams.pyx.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pyxsim.collective.communicator import Communicator
from pyxsim.collective.plan import Phase
from pyxsim.errors import StuckError
from pyxsim.network.protocol import Network
from pyxsim.system.astra.bus import SharedBuses
from pyxsim.system.astra.chunks import Cutter, Step, Team, joined, make_team
from pyxsim.system.astra.machines import TREE
from pyxsim.system.astra.queues import Place, Turns
from pyxsim.system.astra.refuse import refuse_collective, refuse_message, refuse_missing_groups, refuse_options
from pyxsim.system.astra.streams import Streams
from pyxsim.system.astra.table import chunk_table, stuck, traffic
from pyxsim.system.options import ASTRA_SIM_1, Options
from pyxsim.system.work import Collective, PointToPoint

Longs = NDArray[np.int64]
_GIGA = 10**9
_GROUP_DELAY = 10  # ns: endpoints of communicator groups, whatever endpoint_delay is
_COLUMNS = 5  # ready, start, end, messages, network


@dataclass(frozen=True)
class Chunk:
    """A stream: its phases, and what is counted of them: int64[phases, members, 5].

    `owner`: for each member the number of its collective.
    """

    owner: Longs
    size: int
    team: Team
    steps: Sequence[Step]
    places: Sequence[Place]
    rows: Longs

    @property
    def collective(self) -> int:
        """The number of its collective; of several that are one, of the first."""
        return int(self.owner.min())


@dataclass
class Issued:
    """A collective, and what becomes of it.

    streams   None until it is planned
    left      members of streams that are not through
    ends      of each NPU of the network: when it was through with the last chunk, -1 before
    """

    collective: Collective
    team: Team
    key: str
    streams: list[int] | None = None
    begun: bool = False
    left: int = 0
    ends: Longs = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def alike(self) -> tuple[object, ...]:
        """What it has in common with those on other groups that are one collective with it in version 1."""
        collective, team = self.collective, self.team
        return collective.kind, collective.size, collective.start, team.dims, team.names


class AstraSystem:
    """Carries out collectives on a network of the given shape as ASTRA-sim does, `options.compat` says which."""

    def __init__(self, network: Network, shape: Sequence[int], options: Options) -> None:
        refuse_options(options)
        self.network = network
        self.shape = tuple(shape)
        self.options = options
        self.collectives: list[Collective] = []
        self.messages: list[PointToPoint] = []
        self.bytes_planned = 0
        self.chunks: list[Chunk] = []
        self.issued: list[Issued] = []
        first = options.compat == ASTRA_SIM_1
        # ASTRA-sim divides by the queues of dimension 0, whatever the dimension.
        room = -(-options.active_chunks // len(options.queues[0]))
        self._queues = np.cumsum([0, *map(len, options.queues)]).tolist()
        rate = float(options.reduction_bytes_per_cycle or 0)
        self._streams = Streams(
            math.prod(self.shape),
            [room] * self._queues[-1],
            endpoint_delay=options.endpoint_delay,
            group_delay=options.cycles_of_ns(_GROUP_DELAY),
            reduction_delay=options.reduction_delay,
            # Version 2 works with bytes per second, and comes back to nanoseconds.
            rate=rate if first else rate * _GIGA,
            scale=1.0 if first else float(_GIGA),
            intra=options.intra_dimension,
            together=first,
            boost=options.boost,
        )
        if options.shared_bus is not None:
            self._streams.bus = SharedBuses(self._streams, options.shared_bus, math.prod(self.shape))
        self._cutter = Cutter(self.shape, options)
        self._turns = Turns(options, math.prod(self.shape))
        self._whole = Communicator.whole(self.shape)
        self._phases: dict[tuple[object, ...], int] = {}
        self._later: list[Callable[[int], None]] = []
        self._running = False

    @property
    def cycle(self) -> int:
        """The present cycle."""
        return self._streams.now

    # -- what there is to do --

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
        name: str = "",
        tag: int = 0,
        done: Callable[[Collective], None] | None = None,
    ) -> Collective:
        """A collective that all members of a communicator (default: all NPUs) issue in cycle `at`.

        `done` is called in the cycle in which the last member has finished. Raises InputError for what the original
        cannot do. ASTRA-sim has no collective with a root.
        """
        group = communicator or self._whole
        key = f"system.{kind.replace('-', '_')}"
        refuse_collective(kind, size, group, self.options, key)
        team = make_team(kind, group, self.shape, self.options, algorithms, key)
        number = len(self.collectives)
        # Version 1's workloads give some of their collectives a priority of their own.
        own = self.options.compat == ASTRA_SIM_1 and priority is not None
        rank = priority if own and priority is not None else self.options.priority(number, priority)
        names = tuple(each.name for each in team.names)
        collective = Collective(
            kind, size, at, rank, group, name=name, root=root, algorithms=names, tag=tag, done=done
        )
        self.collectives.append(collective)
        self.issued.append(Issued(collective, team, key))
        if self._running and at <= self.cycle:
            self._begin(number, self.cycle)
        else:
            self._later.append(lambda now: self._begin(number, now))
            self._streams.call_at(at, len(self._later) - 1)
        return collective

    def send(
        self,
        src: int,
        dst: int,
        size: int,
        *,
        at: int = 0,
        name: str = "",
        tag: int = 0,
        done: Callable[[PointToPoint], None] | None = None,
    ) -> PointToPoint:
        """A message from NPU to NPU in cycle `at`. It pays no endpoint delay, and is done when it arrives."""
        refuse_message(self.options)
        number = len(self.messages)
        message = PointToPoint(src, dst, size, at, name=name, tag=tag, done=done)
        self.messages.append(message)
        self.bytes_planned += size
        plane = self.plane_between(src, dst)
        if self._running and at <= self.cycle:
            self._streams.post(src, dst, size, plane, number, tag)
        else:
            self._later.append(lambda now: self._streams.post(src, dst, size, plane, number, tag))
            self._streams.call_at(at, len(self._later) - 1)
        return message

    def plane_between(self, src: int, dst: int) -> int:
        """The plane of messages between two NPUs: of the first queue of the first dimension in which they differ."""
        weights = [math.prod(self.shape[:dim]) for dim in range(len(self.shape))]
        differ = [src // weight % n != dst // weight % n for weight, n in zip(weights, self.shape, strict=True)]
        return self.options.queues[differ.index(True) if any(differ) else 0][0].plane

    def _begin(self, number: int, now: int) -> None:
        """A collective begins, and with it all others that begin now: NPU by NPU, as each issues all of its own."""
        at = self.collectives[number].start
        if self.issued[number].begun:
            return
        together = [index for index, each in enumerate(self.issued) if each.collective.start == at and not each.begun]
        rows = []
        for order, index in enumerate(together):
            issued = self.issued[index]
            self._plan(index)
            issued.begun = True
            for stream in issued.streams or []:
                npus = np.array(self.chunks[stream].team.members, np.int64)
                first = self._streams.member(stream, 0)
                rows.append(np.stack([npus, np.full_like(npus, order), np.arange(len(npus)) + first]))
        if rows:
            every = np.concatenate(rows, axis=1)
            self._streams.begin(every[2, np.lexsort((every[1], every[0]))])
        for index in together:
            if not self.issued[index].left:
                self._finished(index, now)  # nothing to do: one NPU alone

    def _plan(self, number: int) -> None:
        """Cut a collective into streams; in version 1 all the groups along some dimensions together."""
        issued = self.issued[number]
        if issued.streams is not None:
            return
        collective, team = issued.collective, issued.team
        together = [number]
        if self.options.compat == ASTRA_SIM_1 and len(team.members) < math.prod(self.shape):
            together = self._all_groups(number)
            team = joined(team, self.shape)
        npus = np.array(team.members, np.int32)
        owner = np.full(math.prod(self.shape), number)
        for index in together:
            self.issued[index].streams = []
            self.issued[index].ends = np.full(math.prod(self.shape), -1, np.int64)
            owner[list(self.issued[index].team.members)] = index
        tags = np.array([self.collectives[index].tag for index in owner[npus].tolist()], np.int32)
        streams: list[int] = []
        for size, steps in self._cutter.chunks(collective.kind, collective.size, collective.start, team, issued.key):
            if not steps:
                return
            places = [self._turns.take(team.dims[step.axis], team.members, step.half) for step in steps]
            rows = np.full((len(steps), len(npus), _COLUMNS), -1, np.int64)
            rows[:, :, 3:] = 0
            phases = [self._phase(team, step, place) for step, place in zip(steps, places, strict=True)]
            counted = rows.reshape(-1, _COLUMNS)
            streams.append(self._streams.add_stream(npus, tags, phases, collective.priority, counted))
            self.chunks.append(Chunk(owner[npus], size, team, steps, places, rows))
            self.bytes_planned += sum(step.program.total * self._groups(team, step) for step in steps)
        issued.streams = streams
        for index in together:
            self.issued[index].left = len(streams) * len(self.issued[index].team.members)

    def _all_groups(self, number: int) -> list[int]:
        """The collectives that are one with this one: the same on all other groups along its dimensions."""
        first = self.issued[number]
        found: dict[tuple[int, ...], int] = {}
        for index, each in enumerate(self.issued):
            if each.streams is None and each.alike == first.alike:
                found.setdefault(each.team.members, index)
        refuse_missing_groups(list(found), math.prod(self.shape), first.key)
        return list(found.values())

    def _groups(self, team: Team, step: Step) -> int:
        """How many groups carry a phase out: with boost, that of NPU 0 (of a tree: all that begin at its rank)."""
        n, stride = step.program.n, math.prod(team.shape[: step.axis])
        if not self.options.boost:
            return len(team.members) // n
        return len(team.members) // (n * stride) if step.program.machine == TREE else 1

    def _phase(self, team: Team, step: Step, place: Place) -> int:
        """The number of a phase in `streams`."""
        program, dim = step.program, team.dims[step.axis]
        stride = math.prod(team.shape[: step.axis])
        key = (program, stride, dim, place, team.group)
        if key not in self._phases:
            self._phases[key] = self._streams.add_phase(
                program.machine,
                program.kind,
                program.pays,
                program.n,
                stride,
                place.direction,
                self._queues[dim] + place.number,
                place.plane,
                program.sends,
                program.together,
                program.others,
                program.slots,
                team.group,
                program.size,
                max(program.entering, program.leaving),
                program.table,
            )
        return self._phases[key]

    # -- time --

    def run(self) -> int:
        """Carry out everything that was issued; returns the cycle in which the last of it ended.

        Raises StuckError when that can never happen, and what the network raises.
        """
        self._running = True
        try:
            self._streams.run(self.network, self._call, self._member_ended, self._arrived)
        finally:
            self._running = False
        if lines := self.stuck():
            raise StuckError(f"nothing moves after cycle {self.cycle}, and not all is done: {lines[0]}", lines[1:])
        return max([each.end for each in self.collectives] + [each.end for each in self.messages], default=0)

    def _call(self, number: int, now: int) -> None:
        self._later[number](now)

    def _member_ended(self, stream: int, rank: int, now: int) -> None:
        chunk = self.chunks[stream]
        number = int(chunk.owner[rank])
        issued = self.issued[number]
        issued.ends[chunk.team.members[rank]] = now  # in the end the time of the last chunk
        issued.left -= 1
        if not issued.left:
            self._finished(number, now)

    def _finished(self, number: int, now: int) -> None:
        collective = self.collectives[number]
        collective.unfinished = 1
        collective.chunk_finished(now)

    def _arrived(self, number: int, now: int) -> None:
        self.messages[number].member_ended(1, now, 1, 0)

    # -- what there is to see --

    def ends(self, collective: Collective) -> Longs:
        """The cycle in which each member had finished a collective, int64[members]."""
        issued = self.issued[self.collectives.index(collective)]
        return issued.ends[list(issued.team.members)]

    def plan_all(self) -> None:
        """Plan everything that was issued, in the order in which it begins: queues are taken in turns."""
        for number in sorted(range(len(self.issued)), key=lambda index: self.collectives[index].start):
            self._plan(number)

    def schedules(self) -> Iterator[Phase]:
        """The phases that will be carried out; of those with the same schedule, one.

        A tree all-reduces whatever it is used for, and is proved to do that.
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

    def traffic(self, collective: int | None = None) -> Longs:
        """Rows (source, destination, plane, bytes, how many), int64[K, 5]: all messages of what was issued.

        `collective`: only those of one, by its number in `collectives`.
        """
        self.plan_all()
        return traffic(self, collective)

    def chunk_table(self) -> dict[str, Longs]:
        """One row per chunk, phase and NPU that takes part: the columns of /chunks."""
        return chunk_table(self)

    def stuck(self) -> list[str]:
        """What has not ended, and whom it waits for; empty when all is done."""
        return stuck(self, self._streams.unfinished())
