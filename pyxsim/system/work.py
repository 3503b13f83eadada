"""The work of a collective: chunks, their phases, and the groups that carry a phase out.

    Collective -> Chunk -> Stage (one phase of one chunk, over all NPUs) -> GroupTask (one group of it)

An NPU goes from stage to stage as its own data come in. With a system-wide team (ASTRA-sim 1) all NPUs go together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pyxsim.collective.plan import Phase, Plan
from pyxsim.system.lines import Line
from pyxsim.system.program import Program
from pyxsim.topology.topology import Queue

if TYPE_CHECKING:
    from pyxsim.system.system import System


class Collective:
    """One collective operation over all NPUs. `end` is -1 until it is finished; cycles."""

    def __init__(
        self, kind: str, size: int, start: int, priority: int, done: Callable[[Collective], None] | None
    ) -> None:
        self.kind = kind
        self.size = size
        self.start = start
        self.end = -1
        self.priority = priority
        self.done = done
        self.chunks: list[Chunk] = []
        self.unfinished = 0

    def chunk_finished(self, cycle: int) -> None:
        self.unfinished -= 1
        if not self.unfinished:
            self.end = cycle
            if self.done is not None:
                self.done(self)


class Chunk:
    """A part of a collective's data that goes through the phases of its plan."""

    def __init__(self, number: int, collective: Collective, plan: Plan) -> None:
        self.number = number
        self.collective = collective
        self.plan = plan
        self.stages: list[Stage] = []


class Stage:
    """One phase of one chunk. `ready`, `start`, `end`: int64[NPUs], cycles, -1 where it has not happened."""

    def __init__(self, system: System, chunk: Chunk, number: int, phase: Phase, queue: Queue) -> None:
        self.system = system
        self.chunk = chunk
        self.number = number
        self.phase = phase
        self.queue = queue
        self.following: Stage | None = None
        npus = chunk.plan.npus
        self.ready, self.start, self.end = (np.full(npus, -1, dtype=np.int64) for _ in range(3))
        self.tasks: list[GroupTask] = []
        self.task_of: list[GroupTask] = []
        self.ended = 0

    def member_ready(self, npu: int, cycle: int) -> None:
        """An NPU has the data that this phase starts from."""
        self.ready[npu] = cycle
        self.task_of[npu].member_ready(npu)

    def member_ended(self, npu: int, cycle: int) -> None:
        """An NPU has sent and received everything of this phase."""
        self.end[npu] = cycle
        self.ended += 1
        together = self.system.options.together
        if self.following is not None and not together:
            self.following.member_ready(npu, cycle)
        if self.ended < len(self.end):
            return
        if self.following is None:
            self.chunk.collective.chunk_finished(cycle)
        elif together:
            for other in range(len(self.end)):
                self.following.member_ready(other, cycle)


class Team:
    """A task in line (see lines.py): the groups that are admitted together. One group, or all of a stage."""

    def __init__(self, stage: Stage, line: Line, tasks: list[GroupTask], early: bool) -> None:
        self.priority = stage.chunk.collective.priority
        self.live = False
        self.admitted = False
        self.line = line
        self.tasks = tasks
        self.early = early
        self.missing = sum(len(task.members) for task in tasks)
        self.unfinished = self.missing
        self.queued = False
        for task in tasks:
            task.team = self

    def member_ready(self) -> None:
        self.missing -= 1
        self.live = not self.missing
        if self.admitted:
            if self.live:
                self.line.turned_live()
        elif not self.queued and (self.early or self.live):
            self.queued = True
            self.line.join(self)

    def admit(self) -> None:
        for task in self.tasks:
            task.start_ready()

    def member_ended(self) -> None:
        self.unfinished -= 1
        if not self.unfinished:
            self.line.left()
            self.tasks[0].stage.system.serve(self.line)


