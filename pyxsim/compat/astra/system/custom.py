"""Collectives that are carried out message by message: those with an algorithm in a file (custom in version 2), and the
kinds that ASTRA-sim does not have.

As in ASTRA-sim: messages without dependencies start at once, without endpoint delays, chunks and queues. A message
ends, at both ends, when it arrives; a local step takes the time of its file; a reduction costs as elsewhere. Each NPU
proceeds from phase to phase by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.collective.communicator import Communicator
from pyxsim.collective.lookup import get_algorithm
from pyxsim.collective.plan import Phase, Plan, make_plan
from pyxsim.compat.astra.system.refuse import refuse_join
from pyxsim.settings.algorithms import ASTRA_KINDS, is_file
from pyxsim.system.options import Options
from pyxsim.system.program import Program, Programs
from pyxsim.system.work import Collective

COLUMNS = 5  # ready, start, end, messages, network


def is_custom(kind: str, names: Sequence[str]) -> bool:
    """Whether a collective is carried out message by message."""
    return kind not in ASTRA_KINDS or any(is_file(name) for name in names)


def plan_of(
    kind: str, size: int, group: Communicator, names: Sequence[str], root: int, options: Options, key: str
) -> Plan:
    """Return the plan of a custom collective; a file covers all ranks of the group. Raises InputError."""
    if any(is_file(name) for name in names) or not group.is_grid:
        plan = make_plan(kind, size, (len(group),), names[:1], root=root, key=key)
    else:
        plan = make_plan(kind, size, group.shape, names, optimization=options.optimization, root=root, key=key)
    for phase in plan.phases:
        refuse_join(phase, key)
        get_algorithm(phase.algorithm).check(phase.kind, key=key)
    return plan


@dataclass(frozen=True)
class SystemServices:
    """What a custom collective uses of its system layer.

    `post` sends a message and calls back when it has arrived; `later` calls after a number of cycles.
    """

    now: Callable[[], int]
    post: Callable[[int, int, int, int, Callable[[int], None]], None]
    later: Callable[[int, Callable[[int], None]], None]


class Custom:
    """A custom collective.

    rows      int64[phases, members, 5], the columns of /chunks
    number    of the collective
    at_work   per position: its current phase, len(phases) at the end
    """

    def __init__(
        self, collective: Collective, number: int, plan: Plan, programs: Programs, services: SystemServices
    ) -> None:
        self.collective, self.number, self.plan, self.services = collective, number, plan, services
        self.members = collective.communicator.members
        collective.to_go, collective.unfinished = [1] * len(self.members), len(self.members)
        self.phases = [[*_groups(self, order, phase, programs)] for order, phase in enumerate(plan.phases)]
        self.rows = np.full((len(self.phases), len(self.members), COLUMNS), -1, np.int64)
        self.rows[:, :, 3:] = 0
        self.at_work = [-1] * len(self.members)
        self._of = [{place: group for group in groups for place in group.places} for groups in self.phases]

    @property
    def total(self) -> int:
        """Bytes of all messages."""
        return sum(group.program.total for groups in self.phases for group in groups)

    def enter(self, position: int) -> None:
        """Let a member begin now."""
        self.at_work[position] = 0
        self.advance(position)

    def enter_all(self) -> None:
        """Let all members begin now."""
        for position in range(len(self.members)):
            self.enter(position)

    def ends(self) -> IntArray:
        """Return the end of each member, -1 before."""
        last: IntArray = self.rows[:, :, 2].max(axis=0, initial=-1)
        return np.where(np.array(self.at_work) == len(self.phases), last, -1)

    def advance(self, position: int) -> None:
        """Let a member enter its next phase, or end."""
        phase = self.at_work[position]
        while phase < len(self.phases) and position not in self._of[phase]:
            phase += 1
        self.at_work[position] = phase
        if phase == len(self.phases):
            self.collective.member_finished(position)
            self.collective.chunk_finished(self.services.now())
            return
        self.rows[phase, position, :2] = self.services.now()
        self._of[phase][position].begin(position)

    def ended(self, phase: int, position: int, now: int) -> None:
        """Note that a member has finished its part of a phase."""
        self.rows[phase, position, 2] = now
        self.at_work[position] += 1
        self.advance(position)

    def traffic(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (source, destination, bytes, count) of all messages."""
        for group in (group for groups in self.phases for group in groups):
            program, npus = group.program, group.npus
            sent = program.src != program.dst
            ends = np.stack([program.src[sent], program.dst[sent], program.size[sent]], axis=1)
            for (src, dst, size), count in zip(*np.unique(ends, axis=0, return_counts=True), strict=True):
                yield npus[src], npus[dst], int(size), int(count)

    def stuck(self) -> Iterator[str]:
        """Yield one line for each NPU that waits within a phase."""
        for position, phase in enumerate(self.at_work):
            if 0 <= phase < len(self.phases):
                place = f"phase {phase} ({self.plan.phases[phase].kind}) of the {self.collective.name}"
                npus = self._of[phase][position].missing(position)
                whom = f"for messages from NPU {npus[0]}" if npus else "to send"
                yield f"NPU {self.members[position]} in {place} waits {whom}"


