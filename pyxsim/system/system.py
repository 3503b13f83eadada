"""The system layer's clock and hands: issues collectives, keeps the queues, talks to the network."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.collective.plan import Phase, Plan, dimension_order, make_plan
from pyxsim.collective.sizes import chunk_sizes
from pyxsim.collective.themis import Themis
from pyxsim.errors import InputError, SimulationError
from pyxsim.network.protocol import Network
from pyxsim.system.lines import Line
from pyxsim.system.options import Options
from pyxsim.system.program import Programs
from pyxsim.system.work import Chunk, Collective, GroupTask, Stage, Team

MOST_BYTES = 2**62


class System:
    """Carries out collectives on a network of the given shape (NPUs per dimension, the first counts fastest)."""

    def __init__(self, network: Network, shape: Sequence[int], options: Options) -> None:
        self.network = network
        self.shape = tuple(shape)
        self.options = options
        self.cycle = 0
        self.collectives: list[Collective] = []
        self.bytes_planned = 0
        self._programs = Programs()
        self._lines: dict[tuple[tuple[int, ...], int, int], Line] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._messages: dict[int, tuple[GroupTask, int]] = {}
        self._turn = [0] * len(self.shape)  # next queue of each dimension
        self._chunks = 0

    # -- collectives --

    def issue(self, kind: str, size: int, at: int = 0, done: Callable[[Collective], None] | None = None) -> Collective:
        """A collective over all NPUs whose data are there in cycle `at`. `done` is called in the cycle of its end.

        Raises InputError where there is no plan for it, or more bytes than can be counted.
        """
        if size * self.network.npus > MOST_BYTES:
            raise InputError(
                f"{kind} of {size} bytes on {self.network.npus} NPUs is more than can be counted",
                key="collective.size",
                allowed=f"at most {MOST_BYTES} bytes over all NPUs",
            )
        number = len(self.collectives)
        collective = Collective(kind, size, at, number if self.options.newest_first else -number, done)
        self.collectives.append(collective)
        themis = Themis(self.shape, self.options.bandwidths)
        for chunk_size in chunk_sizes(size, self.options.chunks):
            self._add_chunk(collective, self._plan(kind, chunk_size, themis))
        collective.unfinished = len(collective.chunks)
        self.at(at, lambda: self._begin(collective))
        return collective

    def _plan(self, kind: str, size: int, themis: Themis) -> Plan:
        """The phases that the next chunk, of `size` bytes, goes through."""
        options = self.options
        optimization = options.optimization
        if options.inter_dimension == "themis":
            order, optimization = themis.order(kind, size), "themis"
        else:
            order = dimension_order(options.inter_dimension, kind, len(self.shape), self._chunks)
        algorithms = options.algorithms(kind)
        key = f"system.{kind.replace('-', '_')}"
        return make_plan(kind, size, self.shape, algorithms, optimization=optimization, order=order, key=key)

    def _add_chunk(self, collective: Collective, plan: Plan) -> None:
        chunk = Chunk(len(collective.chunks), collective, plan)
        self._chunks += 1
        collective.chunks.append(chunk)
        for number, phase in enumerate(chunk.plan.phases):
            dim = phase.dims[0]
            queues = self.options.queues[dim]
            if self.options.by_turns:
                place = self._turn[dim]
                self._turn[dim] = (place + 1) % len(queues)
            else:
                place = chunk.number % len(queues)
            stage = Stage(self, chunk, number, phase, queues[place])
            self._add_tasks(stage, place)
            if chunk.stages:
                chunk.stages[-1].following = stage
            chunk.stages.append(stage)

    def _add_tasks(self, stage: Stage, place: int) -> None:
        phase = stage.phase
        mirror = stage.queue.direction < 0
        stage.task_of = [None] * len(stage.end)  # type: ignore[list-item]
        pieces = phase.pieces
        for group in phase.groups.tolist():
            program = self._programs.get(phase, int(pieces[group[0]]), mirror=mirror)
            task = GroupTask(stage, group, program)
            self.bytes_planned += program.total
            stage.tasks.append(task)
            for npu in group:
                stage.task_of[npu] = task
        if self.options.together:
            Team(stage, self._line(phase, place, -1), stage.tasks, early=False)
        else:
            for number, task in enumerate(stage.tasks):
                Team(stage, self._line(phase, place, number), [task], early=True)

    def _line(self, phase: Phase, place: int, group: int) -> Line:
        key = (phase.dims, place, group)
        if key not in self._lines:
            self._lines[key] = Line(self.options.room[phase.dims[0]])
        return self._lines[key]

    def _begin(self, collective: Collective) -> None:
        for chunk in collective.chunks:
            if not chunk.stages:  # one NPU: nothing to do
                collective.chunk_finished(self.cycle)
            for npu in range(len(chunk.stages[0].end) if chunk.stages else 0):
                chunk.stages[0].member_ready(npu, self.cycle)

    def serve(self, line: Line) -> None:
        """Let a line admit whom it can."""
        line.serve()

    # -- time and messages --

    def at(self, cycle: int, action: Callable[[], None]) -> None:
        """Do something in a cycle to come; things of one cycle are done in the order in which they were asked for."""
        heapq.heappush(self._events, (cycle, next(self._numbers), action))

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """The same in `delay` cycles; at once without a delay."""
        if delay:
            self.at(self.cycle + delay, action)
        else:
            action()

    def send(self, task: GroupTask, message: int, src: int, dst: int, size: int, plane: int) -> None:
        number = self.network.send(src, dst, size, plane=plane, at=self.cycle)
        self._messages[number] = (task, message)

    def handed_over(self, task: GroupTask, message: int) -> None:
        """The endpoint takes a message in: after its delay, and that of the reduction."""
        delay = self.options.endpoint_delay
        if self.options.reduces(task, message, task.count_handed_over(message)):
            delay += self.options.reduction_delay
        self.after(delay, lambda: task.taken_in(message))

    def run(self) -> int:
        """Carry out everything that was issued; returns the cycle in which the last collective ended.

        Raises SimulationError when that can never happen, and what the network raises.
        """
        events, network = self._events, self.network
        while True:
            until = events[0][0] if events else None
            arrived, _ = network.advance(until)
            if len(arrived):
                self.cycle = network.now
                for number in arrived.tolist():
                    task, message = self._messages.pop(number)
                    task.arrived(message)
            elif until is None:
                break
            else:
                self.cycle = until
            while events and events[0][0] <= self.cycle:
                heapq.heappop(events)[2]()
        for collective in self.collectives:
            if collective.end < 0:
                raise SimulationError(f"the {collective.kind} of {collective.size} bytes never ends: {self._stuck()}")
        return max((collective.end for collective in self.collectives), default=0)

    def _stuck(self) -> str:
        for stage in self.stages():
            if (stage.end < 0).any():
                npu = int(np.argmax(stage.end < 0))
                return f"chunk {stage.chunk.number}, phase {stage.number} ({stage.phase.kind}), NPU {npu}"
        return "nothing is left to do"

    def stages(self) -> Iterator[Stage]:
        """Every phase of every chunk of every collective, in order of issue."""
        for collective in self.collectives:
            for chunk in collective.chunks:
                yield from chunk.stages

    # -- what there is to see --

    def pairs(self) -> NDArray[np.int64]:
        """Rows (source, destination, plane): everything that the issued collectives send, for the deadlock proof."""
        found: set[tuple[int, int, int]] = set()
        seen: set[Any] = set()
        for stage in self.stages():
            for task in stage.tasks:
                key = (id(task.program), stage.queue.plane, tuple(task.members))
                if key in seen:
                    continue
                seen.add(key)
                ends = zip(task.program.src, task.program.dst, strict=True)
                found.update((task.members[a], task.members[b], stage.queue.plane) for a, b in set(ends))
        return np.array(sorted(found), dtype=np.int64).reshape(-1, 3)

    def chunk_table(self) -> dict[str, NDArray[np.int64]]:
        """One row per chunk, phase and rank: the columns of /chunks. `chunk` counts over all collectives."""
        columns: dict[str, list[Any]] = {
            name: [] for name in ("chunk", "phase", "rank", "dimension", "bytes", "ready", "start", "end")
        }
        number = 0
        for collective in self.collectives:
            for chunk in collective.chunks:
                for stage in chunk.stages:
                    npus = len(stage.end)
                    dim = stage.phase.dims[0] if len(stage.phase.dims) == 1 else -1
                    columns["chunk"].append(np.full(npus, number))
                    columns["phase"].append(np.full(npus, stage.number))
                    columns["rank"].append(np.arange(npus))
                    columns["dimension"].append(np.full(npus, dim))
                    columns["bytes"].append(stage.phase.bytes_in)
                    columns["ready"].append(stage.ready)
                    columns["start"].append(stage.start)
                    columns["end"].append(stage.end)
                number += 1
        empty = np.zeros(0, dtype=np.int64)
        return {name: np.concatenate([empty, *parts]).astype(np.int64) for name, parts in columns.items()}
