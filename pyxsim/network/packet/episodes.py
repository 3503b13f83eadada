"""Replay episodes: what an engine does between two states in which no message is under way.

An *episode* begins with messages that are sent in one cycle to an engine at rest, and ends when all messages have
arrived, those that were sent meanwhile, too. Time and numbers of messages do not matter (docs/fast_forward.md), so
equal messages sent to an equal state at the same distances arrive after the same times, count the same and leave the
same state. The steps of collectives repeat a few episodes thousands of times; each is simulated once, and replayed from
then on.

States are compared whole (`Engine.deciding_state`). Credits may still be on their way at rest, so the time since the
last arrival is a part of the beginning, until the engine is idle. A replay ends where other messages are sent than in
the known episodes that begin like this one: the engine is restored at its beginning and simulated up to now. An episode
with the end of a window inside is simulated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine import Engine, Stop
from pyxsim.core.state.record_dtypes import COUNTERS
from pyxsim.network.packet.episode_book import AT, Call, Cause, Episode, EpisodeBook, RestState, Step, Totals
from pyxsim.network.packet.split_engine import as_rows
from pyxsim.network.windows import WindowRecorder

NONE = np.zeros(0, np.int64)
MOST_CALLS = 4096  # of `send_many` in an episode


class Beginning(NamedTuple):
    """The beginning of an episode.

    Attributes
    ----------
    state, since
        The state, and the cycle of its last arrival.
    gap
        Cycles from then on, or until the engine was idle.
    cycle, first
        Cycle and number of the first message.
    """

    state: RestState
    since: int
    gap: int
    cycle: int
    first: int


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
        # The episode under way, if any; each call of `send_many` since then, and the cycles from its beginning.
        self._begin: Beginning | None = None
        self._calls: list[tuple[Call, int]] = []
        self._replay: Step | None = None  # of which these calls are the messages
        self._passed = 0  # arrivals of the replay that were returned
        self._recording: Totals | None = None  # while it is simulated to be kept: what was counted at its beginning
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
        return self.send(*Call.of(as_rows(columns)))

    def send(self, call: Call, at: int) -> int:
        """Send messages, the first one in cycle `at`; return its number."""
        first, self._count = self._count, self._count + len(call.rows)
        if self._replay is not None:
            if self._continue_replay(self._replay, call, at):
                return first
            self._restore()
        elif self._state is not None:
            self._begin, self._calls, self._recording = self._beginning(self._state, call, at, first), [], None
            if self._begin is not None and self._start_replay(self._begin, call):
                return first
            engine = self._placed()
            if self._begin is not None and not self.book.full:
                self._peaks = np.maximum(self._peaks, engine.take_peaks())
                self._recording, self._recorded = Totals.of(engine), []
        engine = self._placed()
        self._state = None
        if self._recording is not None:
            self._note_call(call, at)
        self._send(engine, call.at(at), first)
        return first

    def _beginning(self, state: RestState, call: Call, at: int, first: int) -> Beginning | None:
        """The beginning of an episode with these messages first; None if they are sent in several cycles."""
        if not call.together:
            return None
        gap = min(at - self._since, self.book.settled(state))
        return Beginning(state, self._since, gap, at, first)

    def _start_replay(self, begin: Beginning, call: Call) -> bool:
        """Replay an episode that begins with these messages; return whether one is known."""
        step = self.book.first_step(begin.state, begin.gap, call)
        if step is None or self._window_ends(begin, step):
            return False
        self._before, self._peaks = self._counted(), self.buffer_max()
        self._replay, self._calls, self._passed, self._engine = step, [(call, 0)], 0, None
        return True

    def _continue_replay(self, step: Step, call: Call, at: int) -> bool:
        """Continue a replay with more messages; return whether an episode with them is known."""
        assert self._begin is not None
        after = self.book.next_step(step, call, at - self._begin.cycle)
        if after is None or self._window_ends(self._begin, after):
            return False
        if step.outcome.arrivals[: self._passed] != after.outcome.arrivals[: self._passed]:
            raise RuntimeError("two episodes that begin with equal messages differ")
        self._calls.append((call, at - self._begin.cycle))
        self._replay = after
        return True

    def _note_call(self, call: Call, at: int) -> None:
        """Add messages to the episode that is recorded. It is not kept if it becomes too long."""
        assert self._begin is not None
        after = at - self._begin.cycle
        if self._calls and (len(self._calls) >= MOST_CALLS or after + int(call.rows[:, AT].min()) < 0):
            self._recording = None
        self._calls.append((call, after))

    def _send(self, engine: Engine, rows: IntArray, first: int) -> None:
        self._offset = first - engine.totals()["messages"]
        engine.send_many(*rows.T)

    def _window_ends(self, begin: Beginning, step: Step) -> bool:
        """Whether a window ends in the part of an episode that is known at a step."""
        end = begin.cycle + min(step.outcome.duration, step.until)
        return begin.cycle // self._windows.window != end // self._windows.window

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
        engine = self.book.engine_in(state)
        engine.shift_time(since - engine.now)
        engine.take_peaks()
        self._engine, self._base = engine, Totals.of(engine)

    def _restore(self) -> None:
        """End a replay: simulate it up to now."""
        assert self._begin is not None
        begin = self._begin
        self._replay, self._state = None, None
        self._place(begin.state, begin.since)
        engine = self._placed()
        self._recording, self._recorded = self._base, []
        self._send(engine, np.concatenate([call.at(begin.cycle + after) for call, after in self._calls]), begin.first)
        while engine.now < self.now:
            stop = engine.run(self.now, repeats_until=self.now)
            if stop.reason == "repeats":
                engine.skip()
            self._record(stop)
        if len(self._recorded) != self._passed:
            raise RuntimeError("a replay differs from its episode")
        if self.book.full:
            self._recording = None

    # -- time --

    def run(self, until: int, *, slack: int = 0, window: int = 0, repeats_until: int = 0) -> Stop:
        """Simulate, or replay; see `Engine.run`. It returns at the first arrival whatever `slack` is."""
        if self._replay is not None:
            return self._run_replay(self._replay, until, window)
        if self._engine is None:
            assert self._state is not None
            return self._rest(self._since + self.book.settled(self._state), until, window)
        engine = self._placed()
        stop = engine.run(until, window=window, repeats_until=repeats_until)
        self.now = engine.now
        if stop.reason == "idle" and self._state is not None and self._state.settles is None:
            self._state.settles = engine.now - self._since
        if not len(stop.messages):
            return stop
        self._record(stop)
        if not engine.messages_pending:
            self._come_to_rest(engine)
        return Stop(stop.reason, stop.cycle, stop.messages + self._offset, stop.cycles)

    def _record(self, stop: Stop) -> None:
        """Note arrivals in the episode that is recorded, if any."""
        if self._recording is None:
            return
        assert self._begin is not None
        messages = stop.messages + (self._offset - self._begin.first)
        self._recorded += zip((stop.cycles - self._begin.cycle).tolist(), messages.tolist(), strict=True)

    def _come_to_rest(self, engine: Engine) -> None:
        """Note the state, and the episode that has led to it."""
        self._state, self._since = self.book.state_of(engine), engine.now
        begin, before, self._recording = self._begin, self._recording, None
        if begin is not None and before is not None and self._state is not None:
            peaks = engine.take_peaks()
            self._peaks = np.maximum(self._peaks, peaks)
            counted = Totals.of(engine).minus(before)
            cause = Cause.of(begin.state, begin.gap, [call.at(after) for call, after in self._calls])
            if cause not in self.book.episodes:  # it may have been replayed in part
                self.book.keep(cause, Episode(self._recorded, counted, peaks, self._state))

    def _run_replay(self, step: Step, until: int, window: int) -> Stop:
        """Return the end of the window before the episode if it has counts, or the next arrival up to `until`."""
        begin, episode = self._begin, step.outcome
        assert begin is not None
        if window and self._windows.end <= begin.since:
            end = (begin.since // window + 1) * window
            if self.now <= end <= min(begin.cycle, until):
                self.now = end
                return Stop("window", end, NONE, NONE)
        arrivals = episode.arrivals
        after = arrivals[self._passed][0]
        cycle = begin.cycle + after
        if begin.cycle + step.until < min(cycle, until):  # without the messages that followed here in known episodes
            self._restore()
            return self.run(until, window=window, repeats_until=until)
        if cycle > until:
            self.now = max(self.now, until)
            return Stop("until", self.now, NONE, NONE)
        messages = []
        while self._passed < len(arrivals) and arrivals[self._passed][0] == after:
            messages.append(begin.first + arrivals[self._passed][1])
            self._passed += 1
        self.now = cycle
        if self._passed == len(arrivals):
            self._replay, self._state, self._since = None, episode.state, cycle
            self._before = self._before.plus(episode.replayed)
            self._peaks = np.maximum(self._peaks, episode.peaks)
            self.replayed_visits += episode.counted.total("router_visits")
            self.book.note_replay(step)
        return Stop("delivered", cycle, np.array(messages), np.full(len(messages), cycle))

    def _rest(self, idle: int, until: int, window: int) -> Stop:
        """Let time pass at rest, up to the end of a window, or the cycle in which the engine is idle."""
        end = (self.now // window + 1) * window if window else until + 1
        self.now = max(self.now, min(idle, until, end))
        reason = "window" if self.now == end else "idle" if self.now >= idle else "until"
        return Stop(reason, self.now, NONE, NONE)

    @property
    def quiet_until(self) -> int | None:
        """A cycle up to and including which nothing arrives in a replay; None without one."""
        if self._replay is None:
            return None
        assert self._begin is not None
        next_arrival = self._replay.outcome.arrivals[self._passed][0]
        return self._begin.cycle + min(next_arrival - 1, self._replay.until)

    @property
    def next_arrival(self) -> int | None:
        """The cycle of the next arrival in a replay, unless other messages must be sent before; None without one."""
        if self._replay is None:
            return None
        assert self._begin is not None
        next_arrival = self._replay.outcome.arrivals[self._passed][0]
        return self._begin.cycle + next_arrival if next_arrival <= self._replay.until else None

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
            assert self._begin is not None
            if self.now <= self._begin.cycle:
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
            return self._replay.messages - self._passed
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
