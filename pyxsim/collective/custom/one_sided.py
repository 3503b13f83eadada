"""One-sided programs: threads that read and write the memory of other ranks, and signal each other.

The threads are executed without time, one step at a time in turns, as in `compile_program`. A write to another rank is
a message; a read is a message from there, which leaves when the request has arrived. Every value gets a cell of its
own, and remembers the messages that bring it: who uses it also waits for them. A signal and a request carry no data,
and take no time in the network.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from pyxsim.collective.arrays import I32
from pyxsim.collective.compiled import CompiledSchedule, StepOrigin
from pyxsim.collective.custom.compile_program import place_final_blocks
from pyxsim.collective.custom.program import MANY, Layout, shorter
from pyxsim.collective.custom.vector_clocks import Use, VectorClocks
from pyxsim.collective.explicit_messages import Message, compile_messages
from pyxsim.collective.kinds import Kind
from pyxsim.collective.schedule import ScheduleError

Waits = tuple[int, ...]
Signal = tuple[int, int, str, int]  # from, to, type of channel, number of the channel between the two


class Region(NamedTuple):
    """Places of a rank. Packets are data with flags: who reads them waits until they are written."""

    rank: int
    places: tuple[int, ...]
    packets: bool = False


class Step(NamedTuple):
    """One step of a thread: wait, take semaphores, move data, signal, give semaphores; each part is optional.

    What several regions hold is added. Everything that is read is written to all regions `writes`.
    """

    origin: str  # file: path
    reads: Sequence[Region] = ()
    writes: Sequence[Region] = ()
    signals: Sequence[Signal] = ()
    waits: Sequence[Signal] = ()
    takes: Sequence[int] = ()  # semaphores of the rank
    gives: Sequence[int] = ()
    barrier: tuple[int, int] | None = None  # number, how many threads of the rank meet


class OneSidedThread(NamedTuple):
    """The steps of one thread; `name` is for errors."""

    rank: int
    name: str
    steps: Sequence[Step]


@dataclass(frozen=True)
class OneSidedProgram:
    """All threads of all ranks; `semaphores`: the initial values of those of each rank."""

    kind: Kind
    n: int
    blocks: int
    threads: Sequence[OneSidedThread]
    layouts: Sequence[Layout]
    semaphores: Sequence[Sequence[int]]


class _Value(NamedTuple):
    """Data: their cell, the block that they belong to, and the events that bring them."""

    cell: int
    block: int
    ready: Waits = ()


class _Past(NamedTuple):
    """What a thread knew when it signalled: events and clock."""

    waits: Waits
    clock: I32 | None


def compile_one_sided(program: OneSidedProgram, algorithm: str) -> CompiledSchedule:
    """Return the schedule of a program. Raises ScheduleError if it deadlocks, reads empty places, or has a race."""
    run = _Run(program, algorithm)
    run.run()
    return run.finish()


class _Run:
    """Executes a program."""

    def __init__(self, program: OneSidedProgram, algorithm: str) -> None:
        self.program = program
        self.algorithm = algorithm
        self.title = f"{algorithm} {program.kind.name} on {program.n} ranks"
        self.threads = program.threads
        self.at = [0] * len(self.threads)
        self.waits: list[Waits] = [()] * len(self.threads)
        self.held = [
            {place: _Value(block, block) for place, block in layout.starts.items()} for layout in program.layouts
        ]
        self.cells = [program.blocks] * program.n
        self.events: list[Message] = []
        self.clocks = VectorClocks(len(self.threads))
        self.unsignalled: list[defaultdict[int, list[int]]] = [defaultdict(list) for _ in self.threads]  # by peer
        self.signals: defaultdict[Signal, deque[_Past]] = defaultdict(deque)
        self.packets: dict[tuple[int, int], I32] = {}  # the clock of the writer, by rank and place
        self.semaphores = {
            (rank, number): deque([_Past((), None)] * value)
            for rank, values in enumerate(program.semaphores)
            for number, value in enumerate(values)
        }
        self.meeting: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # threads at each barrier
        self.passed: set[int] = set()  # threads whose barrier is complete
        self.asleep: defaultdict[Hashable, list[int]] = defaultdict(list)
        self.ready = deque(range(len(self.threads)))

    def run(self) -> None:
        """Execute every step. Raises ScheduleError where that is impossible."""
        while self.ready:
            thread = self.ready.popleft()
            if self.at[thread] == len(self.threads[thread].steps):
                continue
            missing = self._missing(thread)
            if missing is not None:
                self.asleep[missing].append(thread)
                continue
            self._execute(thread)
            self.ready.append(thread)
        for number, step in enumerate(self.at):
            if step < len(self.threads[number].steps):
                self._refuse(Use(number, step), f"waits for {self._wanted(self._missing(number))}, which never comes")

    def _missing(self, thread: int) -> Hashable | None:
        """What the next step of a thread waits for."""
        rank, step = self.threads[thread].rank, self.threads[thread].steps[self.at[thread]]
        if step.barrier is not None and thread not in self.passed:
            here = self.meeting[rank, step.barrier[0]]
            if thread not in here:
                here.append(thread)
            if len(here) < step.barrier[1]:
                return ("barrier", rank, step.barrier[0])
            self._meet(rank, step.barrier[0])
        for signal, times in Counter(step.waits).items():
            if len(self.signals[signal]) < times:
                return ("signal", *signal)
        for number, times in Counter(step.takes).items():
            if len(self.semaphores[rank, number]) < times:
                return ("semaphore", rank, number)
        for region in step.reads:
            for place in region.places if region.packets else ():
                if (region.rank, place) not in self.packets:
                    return ("packet", region.rank, place)
        return None

    def _wanted(self, missing: Hashable | None) -> str:
        """What a thread waits for, in words."""
        match missing:
            case ("signal", source, *_):
                return f"a signal of rank {source}"
            case ("semaphore", _, number):
                return f"semaphore {number}"
            case ("packet", int(rank), int(place)):
                return f"a packet in {self.program.layouts[rank].name(place)}"
            case _:
                return "others at a barrier"

    def _meet(self, rank: int, number: int) -> None:
        """Let all threads at a barrier pass: each knows what all know."""
        threads = self.meeting.pop((rank, number))
        waits = self._few(rank, [event for thread in threads for event in self.waits[thread]])
        pasts = [self.clocks.now(thread) for thread in threads]
        for thread in threads:
            self.waits[thread] = waits
            for past in pasts:
                self.clocks.learn(thread, past)
        self.passed.update(threads)
        self._wake(("barrier", rank, number))

    def _wake(self, key: Hashable) -> None:
        self.ready.extend(self.asleep.pop(key, ()))

    def _execute(self, thread: int) -> None:
        rank, use = self.threads[thread].rank, Use(thread, self.at[thread])
        step = self.threads[thread].steps[use.step]
        self.passed.discard(thread)
        for signal in step.waits:
            self._learn(thread, self.signals[signal].popleft())
        for number in step.takes:
            self._learn(thread, self.semaphores[rank, number].popleft())
        if step.reads:
            self._move(use, step)
        self.at[thread] += 1
        self.clocks.over(*use)
        for signal in step.signals:
            self.signals[signal].append(self._signalled(use, signal[1]))
            self._wake(("signal", *signal))
        for number in step.gives:
            self.semaphores[rank, number].append(_Past(self.waits[thread], self.clocks.now(thread)))
            self._wake(("semaphore", rank, number))
        for region in step.writes if step.reads else ():
            for place in region.places if region.packets else ():
                self.packets[region.rank, place] = self.clocks.now(thread)
                self._wake(("packet", region.rank, place))

    def _learn(self, thread: int, past: _Past) -> None:
        self.waits[thread] = self._few(self.threads[thread].rank, self.waits[thread] + past.waits)
        if past.clock is not None:
            self.clocks.learn(thread, past.clock)

    def _signalled(self, use: Use, peer: int) -> _Past:
        """What a signal tells: the data that the thread has sent to the peer are there."""
        rank = self.threads[use.thread].rank
        sent = self.unsignalled[use.thread].pop(peer, [])
        waits = self.waits[use.thread]
        if waits and not (sent and set(waits) <= set(self.events[sent[-1]].waits)):
            sent = [*sent, self._event(use, rank, peer, [], [], waits)]
        return _Past(self._few(peer, sent), self.clocks.now(use.thread))

    def _move(self, use: Use, step: Step) -> None:
        """Read all sources, add them up, and write the result."""
        rank = self.threads[use.thread].rank
        adds = len(step.reads) > 1
        before = self.waits[use.thread]  # all reads leave at once
        sources = [self._fetch(use, region, before, adds) for region in step.reads]
        values = sources[0]
        if adds:
            total = self._fresh(rank, values)
            total = self._local(use, values, total)
            for other in sources[1:]:
                total = self._local(use, other, total, reduce=True)
            values = total
        for region in step.writes:
            self._store(use, region, values)

    def _fetch(self, use: Use, region: Region, before: Waits, adds: bool) -> list[_Value]:
        """Return what a region holds, at the rank of the thread; a request waits for `before`."""
        rank = self.threads[use.thread].rank
        if region.packets:
            for place in region.places:
                self.clocks.learn(use.thread, self.packets[region.rank, place])
        values = [self._read(use, region.rank, place) for place in region.places]
        if region.rank == rank:
            brought = [event for value in values for event in value.ready]
            self.waits[use.thread] = self._few(rank, [*self.waits[use.thread], *brought])
            return values
        values = self._apart(use, region.rank, values)
        waits = [event for value in values for event in value.ready]
        if before:
            waits.append(self._event(use, rank, region.rank, [], [], before))
        here = self._fresh(rank, values)
        event = self._event(use, region.rank, rank, values, here, self._few(region.rank, waits))
        if adds:
            self.events[event] = self.events[event]._replace(summed=True)
        self.waits[use.thread] = self._few(rank, [*self.waits[use.thread], event])
        return here

    def _store(self, use: Use, region: Region, values: list[_Value]) -> None:
        """Write values to a region."""
        rank, peer = self.threads[use.thread].rank, region.rank
        if peer != rank:
            values = self._apart(use, rank, values)
            there = self._fresh(peer, values)
            event = self._event(use, rank, peer, values, there, self.waits[use.thread])
            self.unsignalled[use.thread][peer].append(event)
            values = [value._replace(ready=(event,)) for value in there]
        for place, value in zip(region.places, values, strict=True):
            name = self.program.layouts[peer].name(place)
            if region.packets and (peer, place) in self.packets:
                self._refuse(use, f"writes a packet to {name} of rank {peer} again")
            if other := self.clocks.write(use, peer, place):
                self._refuse(
                    use, f"writes {name} of rank {peer}, which {self._name(other)} uses, and nothing orders them"
                )
            self.held[peer][place] = value

    def _read(self, use: Use, rank: int, place: int) -> _Value:
        name = self.program.layouts[rank].name(place)
        if place not in self.held[rank]:
            self._refuse(use, f"reads {name} of rank {rank}, which is empty")
        if other := self.clocks.read(use, rank, place):
            self._refuse(use, f"reads {name} of rank {rank}, which {self._name(other)} writes, and nothing orders them")
        return self.held[rank][place]

    def _apart(self, use: Use, rank: int, values: list[_Value]) -> list[_Value]:
        """Assign each value a cell of its own; copied places share theirs."""
        seen = set[int]()
        for number, value in enumerate(values):
            if value.cell in seen:
                [copy] = self._fresh(rank, [value])
                event = self._event(use, rank, rank, [value], [copy], value.ready)
                values = [*values[:number], copy._replace(ready=(event,)), *values[number + 1 :]]
                if rank == self.threads[use.thread].rank:
                    self.waits[use.thread] = self._few(rank, [*self.waits[use.thread], event])
            seen.add(value.cell)
        return values

    def _local(self, use: Use, values: list[_Value], to: list[_Value], *, reduce: bool = False) -> list[_Value]:
        """Copy or add values at the rank of the thread; return them with the event after which they are there."""
        rank = self.threads[use.thread].rank
        for value, other in zip(values, to, strict=True):
            if value.block != other.block:
                self._refuse(use, f"adds block {value.block} to block {other.block}")
        event = self._event(use, rank, rank, self._apart(use, rank, values), to, self.waits[use.thread], reduce)
        self.waits[use.thread] = (event,)
        return [value._replace(ready=(event,)) for value in to]

    def _fresh(self, rank: int, values: Sequence[_Value]) -> list[_Value]:
        """Unused cells of the rank, for data of the same blocks."""
        first = self.cells[rank]
        self.cells[rank] += len(values)
        return [_Value(first + number, value.block) for number, value in enumerate(values)]

    def _few(self, rank: int, waits: Sequence[int]) -> Waits:
        """Waits without duplicates; of many, one local step that waits for them."""
        different = tuple(dict.fromkeys(waits))
        if len(different) <= MANY:
            return different
        self.events.append(Message(rank, rank, waits=different))
        return (len(self.events) - 1,)

    def _event(
        self,
        use: Use,
        src: int,
        dst: int,
        values: Sequence[_Value],
        to: Sequence[_Value],
        waits: Waits,
        reduce: bool = False,
    ) -> int:
        thread = self.threads[use.thread]
        part = thread.name.removesuffix(f"rank {thread.rank}")
        written = StepOrigin(use.step, part, thread.steps[use.step].origin)
        cells, puts = [value.cell for value in values], [value.cell for value in to]
        self.events.append(
            Message(src, dst, cells, puts, reduce, waits, shorter(src, dst, self.program.n), written=written)
        )
        return len(self.events) - 1

    def _name(self, use: Use) -> str:
        return f"step {use.step} of {self.threads[use.thread].name}"

    def _refuse(self, use: Use, problem: str) -> NoReturn:
        origin = self.threads[use.thread].steps[use.step].origin
        raise ScheduleError(
            f"{origin}: {self.title}: {self._name(use)} {problem}", rank=self.threads[use.thread].rank, step=use.step
        )

    def finish(self) -> CompiledSchedule:
        """Return the messages, with the final blocks in place."""
        final, last = [], []
        for rank, layout in enumerate(self.program.layouts):
            ends = {block: self.held[rank].get(place) for block, place in layout.ends.items()}
            for block, value in ends.items():
                if value is None or value.block != block:
                    found = "nothing" if value is None else f"block {value.block}"
                    problem = f"rank {rank} ends with {found} in place of block {block}"
                    raise ScheduleError(f"{self.title}: {problem}", rank=rank, block=block)
            values = {block: value for block, value in ends.items() if value is not None}
            final.append({block: value.cell for block, value in values.items()})
            last.append({event for value in values.values() for event in value.ready})
        for number, thread in enumerate(self.threads):
            last[thread.rank].update(self.waits[number])
        messages, cells = place_final_blocks(self.events, final, last, self.cells)
        return compile_messages(
            self.program.kind,
            self.program.n,
            messages,
            algorithm=self.algorithm,
            blocks=self.program.blocks,
            cells=cells,
            signals=True,
        )