class _Group:
    """The members of one group in a phase. `places`: the position of each rank."""

    def __init__(self, custom: Custom, phase: int, places: list[int], program: Program) -> None:
        self.custom, self.phase, self.places, self.program = custom, phase, places, program
        self.npus = [custom.members[place] for place in places]
        self.rank = {place: rank for rank, place in enumerate(places)}
        self.left = (program.sends + program.receives).tolist()
        self._closed = program.gate_size.tolist()  # per gate: number of missing messages
        self._taken = [0] * program.n
        self._begun = [False] * program.n
        self._ready: list[list[int]] = [
            [] for _ in range(program.n)
        ]  # messages that depend on their rank or window only
        for ptr, ids in ((program.free_ptr, program.free_ids), (program.held_ptr, program.held_ids)):
            for rank in range(program.n):
                self._ready[rank] += ids[ptr[rank] : ptr[rank + 1]].tolist()

    def begin(self, place: int) -> None:
        """Let a member begin."""
        rank = self.rank[place]
        self._begun[rank] = True
        self._send(rank)
        self._check_end(rank, self.custom.services.now())

    def _send(self, rank: int) -> None:
        """Send what is enabled, in the order of the program."""
        need, taken = self.program.need, self._taken[rank]
        leaves = sorted(message for message in self._ready[rank] if need[message] <= taken)
        self._ready[rank] = [message for message in self._ready[rank] if need[message] > taken]
        for message in leaves:
            self._leave(message)

    def _leave(self, message: int) -> None:
        program, services = self.program, self.custom.services
        src, dst = int(program.src[message]), int(program.dst[message])
        if src == dst:
            self.left[src] -= 1
            services.later(int(program.cost[message]), partial(self._take_in, message))
        else:
            arrive = partial(self._arrive, message, services.now())
            services.post(
                self.npus[src], self.npus[dst], int(program.size[message]), self.custom.collective.tag, arrive
            )

    def _arrive(self, message: int, sent: int, now: int) -> None:
        program = self.program
        src, dst, cost = int(program.src[message]), int(program.dst[message]), int(program.cost[message])
        row = self.custom.rows[self.phase, self.places[dst]]
        row[3], row[4] = row[3] + 1, row[4] + now - sent
        self.left[src] -= 1
        if cost:
            self.custom.services.later(cost, partial(self._take_in, message))
        else:
            self._take_in(message, now)
        self._check_end(src, now)

    def _take_in(self, message: int, now: int) -> None:
        program = self.program
        dst = int(program.dst[message])
        self.left[dst] -= 1
        self._taken[dst] += 1
        for gate in program.opens_ids[program.opens_ptr[message] : program.opens_ptr[message + 1]].tolist():
            self._closed[gate] -= 1
            if not self._closed[gate]:
                behind = program.behind_ids[program.behind_ptr[gate] : program.behind_ptr[gate + 1]]
                self._ready[dst] += behind.tolist()
        if self._begun[dst]:
            self._send(dst)
            self._check_end(dst, now)

    def _check_end(self, rank: int, now: int) -> None:
        """End a member that has sent and received everything."""
        if self._begun[rank] and not self.left[rank]:
            self._begun[rank] = False  # only once
            self.custom.ended(self.phase, self.places[rank], now)

    def missing(self, place: int) -> list[int]:
        """Return the NPUs whose messages a member still misses."""
        rank = self.rank[place]
        senders = np.unique(self.program.src[self.program.dst == rank])
        late = [
            sender for sender in senders.tolist() if sender != rank and (self._ready[sender] or not self._begun[sender])
        ]
        return [self.npus[message] for message in late]


def _groups(custom: Custom, order: int, phase: Phase, programs: Programs) -> Iterator[_Group]:
    for places in phase.groups.tolist():
        yield _Group(custom, order, places, programs.get(phase, int(phase.pieces[places[0]]), mirror=False))