class GroupTask:
    """One group carries out one phase of one chunk: sends what may be sent, counts what arrives."""

    team: Team

    def __init__(self, stage: Stage, members: list[int], program: Program) -> None:
        self.stage = stage
        self.members = members
        self.rank = {npu: rank for rank, npu in enumerate(members)}
        self.program = program
        self.gates = list(program.gates)
        self.to_send = list(program.sends)
        self.to_receive = list(program.receives)
        self.received = [0] * len(members)
        self.in_hand = [0] * len(members)
        self.started = [False] * len(members)
        # With a window: messages whose data are there, in order, but for which too many are unanswered.
        self.held: list[list[int]] = [[] for _ in members]
        # Messages that came before their receiver had started.
        self.early: dict[int, list[int]] = {}
        if program.need is not None:
            gated = {m for behind in program.behind for m in behind}
            for m, src in enumerate(program.src):
                if program.need[m] and m not in gated:
                    self.held[src].append(m)

    def member_ready(self, npu: int) -> None:
        team = self.team
        team.member_ready()
        if team.admitted:
            self._start(self.rank[npu])
        self.stage.system.serve(team.line)

    def start_ready(self) -> None:
        for rank, npu in enumerate(self.members):
            if self.stage.ready[npu] >= 0 and not self.started[rank]:
                self._start(rank)

    def _start(self, rank: int) -> None:
        system, npu = self.stage.system, self.members[rank]
        self.started[rank] = True
        self.stage.start[npu] = system.cycle
        if not self.to_send[rank] and not self.to_receive[rank]:
            self._check_end(rank)  # nothing to do for this NPU: its piece has no bytes
            return
        if self.program.free[rank]:
            system.after(system.options.endpoint_delay, lambda: self._send_all(self.program.free[rank]))
        for message in self.early.pop(rank, ()):
            system.handed_over(self, message)

    def arrived(self, message: int) -> None:
        """A message is at its receiver's interface."""
        rank = self.program.dst[message]
        if self.started[rank]:
            self.stage.system.handed_over(self, message)
        else:
            self.early.setdefault(rank, []).append(message)

    def count_handed_over(self, message: int) -> int:
        """How many messages the receiver of this one has taken in hand before it."""
        rank = self.program.dst[message]
        self.in_hand[rank] += 1
        return self.in_hand[rank] - 1

    def taken_in(self, message: int) -> None:
        """The receiver has taken the message in (and reduced it): what waited for it may go."""
        program = self.program
        rank = program.dst[message]
        self.to_receive[rank] -= 1
        self.received[rank] += 1
        for gate in program.opens[message]:
            self.gates[gate] -= 1
            if not self.gates[gate]:
                self._may_leave(program.behind[gate])
        if self.held[rank]:
            self._send_held(rank)
        self._check_end(rank)

    def _may_leave(self, messages: list[int]) -> None:
        need = self.program.need
        if need is None:
            self._send_all(messages)
            return
        for message in messages:
            src = self.program.src[message]
            if need[message] <= self.received[src]:
                self._send_all([message])
            else:
                self.held[src].append(message)

    def _send_held(self, rank: int) -> None:
        need = self.program.need or []
        ready = [message for message in self.held[rank] if need[message] <= self.received[rank]]
        if ready:
            self.held[rank] = [message for message in self.held[rank] if message not in ready]
            self._send_all(ready)

    def _send_all(self, messages: list[int]) -> None:
        program, members, system = self.program, self.members, self.stage.system
        plane = self.stage.queue.plane
        for message in messages:
            src = program.src[message]
            system.send(self, message, members[src], members[program.dst[message]], program.size[message], plane)
            self.to_send[src] -= 1
        for src in {program.src[message] for message in messages}:
            self._check_end(src)

    def _check_end(self, rank: int) -> None:
        if not self.to_send[rank] and not self.to_receive[rank]:
            self.to_receive[rank] = -1  # once only
            self.stage.member_ended(self.members[rank], self.stage.system.cycle)
            self.team.member_ended()
