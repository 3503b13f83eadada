"""Replay episodes: what an engine does between two states in which no message is under way.

An *episode* begins with messages that are sent in one cycle to an engine at rest, and ends when the last of them has
arrived. Time and numbers of messages do not matter (docs/fast_forward.md), so equal messages sent to an equal state
arrive after the same times, count the same and leave the same state. The steps of collectives repeat a few episodes
thousands of times; each is simulated once, and replayed from then on.

States are compared whole (`Engine.deciding_state`). Credits may still be on their way at rest, so the time since the
last arrival is a part of the beginning, until the engine is idle. Messages that are sent during a replay end it: the
engine is restored at its beginning and simulated up to now. An episode with the end of a window inside is simulated.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine import Engine, Stop
from pyxsim.core.state.record_dtypes import COUNTERS
from pyxsim.network.packet.split_engine import as_rows
from pyxsim.network.windows import WindowRecorder

MOST_STATES = 64
MOST_EPISODES = 1024
NONE = np.zeros(0, np.int64)
AT = 7  # the column of the cycle
FOREVER = 1 << 60


@dataclass(eq=False)
class RestState:
    """A state in which no message is under way.

    `engine`: a pickle of one in this state; `settles`: cycles until it is idle; None: not known.
    """

    engine: bytes
    settles: int | None = None

    def settled(self) -> int:
        """Cycles until an engine in this state is idle."""
        if self.settles is None:
            engine: Engine = pickle.loads(self.engine)
            begin = engine.now
            while engine.run(FOREVER, repeats_until=FOREVER).reason != "idle":
                pass
            self.settles = engine.now - begin
        return self.settles

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
    """

    arrivals: list[tuple[int, int]]
    counted: Totals
    peaks: NDArray[np.int32]
    state: RestState

    @property
    def duration(self) -> int:
        return self.arrivals[-1][0]


@dataclass(eq=False)
class EpisodeBook:
    """The states and episodes of congruent engines."""

    states: dict[bytes, RestState] = field(default_factory=dict)
    episodes: dict[tuple[RestState, int, bytes], Episode] = field(default_factory=dict)

    def __deepcopy__(self, memo: object) -> EpisodeBook:
        """Shared by congruent engines."""
        return self

    def state_of(self, engine: Engine) -> RestState | None:
        """The state of an engine at rest; None if it is not known and there are too many."""
        deciding = engine.deciding_state()
        if deciding is None:
            return None
        if deciding not in self.states and len(self.states) < MOST_STATES:
            self.states[deciding] = RestState(pickle.dumps(engine, pickle.HIGHEST_PROTOCOL))
        return self.states.get(deciding)


@dataclass(frozen=True, eq=False)
class Beginning:
    """The beginning of an episode.

    Attributes
    ----------
    state, since
        The state, and the cycle of its last arrival.
    gap
        Cycles from then on, or until the engine was idle.
    rows
        int64[messages, columns]: arguments of `Engine.send_many` without the cycle.
    cycle
        Of the messages.
    first
        Number of the first message.
    """

    state: RestState
    since: int
    gap: int
    rows: IntArray
    cycle: int
    first: int

    @property
    def key(self) -> tuple[RestState, int, bytes]:
        return self.state, self.gap, self.rows.tobytes()


