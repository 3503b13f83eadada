"""Draws the programs of all pipeline stages together, as if they were carried out.

A receive is drawn only after its send, and a collective of several stages once all of them have come to it. Programs
that fit together have one order of all tasks, so that nothing waits in a circle.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from pyxsim.workload.making.chain import Balance, Chain, before_all, part_of, role_of
from pyxsim.workload.making.layout import STAGES, Layout
from pyxsim.workload.making.model import AGAIN, ALL_FREE, OLDEST_FREE, Job, Model

_GOLDEN = (5**0.5 - 1) / 2  # multiples of it are spread evenly over a unit interval
Channel = tuple[int, int, int, int]  # from stage, to stage, axis, distance


@dataclass
class Step:
    """A task of a program.

    Attributes
    ----------
    family
        Its row in the families of the model; -1 for a receive that the model does not have.
    value
        Its time or bytes, relative to the mean.
    before
        Earlier steps that it waits for.
    match
        The number of a message in its channel, or of a collective of several stages.
    channel
        Of a message.
    """

    family: int
    value: float = 0.0
    before: tuple[int, ...] = ()
    match: int = -1
    channel: Channel | None = None


@dataclass
class Program:
    """The tasks of the ranks of a stage."""

    stage: int
    role: int
    count: int
    balance: Balance
    steps: list[Step] = field(default_factory=list)
    symbols: list[int] = field(default_factory=list)  # of all draws
    pending: int | None = None  # a drawn symbol that waits for another stage
    drawn: int = 0
    seen: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    free: defaultdict[int, dict[int, None]] = field(default_factory=lambda: defaultdict(dict))
    last: dict[tuple[int, int], int] = field(default_factory=dict)  # what a family waited for, by family

    @property
    def done(self) -> bool:
        """Whether all its tasks are drawn."""
        return self.drawn >= self.count

    @property
    def progress(self) -> float:
        """The drawn share of its tasks."""
        return self.drawn / self.count


class Drawing:
    """Draws programs. `sent`, `values`: what is exchanged by each channel, and the relative bytes of each message."""

    def __init__(self, model: Model, layout: Layout, job: Job, random: Random) -> None:
        self.model, self.layout, self.random = model, layout, random
        self.chain = Chain(model)
        self.programs = [
            Program(stage, role_of(stage, layout.stages), count, Balance(stage, layout.stages, forward))
            for stage, (count, forward) in enumerate(zip(job.tasks, job.forward, strict=True))
        ]
        self.mail: defaultdict[Channel, deque[tuple[int, float]]] = defaultdict(deque)
        self.owed: Counter[Channel] = Counter()  # receives of a ring that come before their send
        self.waiting: dict[Channel, int] = {}  # symbol of such a receive
        self.sent: Counter[Channel] = Counter()
        self.shared = 0  # collectives of several stages
        self.dropped = 0
        self._turns: Counter[int] = Counter()
        self._offsets: dict[int, float] = {}

    def draw(self) -> list[Program]:
        """Return the programs."""
        while active := [program for program in self.programs if not program.done]:
            active.sort(key=lambda program: (program.progress, program.stage))
            if not any(self._advance(program) for program in active):
                self._drop(active)
        self._receive_the_rest()
        return self.programs

    def _advance(self, program: Program) -> bool:
        """Draw tasks of a program up to the next part; return whether it could go on."""
        part, went = part_of(program.drawn, program.count), False
        while not program.done and part_of(program.drawn, program.count) == part:
            if program.pending is None:
                previous = before_all(program.symbols, self.model.order)
                balance = program.balance
                where = program.role, part, balance.more
                program.pending = self.chain.draw(self.random, where, balance.count, balance.since, previous)
            if not self._emit(program, program.pending):
                return went
            went = True
        return went

    def _next(self, program: Program) -> None:
        """The pending symbol of a program is done with."""
        assert program.pending is not None
        program.symbols.append(program.pending)
        program.balance.add(self.model.families[self.model.symbols[program.pending].family])
        program.pending = None
        program.drawn += 1

    def _drop(self, active: Sequence[Program]) -> None:
        """No program can go on: leave out what the one that is furthest behind waits for."""
        self.dropped += 1
        self._next(active[0])

    def _emit(self, program: Program, symbol: int) -> bool:
        """Add the task of a symbol, if nothing stands against it."""
        family = self.model.families[self.model.symbols[symbol].family]
        if family.kind in ("send", "receive"):
            return self._message(program, symbol, int(family.where[0]), int(family.where[1]))
        if family.kind == "collective":
            return self._collective(program, symbol)
        self._add(program, symbol, self._value(symbol))
        self._next(program)
        return True

    def _message(self, program: Program, symbol: int, axis: int, by: int) -> bool:
        sends = self.model.families[self.model.symbols[symbol].family].kind == "send"
        other = program.stage + (by if sends else -by) if axis == STAGES else program.stage
        if axis >= len(self.layout.axes) or not 0 <= other < self.layout.stages:
            self.dropped += 1
            self._next(program)
            return True
        if axis != STAGES:
            by %= self.layout.axes[axis]
            if not by:
                self.dropped += 1
                self._next(program)
                return True
        channel = (program.stage, other, axis, by) if sends else (other, program.stage, axis, by)
        if sends:
            value = self._value(symbol)
            self._add(program, symbol, value, self.sent[channel], channel)
            self.mail[channel].append((self.sent[channel], value))
            self.sent[channel] += 1
            if self.owed[channel]:
                self.owed[channel] -= 1
                self._take(program, self.waiting[channel], channel)
        elif self.mail[channel]:
            self._take(program, symbol, channel)
        elif axis != STAGES:
            self.owed[channel] += 1
            self.waiting[channel] = symbol
        elif self.programs[other].done:
            self.dropped += 1
        else:
            return False
        self._next(program)
        return True

    def _take(self, program: Program, symbol: int, channel: Channel) -> None:
        number, value = self.mail[channel].popleft()
        self._add(program, symbol, value, number, channel)

    def _collective(self, program: Program, symbol: int) -> bool:
        where = self.model.families[self.model.symbols[symbol].family].where
        first, last, stages = int(where[0]), len(self.layout.axes) - int(where[1]), str(where[2])
        ends = sorted({0, self.layout.stages - 1})
        members = {"own": [program.stage], "all": range(self.layout.stages), "ends": ends}[stages]
        size = 1
        for axis in self.layout.axes[first : max(first, last)]:
            size *= axis
        if size * len(members) < 2 or last > len(self.layout.axes) or program.stage not in members:
            self.dropped += 1
            self._next(program)
            return True
        if stages == "own":
            self._add(program, symbol, self._value(symbol))
            self._next(program)
            return True
        together = [self.programs[stage] for stage in members]
        family = self.model.symbols[symbol].family
        if any(other.done for other in together):
            self.dropped += 1
            self._next(program)
            return True
        if any(other.pending is None or self.model.symbols[other.pending].family != family for other in together):
            return False
        value = self._value(symbol)
        for other in together:
            assert other.pending is not None
            self._add(other, other.pending, value, self.shared)
            self._next(other)
        self.shared += 1
        return True

    def _receive_the_rest(self) -> None:
        """Receive what is left at the end of each program."""
        self.dropped += self.owed.total()
        for channel, messages in self.mail.items():
            for number, value in messages:
                self.programs[channel[1]].steps.append(Step(-1, value, (), number, channel))
            messages.clear()

    def _value(self, symbol: int) -> float:
        """A relative time or size: those of a symbol are spread evenly over its distribution."""
        values = self.model.symbols[symbol].values
        if len(values) < 2:
            return values[0] if values else 0.0
        turn = self._turns[symbol]
        self._turns[symbol] += 1
        offset = self._offsets.setdefault(symbol, self.random.random())
        return values[int((offset + turn * _GOLDEN) % 1.0 * len(values))]

    def _add(
        self, program: Program, symbol: int, value: float, match: int = -1, channel: Channel | None = None
    ) -> None:
        """Add a task, with the earlier tasks that its symbol waits for."""
        waits = self.model.symbols[symbol].waits
        own = self.model.symbols[symbol].family
        before: dict[int, None] = {}
        for family, which in waits:
            found = _referred(program, own, family, which)
            before |= dict.fromkeys(found)
            if found:
                program.last[own, family] = max(found)
        if waits and not before and program.steps:
            before[len(program.steps) - 1] = None
        for earlier in before:
            program.free[program.steps[earlier].family].pop(earlier, None)
        place = len(program.steps)
        program.steps.append(Step(own, value, tuple(before), match, channel))
        program.seen[own].append(place)
        program.free[own][place] = None


def _referred(program: Program, own: int, family: int, which: int) -> list[int]:
    """The tasks of `family` that the next task, of the family `own`, refers to."""
    seen, free = program.seen[family], program.free[family]
    if which == ALL_FREE:
        return list(free)
    if which == OLDEST_FREE and free:
        return [next(iter(free))]
    if which == AGAIN and (own, family) in program.last:
        return [program.last[own, family]]
    return [seen[-min(max(1, which), len(seen))]] if seen else []
