"""The states at rest and the episodes of congruent engines, and what an engine has counted."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine import Engine
from pyxsim.core.state.record_dtypes import COUNTERS

# Of a book, without those of earlier runs:
MOST_STATES = 512
MOST_BYTES = 1 << 27  # of pickled engines
MOST_EPISODES = 2048
MOST_STEPS = 1 << 14
AT = 7  # the column of the cycle
FOREVER = 1 << 60


class Call(NamedTuple):
    """The messages of one call of `Engine.send_many`.

    Attributes
    ----------
    rows
        int64[messages, COLUMNS - 1]: its arguments, with cycles since the first message. Nothing changes it.
    key
        The same as bytes.
    together
        Whether all are sent in one cycle.
    """

    rows: IntArray
    key: bytes
    together: bool

    @classmethod
    def of(cls, rows: IntArray) -> tuple[Call, int]:
        """The call with these arguments, and the cycle of its first message."""
        at = int(rows[0, AT])
        rows = rows.copy()
        rows[:, AT] -= at
        return cls(rows, rows.tobytes(), not rows[:, AT].any()), at

    def at(self, cycle: int) -> IntArray:
        """Its arguments if the first message is sent in a cycle."""
        rows = self.rows.copy()
        rows[:, AT] += cycle
        return rows


class Cause(NamedTuple):
    """What an episode depends on.

    Attributes
    ----------
    state
        The state at its beginning.
    gap
        Cycles from the last arrival to the first message, or until the engine was idle.
    rows
        int64[messages, COLUMNS] as bytes: the number of the call of `Engine.send_many`, and its arguments, with cycles
        since the first message.
    """

    state: RestState
    gap: int
    rows: bytes

    @classmethod
    def of(cls, state: RestState, gap: int, calls: Sequence[IntArray]) -> Cause:
        """The cause with these calls of `Engine.send_many`."""
        numbers = np.repeat(np.arange(len(calls)), [len(call) for call in calls])
        return cls(state, gap, np.column_stack([numbers, np.concatenate(calls)]).tobytes())

    @property
    def calls(self) -> list[IntArray]:
        """The messages of each call."""
        rows = self.table
        return np.split(rows[:, 1:], np.flatnonzero(np.diff(rows[:, 0])) + 1)

    @property
    def table(self) -> IntArray:
        """int64[messages, COLUMNS]."""
        return np.frombuffer(self.rows, np.int64).reshape(-1, COLUMNS)


COLUMNS = 11


@dataclass(eq=False)
class RestState:
    """A state in which no message is under way.

    Attributes
    ----------
    deciding
        `Engine.deciding_state`.
    engine
        A pickle of one in this state; None: it was not simulated in this process.
    settles
        Cycles until the engine is idle; None: not known.
    """

    deciding: bytes
    engine: bytes | None = None
    settles: int | None = None

    def __deepcopy__(self, memo: object) -> RestState:
        """Shared: states are compared by identity."""
        return self


@dataclass(frozen=True, eq=False)
class Totals:
    """What an engine has counted, as one vector: the cycles that it skipped, its totals, and each counter by link.

    `names`: of the totals. The counters are those of `Engine.counters`, in their order.
    """

    counts: IntArray
    names: tuple[str, ...]

    @classmethod
    def of(cls, engine: Engine) -> Totals:
        totals = engine.totals()
        head = np.array([engine.skipped, *totals.values()], np.int64)
        return cls(np.concatenate([head, *engine.counters().values()]), tuple(totals))

    def plus(self, other: Totals) -> Totals:
        return Totals(self.counts + other.counts, self.names)

    def minus(self, other: Totals) -> Totals:
        return Totals(self.counts - other.counts, self.names)

    def with_skipped(self, cycles: int) -> Totals:
        """With more cycles skipped."""
        counts = self.counts.copy()
        counts[0] += cycles
        return Totals(counts, self.names)

    @property
    def skipped(self) -> int:
        return int(self.counts[0])

    def total(self, name: str) -> int:
        return int(self.counts[1 + self.names.index(name)])

    @property
    def totals(self) -> dict[str, int]:
        return dict(zip(self.names, self.counts[1:].tolist(), strict=False))

    @property
    def counters(self) -> dict[str, IntArray]:
        by_link = self.counts[1 + len(self.names) :].reshape(len(COUNTERS), -1)
        return dict(zip(COUNTERS, by_link, strict=True))


@dataclass(frozen=True, eq=False)
class Episode:
    """What follows from a state and messages.

    Attributes
    ----------
    arrivals
        (cycles since the sending, message: 0 is the first) of each message, in order.
    counted
        What it adds.
    peaks
        Peak occupancy, as `Engine.buffer_max`.
    state
        The state at the last arrival.
    recalled
        Whether an earlier run simulated it.
    """

    arrivals: list[tuple[int, int]]
    counted: Totals
    peaks: NDArray[np.int32]
    state: RestState
    recalled: bool = False

    @property
    def duration(self) -> int:
        return self.arrivals[-1][0]

    @cached_property
    def replayed(self) -> Totals:
        """What a replay adds: all its cycles are skipped."""
        return self.counted.with_skipped(self.duration - self.counted.skipped)

    def __deepcopy__(self, memo: object) -> Episode:
        """Shared: nothing changes."""
        return self


@dataclass(frozen=True, eq=False)
class Step:
    """The first calls of `send_many` in episodes.

    Attributes
    ----------
    number
        Of this step in its book.
    messages
        Number of messages up to here.
    outcome
        The episode with these messages only; if it is not known, the last one that begins with them.
    until
        Cycles since the first message up to which this is what happens: until the next messages of the outcome.
    cause
        That of the outcome if it has no more messages.
    """

    number: int
    messages: int
    outcome: Episode
    until: int = FOREVER
    cause: Cause | None = None

    def __deepcopy__(self, memo: object) -> Step:
        """Shared: nothing changes."""
        return self


@dataclass(eq=False)
class EpisodeBook:
    """The states and episodes of engines with one description.

    Attributes
    ----------
    description
        The arguments of the engines; see `describe`.
    states
        By `Engine.deciding_state`; the first one is that of a new engine.
    episodes
        By their causes; the last used ones last.
    origins
        Of states of earlier runs: the cause of an episode that ends in it.
    steps
        By (state, gap, first call) or (number of the step before, cycles since the first message, call).
    replays, recalled_replays
        How often an episode was replayed; and how often one of an earlier run.
    """

    description: bytes = b""
    states: dict[bytes, RestState] = field(default_factory=dict)
    episodes: dict[Cause, Episode] = field(default_factory=dict)
    origins: dict[RestState, Cause] = field(default_factory=dict)
    steps: dict[tuple[Any, ...], Step] = field(default_factory=dict)
    replays: int = 0
    recalled_replays: int = 0
    _bytes: int = 0  # of pickled engines
    _recalled: tuple[int, int, int] = (0, 0, 0)  # states, episodes and steps of earlier runs

    def __deepcopy__(self, memo: object) -> EpisodeBook:
        """Shared by engines."""
        return self

    @property
    def first(self) -> RestState:
        """The state of a new engine."""
        return next(iter(self.states.values()))

    def state_of(self, engine: Engine) -> RestState | None:
        """The state of an engine at rest; None if it is not known and there are too many."""
        deciding = engine.deciding_state()
        if deciding is None:
            return None
        state = self.states.get(deciding)
        if state is None:
            if len(self.states) >= MOST_STATES + self._recalled[0] or self._bytes >= MOST_BYTES:
                return None
            state = self.states[deciding] = RestState(deciding)
        if state.engine is None:
            self._pickle(engine, state)
        return state

    def _pickle(self, engine: Engine, state: RestState) -> None:
        state.engine = pickle.dumps(engine, pickle.HIGHEST_PROTOCOL)
        self._bytes += len(state.engine)

    def engine_in(self, state: RestState) -> Engine:
        """An engine in a state. Its cycle is that of the last arrival.

        Raises
        ------
        RuntimeError
            If an episode of an earlier run does not lead to its state.
        """
        way = [state]
        while way[-1].engine is None:
            way.append(self.origins[way[-1]].state)
        for state in reversed(way[:-1]):
            _, gap, _ = cause = self.origins[state]
            engine: Engine = pickle.loads(cause.state.engine or b"")
            rows = cause.table[:, 1:].copy()
            rows[:, AT] += engine.now + gap
            engine.send_many(*rows.T)
            while engine.messages_pending:
                if engine.run(FOREVER, repeats_until=FOREVER).reason == "repeats":
                    engine.skip()
            if engine.deciding_state() != state.deciding:
                raise RuntimeError("an episode of an earlier run ends in another state than the cache says")
            self._pickle(engine, state)
        found: Engine = pickle.loads(way[0].engine or b"")
        return found

    def settled(self, state: RestState) -> int:
        """Cycles until an engine in a state is idle."""
        if state.settles is None:
            engine = self.engine_in(state)
            begin = engine.now
            while engine.run(FOREVER, repeats_until=FOREVER).reason != "idle":
                pass
            state.settles = engine.now - begin
        return state.settles

    # -- episodes --

    def first_step(self, state: RestState, gap: int, call: Call) -> Step | None:
        """The step of episodes that begin with a call; None if none is known."""
        return self.steps.get((state, gap, 0, call.key))

    def next_step(self, step: Step, call: Call, after: int) -> Step | None:
        """The step after another one, with a call so many cycles after the first one; None if none is known."""
        return self.steps.get((step.number, after, call.key))

    def keep(self, cause: Cause, episode: Episode) -> None:
        """Add an episode."""
        self.episodes[cause] = episode
        calls = cause.calls
        key: tuple[Any, ...] = (cause.state, cause.gap)
        messages = 0
        for rows, after in zip(calls, [*calls[1:], None], strict=True):
            messages += len(rows)
            call, cycle = Call.of(rows)
            key = (*key, cycle, call.key)
            step = self.steps.get(key) or Step(len(self.steps), messages, episode)
            if after is None:
                step = replace(step, outcome=episode, until=FOREVER, cause=cause)
            elif step.cause is None:
                step = replace(step, outcome=episode, until=int(after[:, AT].min()))
            self.steps[key] = step
            key = (step.number,)

    @property
    def full(self) -> bool:
        """Whether no more episodes are kept."""
        _, episodes, steps = self._recalled
        return len(self.episodes) >= MOST_EPISODES + episodes or len(self.steps) >= MOST_STEPS + steps

    @property
    def new(self) -> bool:
        """Whether it has episodes that were simulated in this run."""
        return not all(episode.recalled for episode in self.episodes.values())

    def note_replay(self, step: Step) -> None:
        """Count the replay of the outcome of a step, which is now the last used episode."""
        assert step.cause is not None
        self.episodes[step.cause] = self.episodes.pop(step.cause)
        self.replays += 1
        self.recalled_replays += step.outcome.recalled

    def add(
        self, states: Sequence[RestState], episodes: Mapping[Cause, Episode], origins: Mapping[RestState, Cause]
    ) -> None:
        """Add states and episodes of earlier runs, as the least recently used ones; see the attributes."""
        known = {state: self.states.setdefault(state.deciding, state) for state in states}
        for state, cause in origins.items():
            self.origins.setdefault(known[state], cause._replace(state=known[cause.state]))
        last = self.episodes
        self.episodes = {}
        for cause, episode in episodes.items():
            cause = cause._replace(state=known[cause.state])
            if cause not in last:
                self.keep(cause, replace(episode, state=known[episode.state]))
        self.episodes |= last
        self._recalled = len(self.states), len(self.episodes), len(self.steps)


def describe(routers: int, *parts: Any) -> bytes:
    """Return everything that an engine is made of: equal descriptions are of equal engines.

    Parameters
    ----------
    routers, parts
        The arguments of `Engine`: a number and dataclasses of arrays, numbers and names.
    """
    return b"".join([b"%d routers\n" % routers, *(line for part in parts for line in _described(part))])


def _described(part: Any) -> Iterator[bytes]:
    for column in fields(part):
        values = getattr(part, column.name)
        if isinstance(values, (np.ndarray, list, tuple)):
            values = np.asarray(values)
            yield f"{column.name} {values.dtype.str} {values.shape} ".encode()
            yield np.ascontiguousarray(values).tobytes() + b"\n"
        else:
            yield f"{column.name} {values!r}\n".encode()