class EpisodeEngine:
    """An engine with the interface that `Part` uses, which replays known episodes.

    During a replay, and at rest after it, there is no engine; it is made from the pickle of the state when it is used.

    Parameters
    ----------
    engine
        Before its first message.
    book
        That of all congruent engines.
    windows
        Whose windows must not end in a replay.
    """

    def __init__(self, engine: Engine, book: EpisodeBook, windows: WindowRecorder) -> None:
        self.book, self._windows = book, windows
        self.now = engine.now
        self._engine: Engine | None = engine
        self._state = book.state_of(engine)  # None: messages are under way, or it is not known
        self._since = engine.now  # the cycle of that state
        if self._state is not None:
            self._state.settles = 0
        self._replay: tuple[Beginning, Episode] | None = None
        self._passed = 0  # arrivals of the replay that were returned
        self._recording: tuple[Beginning, Totals] | None = None
        self._recorded: list[tuple[int, int]] = []
        self._count = 0  # messages sent
        self._offset = 0  # of their numbers to those of the engine
        self.independent_ports = engine.independent_ports
        # Counted in all before the engine was made, and what it had counted then.
        self._before = self._base = Totals.of(engine)
        self._peaks = engine.take_peaks()
        self.replayed_visits = 0

    # -- messages --

    def send_many(self, *columns: Any) -> int:
        rows = as_rows(columns)
        first, self._count = self._count, self._count + len(rows)
        if self._replay is not None:
            self._restore()
        begin, self._recording = self._beginning(rows, first), None
        if begin is not None:
            known = self.book.episodes.get(begin.key)
            if known is not None and not self._window_ends(begin.cycle, begin.cycle + known.duration):
                self._before, self._peaks = self._counted(), self.buffer_max()
                self._replay, self._passed, self._engine = (begin, known), 0, None
                return first
        engine = self._placed()
        if begin is not None and len(self.book.episodes) < MOST_EPISODES:
            self._peaks = np.maximum(self._peaks, engine.take_peaks())
            self._recording, self._recorded = (begin, Totals.of(engine)), []
        self._state = None
        self._send(engine, rows, first)
        return first

    def _beginning(self, rows: IntArray, first: int) -> Beginning | None:
        """The beginning of an episode with these messages; None where the state is not known, or is not at rest."""
        state, at = self._state, int(rows[0, AT])
        if state is None or (rows[:, AT] != at).any():
            return None
        gap = at - self._since
        gap = gap if state.settles is None else min(gap, state.settles)
        return Beginning(
            state, self._since, gap, rows[:, [column for column in range(rows.shape[1]) if column != AT]], at, first
        )

    def _send(self, engine: Engine, rows: IntArray, first: int) -> None:
        self._offset = first - engine.totals()["messages"]
        engine.send_many(*rows.T)

    def _window_ends(self, begin: int, end: int) -> bool:
        return begin // self._windows.window != end // self._windows.window

    def _placed(self) -> Engine:
        """The engine in the current state, with no replay under way."""
        if self._engine is None:
            assert self._state is not None
            self._place(self._state, self._since)
            assert self._engine is not None
            while self._engine.now < self.now:  # past the ends of windows that were recorded at rest
                if self._engine.run(self.now, repeats_until=self.now).reason == "idle":
                    break
        assert self._engine is not None
        return self._engine

    def _place(self, state: RestState, since: int) -> None:
        engine: Engine = pickle.loads(state.engine)
        engine.shift_time(since - engine.now)
        engine.take_peaks()
        self._engine, self._base = engine, Totals.of(engine)

    def _restore(self) -> None:
        """End a replay: simulate it up to now."""
        assert self._replay is not None
        begin, _ = self._replay
        self._replay, self._state = None, None
        self._place(begin.state, begin.since)
        engine = self._placed()
        self._send(engine, np.insert(begin.rows, AT, begin.cycle, axis=1), begin.first)
        passed = 0
        while engine.now < self.now:
            stop = engine.run(self.now, repeats_until=self.now)
            if stop.reason == "repeats":
                engine.skip()
            passed += len(stop.messages)
        if passed != self._passed:
            raise RuntimeError("a replay differs from its episode")

    # -- time --

    def run(self, until: int, *, slack: int = 0, window: int = 0, repeats_until: int = 0) -> Stop:
        """Simulate, or replay; see `Engine.run`. It returns at the first arrival whatever `slack` is."""
        if self._replay is not None:
            return self._run_replay(*self._replay, until, window)
        if self._engine is None:
            assert self._state is not None
            return self._rest(self._since + self._state.settled(), until, window)
        engine = self._placed()
        stop = engine.run(until, window=window, repeats_until=repeats_until)
        self.now = engine.now
        if stop.reason == "idle" and self._state is not None and self._state.settles is None:
            self._state.settles = engine.now - self._since
        if not len(stop.messages):
            return stop
        messages = stop.messages + self._offset
        if self._recording is not None:
            begin, _ = self._recording
            self._recorded += zip((stop.cycles - begin.cycle).tolist(), (messages - begin.first).tolist(), strict=True)
        if not engine.messages_pending:
            self._come_to_rest(engine)
        return Stop(stop.reason, stop.cycle, messages, stop.cycles)

    def _come_to_rest(self, engine: Engine) -> None:
        """Note the state, and the episode that has led to it."""
        self._state, self._since = self.book.state_of(engine), engine.now
        if self._recording is not None and self._state is not None:
            begin, before = self._recording
            peaks = engine.take_peaks()
            self._peaks = np.maximum(self._peaks, peaks)
            counted = Totals.of(engine).minus(before)
            self.book.episodes[begin.key] = Episode(self._recorded, counted, peaks, self._state)
        self._recording = None

    def _run_replay(self, begin: Beginning, episode: Episode, until: int, window: int) -> Stop:
        """Return the end of the window before the episode if it has counts, or the next arrival up to `until`."""
        if window and self._windows.end <= begin.since:
            end = (begin.since // window + 1) * window
            if self.now <= end <= min(begin.cycle, until):
                self.now = end
                return Stop("window", end, NONE, NONE)
        cycle = self.next_arrival
        assert cycle is not None
        if cycle > until:
            self.now = max(self.now, until)
            return Stop("until", self.now, NONE, NONE)
        rest = episode.arrivals[self._passed :]
        messages = [begin.first + message for after, message in rest if begin.cycle + after == cycle]
        self._passed += len(messages)
        self.now = cycle
        if self._passed == len(episode.arrivals):
            self._replay, self._state, self._since = None, episode.state, cycle
            self._before = self._before.plus(episode.counted).with_skipped(episode.duration - episode.counted.skipped)
            self._peaks = np.maximum(self._peaks, episode.peaks)
            self.replayed_visits += episode.counted.total("router_visits")
        return Stop("delivered", cycle, np.array(messages), np.full(len(messages), cycle))

    def _rest(self, idle: int, until: int, window: int) -> Stop:
        """Let time pass at rest, up to the end of a window, or the cycle in which the engine is idle."""
        end = (self.now // window + 1) * window if window else until + 1
        self.now = max(self.now, min(idle, until, end))
        reason = "window" if self.now == end else "idle" if self.now >= idle else "until"
        return Stop(reason, self.now, NONE, NONE)

    @property
    def next_arrival(self) -> int | None:
        """The cycle of the next arrival of a replay; None without one."""
        if self._replay is None:
            return None
        begin, episode = self._replay
        return begin.cycle + episode.arrivals[self._passed][0]

    def packets_left(self, messages: IntArray) -> IntArray:
        return self._placed().packets_left(messages - self._offset)

    @property
    def ahead(self) -> int:
        return self._placed().ahead

    def totals_ahead(self, cycles: IntArray, links: int) -> IntArray:
        own = self._placed().totals_ahead(cycles, links)
        before = self._before.minus(self._base).counters
        whole: IntArray = own + np.stack([before[name][:links] for name in COUNTERS])
        return whole

    def skip(self) -> None:
        engine = self._placed()
        engine.skip()
        self.now = engine.now

    # -- results --

    def _counted(self) -> Totals:
        """Everything counted so far."""
        if self._replay is not None:
            if self.now <= self._replay[0].cycle:
                return self._before
            self._restore()
        if self._engine is None:
            return self._before
        return self._before.plus(Totals.of(self._engine)).minus(self._base)

    def counters(self) -> dict[str, IntArray]:
        return self._counted().counters

    def totals(self) -> dict[str, int]:
        return self._counted().totals

    def buffer_max(self) -> NDArray[np.int32]:
        if self._replay is not None:
            self._restore()
        if self._engine is None:
            return self._peaks
        return np.maximum(self._peaks, self._engine.buffer_max())

    @property
    def router_visits(self) -> int:
        """Without those of a replay under way."""
        visits = self._before.total("router_visits")
        if self._engine is not None:
            visits += self._engine.router_visits - self._base.total("router_visits")
        return visits

    @property
    def skipped(self) -> int:
        own = 0 if self._engine is None else self._engine.skipped - self._base.skipped
        return self._before.skipped + own

    @property
    def messages_pending(self) -> int:
        if self._replay is not None:
            return len(self._replay[1].arrivals) - self._passed
        return 0 if self._engine is None else self._engine.messages_pending

    @property
    def flits_in_flight(self) -> int:
        if self._replay is not None:
            self._restore()
        return 0 if self._engine is None else self._engine.flits_in_flight

    @property
    def nbytes(self) -> int:
        return 0 if self._engine is None else self._engine.nbytes

    def waiting(self) -> list[dict[str, Any]]:
        if self.flits_in_flight == 0 or self._engine is None:
            return []
        return [{**row, "message": row["message"] + self._offset} for row in self._engine.waiting()]
