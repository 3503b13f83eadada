"""From a program to the messages of a schedule and their waits.

The threads are executed without time, one step at a time in turns, as far as they can proceed. That is the order of the
schedule: messages that may leave at the same time do so as if the threads ran in parallel. Each message and each local
step waits for everything that its thread has waited for so far.

A message is taken in when it arrives, whatever its receiver is doing. To keep it from overwriting data in use, every
value gets a cell of its own: a receive writes a fresh cell, which then stands for the place in the program; a reduction
adds the old value to the fresh one. At the end `place_final_blocks` moves the blocks to their cells.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

from pyxsim.collective.arrays import I32
from pyxsim.collective.compiled import CompiledSchedule, StepOrigin
from pyxsim.collective.custom.program import MANY, SHOWN, Instruction, Link, Program, shorter
from pyxsim.collective.custom.vector_clocks import Use, VectorClocks
from pyxsim.collective.explicit_messages import Message, compile_messages
from pyxsim.collective.schedule import ScheduleError

Waits = tuple[int, ...]


class _Value(NamedTuple):
    """Data: their cell, and the block that they belong to."""

    cell: int
    block: int


class _Past(NamedTuple):
    """What is known after a wait: events and clock."""

    waits: Waits
    clock: I32 | None


class _Sent(NamedTuple):
    """A message not yet received: its number, its data at the receiver, and the step that sent it."""

    event: int
    values: list[_Value]
    past: _Past
    by: Use


def compile_program(program: Program, algorithm: str) -> CompiledSchedule:
    """Return the schedule of a program. Raises ScheduleError if it deadlocks, reads empty places, or has a race."""
    run = _Run(program, algorithm)
    run.run()
    return run.finish()


class _Run:
    """Executes a program."""

    def __init__(self, program: Program, algorithm: str) -> None:
        self.program = program
        self.algorithm = algorithm
        self.title = f"{algorithm} {program.kind.name} on {program.n} ranks"
        self.threads = program.threads
        self.at = [0] * len(self.threads)  # the next step of each thread
        self.waits: list[Waits] = [()] * len(self.threads)  # events at its rank before that step
        self.held = [
            {place: _Value(block, block) for place, block in layout.starts.items()} for layout in program.layouts
        ]
        self.cells = [program.blocks] * program.n  # how many cells each rank uses
        self.events: list[Message] = []
        self.links: defaultdict[Link, deque[_Sent]] = defaultdict(deque)
        self.taken: defaultdict[Link, int] = defaultdict(int)  # messages received on each link
        self.asleep: defaultdict[Link | int, list[int]] = defaultdict(list)  # by the link or the thread they wait for
        self.awaited = {
            (self._other(number, each), step)
            for number, thread in enumerate(self.threads)
            for instruction in thread.steps
            for each, step in instruction.after
        }
        self.past: dict[tuple[int, int], _Past] = {}  # known after steps that others wait for
        several = len({thread.rank for thread in self.threads}) < len(self.threads)
        self.clocks = VectorClocks(len(self.threads)) if several else None

    def run(self) -> None:
        """Execute every step. Raises ScheduleError where that is impossible."""
        ready = deque(range(len(self.threads)))
        while ready:
            thread = ready.popleft()
            use = Use(thread, self.at[thread])
            if use.step == len(self.threads[thread].steps):
                continue
            missing = self._missing(thread)
            if missing is not None:
                self.asleep[missing].append(thread)
                continue
            link = self._execute(thread, self._step(thread))
            if use in self.awaited:
                ready.extend(self.asleep.pop(thread, ()))
            if link is not None:
                ready.extend(self.asleep.pop(link, ()))
            ready.append(thread)
        for number, step in enumerate(self.at):
            if step < len(self.threads[number].steps):
                self._refuse(Use(number, step), self._why(number))
        for link, messages in self.links.items():
            if messages:
                self._refuse(messages[0].by, f"sends a message that rank {link[1]} never receives")

    def _step(self, thread: int) -> Instruction:
        return self.threads[thread].steps[self.at[thread]]

    def _other(self, thread: int, number: int) -> int:
        """A thread of the same rank, by its number in the rank."""
        return self.program.first[self.threads[thread].rank] + number

    def _missing(self, thread: int) -> Link | int | None:
        """What the next step of a thread waits for: a message on a link, another thread, or nothing."""
        for number, needed in self._step(thread).after:
            if self.at[other := self._other(thread, number)] <= needed:
                return other
        link = self._incoming(thread)
        return None if link is None or self.links[link] else link

    def _incoming(self, thread: int) -> Link | None:
        """The link on which the next step of a thread receives."""
        receive = self._step(thread).receive
        return None if receive is None else (receive[0], self.threads[thread].rank, receive[1])

    def _execute(self, thread: int, step: Instruction) -> Link | None:
        """Execute the next step of a thread; return the link on which it sent."""
        rank, use = self.threads[thread].rank, Use(thread, self.at[thread])
        for number, needed in step.after:
            self._learn(thread, self.past[self._other(thread, number), needed])
        incoming = self._incoming(thread)
        if incoming is not None:
            values = self._receive(use, incoming, step)
        else:
            values = [self._read(use, rank, place) for place in step.reads]
            if step.adds:
                old = [self._read(use, rank, place) for place in step.writes]
                total = self._fresh(rank, old)
                self._local(use, rank, old, total)
                self._local(use, rank, values, total, reduce=True)
                values = total
        link = None if step.send is None else self._send(use, (rank, *step.send), values)
        for place, value in zip(step.writes, values if step.writes else (), strict=True):
            self._write(use, rank, place, value)
        if len(self.waits[thread]) > MANY:
            self._local(use, rank, [], [])
        self.at[thread] += 1
        if self.clocks is not None:
            self.clocks.over(*use)
        if use in self.awaited:
            self.past[use] = self._now(thread)
        return link

    def _now(self, thread: int) -> _Past:
        return _Past(self.waits[thread], None if self.clocks is None else self.clocks.now(thread))

    def _learn(self, thread: int, past: _Past) -> None:
        """Add what a wait has revealed to the thread."""
        self.waits[thread] = tuple(dict.fromkeys(self.waits[thread] + past.waits))
        if self.clocks is not None and past.clock is not None:
            self.clocks.learn(thread, past.clock)

    def _receive(self, use: Use, link: Link, step: Instruction) -> list[_Value]:
        """Take a message from a link and add what the step reads."""
        sent = self.links[link].popleft()
        self.taken[link] += 1
        self._learn(use.thread, sent.past)
        if len(sent.values) != step.width:
            problem = f"receives {step.width} blocks of rank {link[0]}, but {len(sent.values)} arrive"
            self._refuse(use, f"{problem}, from {self._name(sent.by)}")
        if step.reads:
            self.events[sent.event] = self.events[sent.event]._replace(summed=True)
            own = [self._read(use, link[1], place) for place in step.reads]
            self._local(use, link[1], own, sent.values, reduce=True)
        return sent.values

    def _send(self, use: Use, link: Link, values: list[_Value]) -> Link:
        rank, peer, _ = link
        cells = self._fresh(peer, values)
        event = self._event(use, rank, peer, self._apart(use, rank, values), cells)
        if self.clocks is not None:
            self.clocks.over(*use)
        self.links[link].append(_Sent(event, cells, self._now(use.thread)._replace(waits=(event,)), use))
        return link

    def _apart(self, use: Use, rank: int, values: list[_Value]) -> list[_Value]:
        """Assign each value a new cell; copied places share their cell."""
        seen = set[int]()
        for number, value in enumerate(values):
            if value.cell in seen:
                [copy] = self._fresh(rank, [value])
                self._local(use, rank, [value], [copy])
                values = [*values[:number], copy, *values[number + 1 :]]
            seen.add(value.cell)
        return values

    def _fresh(self, rank: int, values: Sequence[_Value]) -> list[_Value]:
        """Unused cells of the rank, for data of the same blocks."""
        first = self.cells[rank]
        self.cells[rank] += len(values)
        return [_Value(first + number, value.block) for number, value in enumerate(values)]

    def _local(self, use: Use, rank: int, values: list[_Value], to: list[_Value], *, reduce: bool = False) -> None:
        """Add a local step after everything that its thread has waited for; the rest of the thread comes after it."""
        for value, other in zip(values, to, strict=True):
            if value.block != other.block:
                self._refuse(use, f"adds block {value.block} to block {other.block}")
        event = self._event(use, rank, rank, self._apart(use, rank, values), to, reduce)
        self.waits[use.thread] = (event,)

    def _event(self, use: Use, src: int, dst: int, values: list[_Value], to: list[_Value], reduce: bool = False) -> int:
        thread = self.threads[use.thread]
        part = thread.name.removesuffix(f"rank {thread.rank}")
        written = StepOrigin(use.step, part, thread.steps[use.step].origin)
        waits, way = self.waits[use.thread], shorter(src, dst, self.program.n)
        cells, puts = [value.cell for value in values], [value.cell for value in to]
        self.events.append(Message(src, dst, cells, puts, reduce, waits, way, written=written))
        return len(self.events) - 1

    def _read(self, use: Use, rank: int, place: int) -> _Value:
        name = self.program.layouts[rank].name(place)
        if place not in self.held[rank]:
            self._refuse(use, f"reads {name}, which is empty")
        if self.clocks is not None and (other := self.clocks.read(use, rank, place)):
            self._refuse(use, f"reads {name}, which {self._name(other)} writes, and nothing orders them")
        return self.held[rank][place]

    def _write(self, use: Use, rank: int, place: int, value: _Value) -> None:
        if self.clocks is not None and (other := self.clocks.write(use, rank, place)):
            name = self.program.layouts[rank].name(place)
            self._refuse(use, f"writes {name}, which {self._name(other)} uses, and nothing orders them")
        self.held[rank][place] = value

    def _why(self, thread: int) -> str:
        """What a thread waits for, what that one waits for, and so on, up to a cycle or a dead end."""
        missing, seen = self._missing(thread), [thread]
        text = f"waits for {self._wanted(missing)}"
        while (thread := self._sender(missing)) >= 0:
            if thread in seen:
                return f"{text}: {len(seen) - seen.index(thread)} wait for each other in a cycle"
            seen.append(thread)
            missing = self._missing(thread)
            if len(seen) <= SHOWN:
                text += f", which waits in step {self.at[thread]} for {self._wanted(missing)}"
            elif len(seen) == SHOWN + 1:
                text += ", and so on"
        assert isinstance(missing, tuple)
        return f"{text}: rank {missing[0]} sends {self.taken[missing]} to rank {missing[1]} in total"

    def _wanted(self, missing: Link | int | None) -> str:
        if isinstance(missing, int):
            return f"a step of {self.threads[missing].name}"
        assert missing is not None
        tag = f" with tag {missing[2]}" if missing[2] else ""
        return f"message {self.taken[missing]}{tag} from rank {missing[0]}"

    def _sender(self, missing: Link | int | None) -> int:
        """The thread that a thread waits for: another one, or the one that would send the message; -1 for none."""
        if isinstance(missing, int):
            return missing
        assert missing is not None
        for number, thread in enumerate(self.threads):
            later = thread.steps[self.at[number] :]
            if thread.rank == missing[0] and any(step.send == missing[1:] for step in later):
                return number
        return -1

    def _name(self, use: Use) -> str:
        return f"step {use.step} of {self.threads[use.thread].name}"

    def _refuse(self, use: Use, problem: str) -> NoReturn:
        thread = self.threads[use.thread]
        raise ScheduleError(
            f"{self.title}: {self._name(use)} {problem}",
            rank=thread.rank,
            step=use.step,
            file=thread.steps[use.step].origin or None,
        )

    def finish(self) -> CompiledSchedule:
        """Return the schedule, with every block in its place at the end."""
        final: list[dict[int, int]] = []
        for rank, layout in enumerate(self.program.layouts):
            ends = {block: self.held[rank][place] for block, place in layout.ends.items() if place in self.held[rank]}
            for block, value in ends.items():
                if value.block != block:
                    problem = f"rank {rank} ends with block {value.block} in place of block {block}"
                    raise ScheduleError(f"{self.title}: {problem}", rank=rank, block=block)
            final.append({block: value.cell for block, value in ends.items()})
        waits = [set[int]() for _ in range(self.program.n)]
        for number, thread in enumerate(self.threads):
            waits[thread.rank].update(self.waits[number])
        messages, cells = place_final_blocks(self.events, final, waits, self.cells)
        return compile_messages(
            self.program.kind,
            self.program.n,
            messages,
            algorithm=self.algorithm,
            blocks=self.program.blocks,
            cells=cells,
        )


class _Home:
    """The cells of one rank: renamed, copied at the end, or copied at the start."""

    def __init__(self, wanted: dict[int, int], read: set[int], sent: set[int], cells: int) -> None:
        moving = {block: cell for block, cell in wanted.items() if cell != block}
        self.renamed = {cell: block for block, cell in moving.items() if block not in read}
        self.copied = {cell: block for block, cell in moving.items() if block in read}
        self.aside = {block: cells + number for number, block in enumerate(moving.keys() & sent)}


def place_final_blocks(
    events: Sequence[Message], final: Sequence[dict[int, int]], last: Sequence[Iterable[int]], cells: Sequence[int]
) -> tuple[list[Message], int]:
    """Return the messages and the number of cells that they need.

    For each rank: `wanted`, the cells of its blocks at the end, by block; `last`, its last events; `cells`, the number
    of cells of its events.
    """
    read, sent = ([set[int]() for _ in final] for _ in range(2))
    for event in events:
        read[event.src].update(event.cells)
        if event.src != event.dst:
            sent[event.src].update(event.cells)
    homes = [_Home(*message) for message in zip(final, read, sent, cells, strict=True)]
    aside = {rank: number for number, rank in enumerate(rank for rank, home in enumerate(homes) if home.aside)}
    messages = [Message(rank, rank, list(homes[rank].aside), list(homes[rank].aside.values())) for rank in aside]
    for event in events:
        here, there = homes[event.src], homes[event.dst]
        waits = [len(aside) + wait for wait in event.waits]
        ids = [here.renamed.get(cell, cell) for cell in event.cells]
        if event.src != event.dst and not here.aside.keys().isdisjoint(ids):
            ids = [here.aside.get(cell, cell) for cell in ids]
            waits.append(aside[event.src])
        puts = [there.renamed.get(cell, cell) for cell in event.puts or ()]
        messages.append(event._replace(cells=ids, puts=puts, waits=waits))
    for rank, home in enumerate(homes):
        if home.copied:
            waits = [len(aside) + wait for wait in sorted(last[rank])] + ([aside[rank]] if rank in aside else [])
            messages.append(Message(rank, rank, list(home.copied), list(home.copied.values()), waits=waits))
    return messages, max(used + len(home.aside) for used, home in zip(cells, homes, strict=True))
