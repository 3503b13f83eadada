"""Real data (`--carry`): every message carries bytes, and the final data of all NPUs are compared with numpy's result.

The system layer logs its messages. The carrier replays the log in batches while the simulation runs: a message takes
the blocks that its sender has when it leaves, and they are stored or added (mod 256) in the order in which receivers
take messages in. So the final data of an NPU depend on the timing of the network as much as on the schedule. The
expected result is computed from the same random bytes without any schedule.

Each chunk is a collective of its own, on its slice of the data. Between two phases an NPU holds an array of rows: in an
all-to-all one for every source whose data it has, else a single one. A barrier has no data; its row for every NPU says
whether news of it has arrived, and adding merges this knowledge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from pyxsim.collective.arrays import I64, pointers
from pyxsim.collective.compiled import CompiledSchedule
from pyxsim.collective.plan import Phase, Plan, cut, whole_bytes
from pyxsim.collective.plan_checker import final_pieces
from pyxsim.collective.schedule import ScheduleError
from pyxsim.errors import InputError

MOST_BYTES = 2**31
LEFT, TAKEN_IN = 0, 1  # the first column of the log

Bytes = NDArray[np.uint8]  # [rows, bytes]
Cells = dict[int, Bytes]


class Communicator(Protocol):
    """NPUs in the order of their positions."""

    @property
    def members(self) -> Sequence[int]: ...


class Collective(Protocol):
    """A collective with its members and chunks. `end`: -1 until it has ended."""

    @property
    def name(self) -> str: ...
    @property
    def end(self) -> int: ...
    @property
    def communicator(self) -> Communicator: ...
    @property
    def chunks(self) -> Sequence[Chunk]: ...


class Chunk(Protocol):
    """A part of it, with a plan of its own. `number`: within the collective."""

    @property
    def number(self) -> int: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def collective(self) -> Collective: ...


class ChunkPhase(Protocol):
    """Phase `number` of a chunk."""

    @property
    def number(self) -> int: ...
    @property
    def chunk(self) -> Chunk: ...


class Task(Protocol):
    """The part of one group in a chunk phase: the position of each rank, and the schedule. Point-to-point messages have
    no stage and are skipped."""

    @property
    def stage(self) -> ChunkPhase: ...
    @property
    def positions(self) -> Sequence[int]: ...
    @property
    def schedule(self) -> CompiledSchedule: ...


class Source(Protocol):
    """The system layer: tasks by their numbers in the log, and all issued collectives."""

    @property
    def tasks(self) -> Sequence[Any]: ...
    @property
    def collectives(self) -> Sequence[Collective]: ...


class DataCarrier:
    """Carries the data of all collectives of a system layer. Raises InputError if they are too large, or none."""

    def __init__(self, source: Source, seed: int = 0) -> None:
        self.source = source
        self.seed = seed
        self._chunks: dict[Chunk, _Data] = {}
        self._tasks: dict[int, _Group] = {}
        self._scripts: dict[CompiledSchedule, _Script] = {}
        self._numbers: dict[Collective, int] = {}
        self._compared: set[int] = set()  # numbers of collectives
        self._bytes = 0
        self._reserve()

    def feed(self, log: NDArray[np.int64]) -> None:
        """Replay the next rows (LEFT or TAKEN_IN, task, message). Raises ScheduleError for impossible ones."""
        self._reserve()
        ended: list[Collective] = []
        for event, number, message in log.tolist():
            group = self._tasks.get(number)
            if group is None:
                task = self.source.tasks[number]
                if not hasattr(task, "stage"):
                    continue
                group = self._tasks[number] = self._group(task)
            if event == LEFT:
                group.left(message)
                continue
            group.taken_in(message)
            if group.is_complete and group.data.chunk.collective.end >= 0:
                ended.append(group.data.chunk.collective)
        for collective in ended:
            self._compare(collective)

    def finish(self) -> None:
        """Compare the final data of every NPU. Raises ScheduleError with NPU, chunk and first wrong byte."""
        self._reserve()
        for collective in self.source.collectives:
            self._compare(collective)

    @property
    def bytes_held(self) -> int:
        """Bytes of the buffers of all collectives that have not ended."""
        return self._bytes

    def _compare(self, collective: Collective) -> None:
        """Compare the data of a collective that has ended, and free them."""
        number = self._numbers[collective]
        if number in self._compared:
            return
        chunks = set(collective.chunks)
        groups = [task for task, group in self._tasks.items() if group.data.chunk in chunks]
        for task in groups:
            self._tasks.pop(task).check_complete()
        for chunk in collective.chunks:
            self._data(chunk).compare()
            del self._chunks[chunk]
            self._bytes -= _buffer_bytes(chunk.plan)
        self._compared.add(number)

    def _reserve(self) -> None:
        """Count the buffers of newly issued collectives."""
        collectives = self.source.collectives
        for number in range(len(self._numbers), len(collectives)):
            collective = collectives[number]
            self._numbers[collective] = number
            for chunk in collective.chunks:
                self._bytes += _buffer_bytes(chunk.plan)
                for phase in chunk.plan.phases:
                    schedule = phase.schedule()
                    if schedule.given_bytes is not None:
                        why = schedule.unproved or "its messages have sizes, but no data"
                        raise InputError(f"{schedule} has no data to carry: {why}", key="output.carry", allowed="false")
        if self._bytes > MOST_BYTES:
            raise InputError(
                f"the data of all NPUs have {self._bytes} bytes",
                key="output.carry",
                allowed=f"at most {MOST_BYTES} bytes, or false",
            )

    def _data(self, chunk: Chunk) -> _Data:
        number = self._numbers[chunk.collective]
        if number in self._compared:
            raise ScheduleError(
                f"{chunk.collective.name}, chunk {chunk.number}: a message leaves after the end of the chunk"
            )
        if chunk not in self._chunks:
            self._chunks[chunk] = _Data(chunk, [self.seed, number, chunk.number])
        return self._chunks[chunk]

    def _group(self, task: Task) -> _Group:
        schedule = task.schedule
        if schedule not in self._scripts:
            self._scripts[schedule] = _Script(schedule)
        return _Group(task, self._scripts[schedule], self._data(task.stage.chunk))


def _buffer_bytes(plan: Plan) -> int:
    """Maximum number of bytes that all NPUs hold together."""
    if plan.kind == "barrier":
        return plan.npus**2
    held = [int(phase_bytes.sum()) for phase in plan.phases for phase_bytes in (phase.bytes_in, phase.bytes_out)]
    return max(held, default=plan.size * plan.npus)


class _Script:
    """A schedule as lists: the cells that its messages read and write."""

    def __init__(self, schedule: CompiledSchedule) -> None:
        s = schedule
        self.schedule = s
        self.src: list[int] = s.src.tolist()
        self.dst: list[int] = s.dst.tolist()
        self.reduce: list[bool] = s.reduce.tolist()
        self.join: list[int] = s.join.tolist()
        ptr = s.block_ptr.tolist()
        cells, puts = s.block_ids.tolist(), s.put_ids.tolist()
        self.cells = [cells[ptr[m] : ptr[m + 1]] for m in range(len(s))]
        self.puts = [puts[ptr[m] : ptr[m + 1]] for m in range(len(s))]
        self.joined: dict[int, list[int]] = {}
        for m in np.flatnonzero(s.join >= 0).tolist():
            self.joined.setdefault(self.join[m], []).append(m)
        self._sizes: dict[tuple[int, int], list[int]] = {}

    def sizes(self, phase: Phase, position: int) -> list[int]:
        """Bytes per row of each message, in the group of a position."""
        key = int(phase.pieces[position]), phase.copies
        if key not in self._sizes:
            sizes = self.schedule.message_bytes(phase.block_sizes(key[0]))
            self._sizes[key] = (sizes // phase.copies).tolist()
        return self._sizes[key]


class _Group:
    """A group that carries out a chunk phase, with the messages in flight and their data."""

    def __init__(self, task: Task, script: _Script, data: _Data) -> None:
        self.script = script
        self.data = data
        self.stage = task.stage.number
        self.positions = list(task.positions)
        self.sizes = script.sizes(data.plan.phases[self.stage], self.positions[0])
        self.sent: set[int] = set()  # messages that have been sent
        self.in_flight: dict[int, list[Bytes]] = {}
        self.summed: set[int] = set()  # joins that the network has reduced

    def left(self, message: int) -> None:
        script = self.script
        if message in self.sent:
            raise self._fault(message, "leaves twice")
        self.sent.add(message)
        rank = script.src[message]
        held = self.data.cells_of(self.positions[rank], self.stage)
        for cell in script.cells[message]:
            if cell not in held:
                raise self._fault(message, f"carries block {cell}, which rank {rank} does not have")
        # Arrays are replaced, never modified, so data in flight stay unchanged.
        self.in_flight[message] = [held[cell] for cell in script.cells[message]]
        count = sum(cell.shape[1] for cell in self.in_flight[message])
        if count != self.sizes[message]:
            raise self._fault(message, f"carries {count} bytes instead of {self.sizes[message]}")

    def taken_in(self, message: int) -> None:
        script = self.script
        if message not in self.in_flight:
            raise self._fault(
                message, "is received a second time" if message in self.sent else "is received before it is sent"
            )
        join = script.join[message]
        if join >= 0 and join not in self.summed:
            self._sum(join)
        rank = script.dst[message]
        held = self.data.cells_of(self.positions[rank], self.stage)
        for cell, new in zip(script.puts[message], self.in_flight.pop(message), strict=True):
            if not script.reduce[message]:
                held[cell] = new
            elif cell in held and held[cell].shape == new.shape:
                held[cell] = self.data.add(held[cell], new)
            else:
                raise self._fault(message, f"adds to block {cell}, which rank {rank} does not have")

    def _sum(self, join: int) -> None:
        """Reduce the messages of a join in the network; each of them delivers the sum."""
        messages = self.script.joined[join]
        for message in messages:
            if message not in self.in_flight:
                raise self._fault(message, "has not left when its join is delivered")
        total = self.in_flight[messages[0]]
        for message in messages[1:]:
            total = [self.data.add(*both) for both in zip(total, self.in_flight[message], strict=True)]
        self.in_flight.update(dict.fromkeys(messages, total))
        self.summed.add(join)

    @property
    def is_complete(self) -> bool:
        """Whether all messages were sent and taken in."""
        return not self.in_flight and len(self.sent) == len(self.script.src)

    def check_complete(self) -> None:
        """Raise ScheduleError unless all messages were sent and taken in."""
        if self.in_flight:
            raise self._fault(min(self.in_flight), "is never received")
        if len(self.sent) < len(self.script.src):
            raise self._fault(min(set(range(len(self.script.src))) - self.sent), "never leaves")

    def _fault(self, message: int, problem: str) -> ScheduleError:
        script = self.script
        src, dst = script.src[message], script.dst[message]
        step = int(script.schedule.order[message])
        what = f"step {step} of rank {src} ({'local' if src == dst else f'-> {dst}'}) of {script.schedule}"
        return ScheduleError(f"{self.data.name}, phase {self.stage}: {what} {problem}", rank=src, step=step)


@dataclass
class _Held:
    """Data of a chunk at an NPU: rows of bytes from `first` on between phases, cells within one. `stage`: its phase."""

    first: int
    rows: Bytes
    stage: int = -1
    cells: Cells | None = None


class _Data:
    """The data of one chunk on all NPUs."""

    def __init__(self, chunk: Chunk, seed: list[int]) -> None:
        self.chunk = chunk
        self.plan = chunk.plan
        self.seed = seed
        self.name = f"{chunk.collective.name}, chunk {chunk.number}"
        self.layouts = [_layout(phase, phase.schedule()) for phase in self.plan.phases]
        self.add: Callable[[Bytes, Bytes], Bytes] = np.maximum if self.plan.kind == "barrier" else np.add
        first, size = final_pieces(self.plan)
        self.own = list(
            zip(first.tolist(), size.tolist(), strict=True)
        )  # first byte and bytes of each position's piece
        self.held = [self._at_start(position) for position in range(self.plan.npus)]

    # -- initial and expected data --

    def initial(self, position: int) -> Bytes:
        """Return the input of a position, reproducibly."""
        if self.plan.kind == "barrier":
            heard = np.zeros((self.plan.npus, 1), dtype=np.uint8)
            heard[position] = 1
            return heard
        size = self.own[position][1] if self.plan.kind in ("all-gather", "gather") else self.plan.size
        return np.random.default_rng([*self.seed, position]).integers(0, 256, (1, size), dtype=np.uint8)

    def _at_start(self, position: int) -> _Held:
        if self.plan.kind in ("broadcast", "scatter") and position != self.plan.root:
            return _Held(0, np.zeros((1, 0), dtype=np.uint8))
        first = self.own[position][0] if self.plan.kind in ("all-gather", "gather") else 0
        return _Held(first, self.initial(position))

    def expected(self) -> list[Bytes | None]:
        """Return the expected data of every position, computed directly; None: not defined."""
        plan = self.plan
        everybody = range(plan.npus)
        if plan.kind == "barrier":
            return [np.ones((plan.npus, 1), dtype=np.uint8)] * plan.npus
        if plan.kind == "all-to-all":
            rows = self._sources()
            sent = np.concatenate([self.initial(source) for source in rows])
            return [sent[:, first : first + size] for first, size in self.own]
        if plan.kind in ("all-reduce", "reduce-scatter", "reduce"):
            whole = np.zeros((1, plan.size), dtype=np.uint8)
            for position in everybody:
                whole += self.initial(position)
        elif plan.kind in ("all-gather", "gather"):
            whole = np.zeros((1, whole_bytes(plan.kind, plan.size, plan.npus)), dtype=np.uint8)
            for position, (first, size) in enumerate(self.own):
                whole[:, first : first + size] = self.initial(position)
        else:
            whole = self.initial(plan.root)
        if plan.kind in ("reduce-scatter", "scatter"):
            return [whole[:, first : first + size] for first, size in self.own]
        only_root = plan.kind in ("reduce", "gather")
        return [None if only_root and position != plan.root else whole for position in everybody]

    def _sources(self) -> list[int]:
        """Sources of the rows of an NPU after an all-to-all; the last phase varies slowest."""
        row, weight = np.zeros(self.plan.npus, dtype=np.int64), 1
        for phase in self.plan.phases:
            row += phase.ranks * weight
            weight *= phase.npus
        return cast(list[int], np.argsort(row).tolist())

    def compare(self) -> None:
        for position, expected in enumerate(self.expected()):
            npu = self.chunk.collective.communicator.members[position]
            self._advance(position, len(self.layouts))
            held_rows = self.held[position].rows
            if expected is None:
                continue
            if held_rows.shape != expected.shape:
                problem = f"NPU {npu} ends with {held_rows.size} bytes instead of {expected.size}"
                raise ScheduleError(f"{self.name}: {problem}", rank=npu)
            if not np.array_equal(held_rows, expected):
                byte = int(np.argmax((held_rows != expected).ravel()))
                values = f"{held_rows.ravel()[byte]} instead of {expected.ravel()[byte]}"
                raise ScheduleError(f"{self.name}: NPU {npu} ends with a wrong byte {byte}: {values}", rank=npu)

    # -- from phase to phase --

    def cells_of(self, position: int, stage: int) -> Cells:
        """Return the cells of a position in a phase. Raises ScheduleError if it has already left it."""
        held = self.held[position]
        if held.stage > stage:
            npu = self.chunk.collective.communicator.members[position]
            problem = f"NPU {npu} entered phase {held.stage} before the end of phase {stage}"
            raise ScheduleError(f"{self.name}: {problem}", rank=npu)
        self._advance(position, stage)
        if held.cells is None:
            held.cells = self.layouts[stage].cells(position, held)
        return held.cells

    def _advance(self, position: int, stage: int) -> None:
        """Advance a position to phase `stage`, through those in which it takes no part."""
        held = self.held[position]
        while held.stage < stage:
            if held.stage >= 0:
                layout = self.layouts[held.stage]
                cells = layout.cells(position, held) if held.cells is None else held.cells
                self._finish_phase(position, layout, cells)
            held.stage += 1
            held.cells = None

    def _finish_phase(self, position: int, layout: _Layout, cells: Cells) -> None:
        held = self.held[position]
        goals = layout.goals(position)
        ends = layout.ends(position)
        for block in goals:
            if block not in cells:
                if ends[block % layout.width] == ends[block % layout.width + 1]:  # empty blocks are not sent
                    cells[block] = held.rows[:, :0]
                    continue
                npu = self.chunk.collective.communicator.members[position]
                problem = f"NPU {npu} ends phase {held.stage} without block {block}"
                raise ScheduleError(f"{self.name}: {problem}", rank=npu, block=block)
        if layout.takes_part[position]:
            held.first, held.rows = layout.rows(position, [cells[block] for block in goals])


class _Layout:
    """Positions of the blocks of a phase in the data of NPUs."""

    def __init__(self, phase: Phase, schedule: CompiledSchedule) -> None:
        self.phase = phase
        self.schedule = schedule
        self.base = cut(phase.shape, phase.cuts, phase.whole)[0]
        self.takes_part = np.zeros(len(self.base), dtype=bool)
        self.takes_part[phase.groups] = True
        # In an all-to-all, the blocks of one source are what is cut.
        self.width = self.schedule.blocks // (phase.npus if self.schedule.kind.homes == 2 else 1)
        self._begins: dict[int, I64] = {}  # by the bytes of a piece, which have few values
        ranks = range(phase.npus)
        self._starts: list[list[int]] = [[] for _ in ranks]
        self._goals: list[list[int]] = [[] for _ in ranks]
        for block in range(self.schedule.blocks):
            for rank in self.schedule.starts(block):
                self._starts[rank].append(block)
            for rank in self.schedule.goals(block):
                self._goals[rank].append(block)

    def ends(self, position: int) -> I64:
        """Offsets of the blocks of one source, from the first byte of the chunk."""
        phase = self.phase
        piece = int(phase.pieces[position])
        if piece not in self._begins:
            self._begins[piece] = pointers(phase.block_sizes(piece)[: self.width] // phase.copies)
        return cast(I64, self._begins[piece] + self.base[position])

    def cells(self, position: int, held: _Held) -> Cells:
        """Return the cells of a position at the beginning of the phase."""
        if not self.takes_part[position]:
            return {}
        ends = (self.ends(position) - held.first).tolist()
        blocks = self._starts[self.phase.ranks[position]]
        return {b: held.rows[:, ends[b % self.width] : ends[b % self.width + 1]] for b in blocks}

    def goals(self, position: int) -> list[int]:
        """Return the blocks that a position has after the phase."""
        return self._goals[self.phase.ranks[position]] if self.takes_part[position] else []

    def rows(self, position: int, blocks: list[Bytes]) -> tuple[int, Bytes]:
        """Return the first byte and the rows of a position after the phase, from the blocks of `goals`."""
        goals = self.goals(position)
        if not goals:
            return 0, np.zeros((1, 0), dtype=np.uint8)
        first = int(self.ends(position)[goals[0] % self.width])
        sources: dict[int, list[Bytes]] = {}
        for block, data in zip(goals, blocks, strict=True):
            sources.setdefault(block // self.width, []).append(data)
        return first, np.concatenate([np.concatenate(parts, axis=1) for parts in sources.values()])


@lru_cache(maxsize=64)
def _layout(phase: Phase, schedule: CompiledSchedule) -> _Layout:
    # The schedule is part of the key: a file of the same name may change.
    return _Layout(phase, schedule)
