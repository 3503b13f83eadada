"""One network as several engines, one per group of messages that share no link (docs/fast_forward.md).

Each engine has all routers and links and uses those of its group. No link or lane belongs to two groups, so each link
is counted by one engine, and sums and peaks equal those of the whole network. Groups interact only through the system
layer: an arrival may start a message anywhere. So no engine runs past a cycle in which another one may deliver.

A lower bound of that cycle follows from the flits that a message has yet to send: they cross the slowest link of the
path one by one, the buffers after that link are finite, and a message that has not left its source has the whole path
ahead. The bound is early by a few hundred cycles. The engine with the earliest bound runs to its delivery while the
others have none; if several bounds are close, these engines advance by the slack of the system layer. An engine whose
bound is later stays behind until then, or until it gets a message.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pyxsim.arrays import IntArray
from pyxsim.core.engine import Engine, Stop
from pyxsim.core.state.record_dtypes import COUNTERS
from pyxsim.network.windows import Totals, WindowRecorder, Windows

FOREVER = 1 << 60
CUT_WORDS = 1 << 20  # totals at window ends that are recorded at once: about 8 MB
NOTHING = (np.zeros(0, np.int64), np.zeros(0, np.int64))
NO_MESSAGES = (*NOTHING, np.zeros(0, np.int64))
OPEN = 2  # packets of a message that the bound does not count, as they may be partly delivered: one, and the last


@dataclass(frozen=True)
class Groups:
    """Groups of messages that share no link and no lane.

    Attributes
    ----------
    lane, eject
        int64[injection lanes], int64[ejection lanes]: the group that uses a lane; -1: none.
    links
        Network links of each group.
    pace
        Lower bound of the cycles per flit on the slowest link of its paths.
    room
        Upper bound of the buffer slots from that link on.
    latency
        Minimum latency of the links of a path.
    """

    lane: IntArray
    eject: IntArray
    links: Sequence[IntArray]
    pace: Sequence[Fraction]
    room: Sequence[int]
    latency: Sequence[int]

    def __len__(self) -> int:
        return len(self.pace)


class Part:
    """The engine of a group. `still`: whether it is idle until it gets a message."""

    def __init__(
        self, engine: Engine, windows: WindowRecorder, links: IntArray, pace: Fraction, room: int, latency: int
    ) -> None:
        self.engine, self.windows, self.links = engine, windows, links
        self.pace, self.room, self.latency = pace, room, latency
        self.still = True
        self.slept = self.skipped_visits = 0
        self._quiet = FOREVER  # as of the last call of `quiet`
        self._bound: int | None = FOREVER  # the same; None: it has run, or got a message, since then
        self.numbers = array("q")  # of its messages, in the whole network
        # Messages in flight: number in its engine, cycle of sending, flits of a packet; since then sent and arrived.
        self._live, self._at, self._flits = NO_MESSAGES
        self._newly_sent: list[tuple[int, int, IntArray, IntArray]] = []  # as in `_note_sent`
        self._newly_arrived: list[IntArray] = []
        self._in_flight = 0
        self._last = int(links.max(initial=-1)) + 1
        self._cuts = max(1, CUT_WORDS // max(1, len(COUNTERS) * self._last))

    def send(self, numbers: IntArray, columns: Sequence[IntArray]) -> None:
        """Send messages with these numbers in the whole network; `columns` as in `Engine.send_many`."""
        at = columns[7]
        self._wake(int(at.min()))
        self._note_sent(self.engine.send_many(*columns), 0, at, columns[5])
        self.numbers.frombytes(numbers.astype(np.int64).tobytes())

    def _wake(self, cycle: int) -> None:
        """Prepare for messages that are sent in `cycle` or later."""
        if self.still:
            self.slept += max(0, cycle - self.engine.now)
            self.still = False
        self._quiet, self._bound = min(self._quiet, cycle), None

    def _note_sent(self, first: int, at: int, after: IntArray, flits: IntArray) -> None:
        """Note messages from number `first` on, each sent some cycles `after` cycle `at`, with `flits` in a packet."""
        self._newly_sent.append((first, at, after, flits))
        self._in_flight += len(flits)

    def _note_arrived(self, messages: IntArray) -> None:
        self._newly_arrived.append(messages)
        self._in_flight -= len(messages)
        if not self._in_flight:
            self._live, self._at, self._flits = NO_MESSAGES
            self._newly_sent.clear()
            self._newly_arrived.clear()

    def _update_live(self) -> None:
        """Apply what was sent and what has arrived to the messages in flight."""
        if self._newly_sent:
            numbers = [np.arange(first, first + len(flits)) for first, _, _, flits in self._newly_sent]
            self._live = np.concatenate([self._live, *numbers])
            self._at = np.concatenate([self._at, *(at + after for _, at, after, _ in self._newly_sent)])
            self._flits = np.concatenate([self._flits, *(flits for _, _, _, flits in self._newly_sent)])
        if self._newly_arrived:
            pending = ~np.isin(self._live, np.concatenate(self._newly_arrived))
            self._live, self._at, self._flits = self._live[pending], self._at[pending], self._flits[pending]
        self._newly_sent.clear()
        self._newly_arrived.clear()

    @property
    def bound(self) -> int:
        """A cycle up to and including which none of its messages arrives."""
        if self._bound is None:
            self._bound = self.quiet()
        return self._bound

    @property
    def arrives_after_bound(self) -> bool:
        """Whether one of its messages certainly arrives in the cycle after the bound."""
        return False

    def follow(self, cycle: int) -> None:
        """Run to a cycle up to which none of its messages arrives."""
        if len(self.run(cycle, FOREVER)[0]):
            raise RuntimeError("a message arrived before the lower bound of its arrival")

    def quiet(self) -> int:
        """Return a cycle up to and including which none of its messages arrives."""
        if not self._in_flight:
            self._quiet = FOREVER
            return FOREVER
        self._update_live()
        _, unsent, left, last_flits = self.engine.packets_left(self._live)
        flits = np.stack([np.maximum((unsent - OPEN) * self._flits - self.room - 1, 0), last_flits - 1])
        all_, tail = flits * self.pace.numerator // self.pace.denominator
        by_rate = np.maximum(self._at, self.engine.now) + np.maximum(all_ - 1, 0)
        by_last_packet = np.maximum(self._at, left) + self.latency + tail - 1
        self._quiet = int(np.maximum(by_rate, by_last_packet).min())
        return self._quiet

    def run(self, until: int, slack: int) -> tuple[IntArray, IntArray]:
        """Run to cycle `until`, or to `slack` cycles after the first delivery.

        Returns the numbers of the delivered messages in the whole network, and their cycles.
        """
        batches: list[tuple[IntArray, IntArray]] = []
        engine = self.engine
        self._bound = None
        while not self.still:
            stop = engine.run(until, slack=slack, window=self.windows.window, repeats_until=until)
            if len(stop.messages):
                if stop.cycles[0] <= self._quiet:
                    raise RuntimeError("a message arrived before the lower bound of its arrival")
                if not batches:
                    until = min(until, int(stop.cycles[0]) + slack)
                self._note_arrived(stop.messages)
                batches.append(self._delivered(stop))
            if stop.reason == "window":
                self.record(engine.now)
            elif stop.reason == "repeats":
                self._skip()
            elif stop.reason in ("idle", "deadlock"):
                self.still = True
                self.record(max(engine.now, self.windows.end))
            elif engine.now >= until:
                break
        return joined(batches)

    def _delivered(self, stop: Stop) -> tuple[IntArray, IntArray]:
        """The numbers of the delivered messages in the whole network, and their cycles."""
        return np.frombuffer(self.numbers, np.int64)[stop.messages], stop.cycles

    def record(self, cycle: int) -> None:
        """Record the counters of its links at the beginning of `cycle`."""
        self.windows.record(cycle, {name: values[self.links] for name, values in self.engine.counters().items()})

    def _skip(self) -> None:
        """Skip the detected periods, as `PacketNetwork._skip`."""
        engine = self.engine
        cuts = self.windows.cuts(engine.now, engine.ahead)
        for chosen in np.array_split(cuts, -(-len(cuts) // self._cuts)) if len(cuts) else ():
            totals = engine.totals_ahead(chosen, self._last)
            self.windows.record_many(chosen, COUNTERS, totals[:, :, self.links])
        before = engine.router_visits
        engine.skip()
        self.skipped_visits += engine.router_visits - before


class SplitEngine:
    """Several engines with the interface that `PacketNetwork` uses, without attribution and traces.

    `run` returns at deliveries, at `until` or when idle; `windows` records the windows of all parts. `runs` counts the
    runs of single parts.
    """

    attribution = 0
    watching = False
    ahead = 0

    def __init__(self, engines: Sequence[Engine], windows: WindowRecorder, groups: Groups) -> None:
        recorders = [WindowRecorder(windows.window, len(used_links), of=windows.links) for used_links in groups.links]
        columns = engines, recorders, groups.links, groups.pace, groups.room, groups.latency
        self.parts = [Part(*arguments) for arguments in zip(*columns, strict=True)]
        self.windows = SeveralWindows(self.parts, windows.links)
        self._lane, self._eject = groups.lane, groups.eject
        self._count = self.runs = 0
        self.now = max(engine.now for engine in engines)

    # -- messages --

    def send(self, *row: int) -> int:
        return self.send_many(*(np.array([value], np.int64) for value in row))

    def send_many(self, *columns: ArrayLike) -> int:
        rows = as_rows(columns).T
        inject, eject = rows[:2]
        group = self._lane[inject]
        if (group < 0).any() or (group != self._eject[eject]).any():
            raise RuntimeError("a message uses other lanes than `expect` announced")
        first = self._count
        numbers = np.arange(first, first + len(inject))
        for number, part in enumerate(self.parts):
            if len(members := np.flatnonzero(group == number)):
                part.send(numbers[members], [column[members] for column in rows])
        self._count += len(inject)
        return first

    # -- time --

    def run(self, until: int, *, slack: int = 0, window: int = 0, repeats_until: int = 0, apart: bool = False) -> Stop:
        """Simulate; see `Engine.run`."""
        while moving := [part for part in self.parts if not part.still]:
            quiet = [part.bound for part in moving]
            low = min(quiet)
            first = quiet.index(low)
            goal = min([until, *quiet[:first], *quiet[first + 1 :]])
            deliveries: list[tuple[IntArray, IntArray]] = []
            first_cycle = FOREVER
            if any(part.arrives_after_bound for part, bound in zip(moving, quiet, strict=True) if bound == low):
                first_cycle = low + 1
            elif goal > self.now + slack:
                self.runs += 1
                if len((delivery := moving[first].run(goal, slack))[0]):
                    deliveries.append(delivery)
                first_cycle = _earliest(deliveries)
            else:
                goal = min(until, self.now + max(slack, 1))
            end = min(until, goal if first_cycle == FOREVER else first_cycle + slack)
            deliveries += self._follow(end)
            earliest = _earliest(deliveries)
            if earliest < first_cycle:  # delivered by an engine that followed
                end = min(until, earliest + slack)
                deliveries += self._follow(end)
            all_still = all(part.still for part in self.parts)
            self.now = max(part.engine.now for part in moving) if all_still else end
            if deliveries:
                messages, cycles = joined(deliveries)
                order = np.lexsort((messages, cycles))
                return Stop("delivered", self.now, messages[order], cycles[order])
            if end >= until and not all_still:
                return Stop("until", self.now, *NOTHING)
        return Stop("deadlock" if self.flits_in_flight else "idle", self.now, *NOTHING)

    def _follow(self, end: int) -> list[tuple[IntArray, IntArray]]:
        """Run all engines to the same cycle, but for those without a delivery until then."""
        moving = [part for part in self.parts if not part.still]
        bounds = [part.bound for part in moving]
        behind = min(bounds, default=FOREVER) < FOREVER  # otherwise only credits are under way
        late = [part for part, bound in zip(moving, bounds, strict=True) if bound < end or not behind]
        self.runs += len(late)
        return [delivery for part in late if len((delivery := part.run(end, FOREVER))[0])]

    def catch_up(self) -> None:
        """Run all engines to the current cycle."""
        for part in self.parts:
            if not part.still and part.engine.now < self.now:
                part.follow(self.now)

    # -- results --

    @property
    def skipped(self) -> int:
        """Cycles skipped by the part that simulated the most cycles."""
        most = max(part.engine.now - part.engine.skipped - part.slept for part in self.parts)
        return max(0, self.now - most) if any(part.engine.skipped for part in self.parts) else 0

    @property
    def skipped_visits(self) -> int:
        return sum(part.skipped_visits for part in self.parts)

    @property
    def flits_in_flight(self) -> int:
        return sum(part.engine.flits_in_flight for part in self.parts)

    @property
    def router_visits(self) -> int:
        return sum(part.engine.router_visits for part in self.parts)

    @property
    def messages_pending(self) -> int:
        return sum(part.engine.messages_pending for part in self.parts)

    @property
    def nbytes(self) -> int:
        return sum(part.engine.nbytes for part in self.parts)

    def counters(self) -> dict[str, IntArray]:
        self.catch_up()
        by_part = [part.engine.counters() for part in self.parts]
        return {name: np.sum([counts[name] for counts in by_part], axis=0) for name in by_part[0]}

    def buffer_max(self) -> NDArray[np.int32]:
        self.catch_up()
        peaks: NDArray[np.int32] = np.max([part.engine.buffer_max() for part in self.parts], axis=0)
        return peaks

    def totals(self) -> dict[str, int]:
        self.catch_up()
        by_part = [part.engine.totals() for part in self.parts]
        return {name: sum(counts[name] for counts in by_part) for name in by_part[0]}

    def waiting(self) -> list[dict[str, Any]]:
        return [
            {**row, "message": part.numbers[row["message"]]} for part in self.parts for row in part.engine.waiting()
        ]


def as_rows(columns: Sequence[ArrayLike]) -> IntArray:
    """Return arguments of `Engine.send_many` as int64[messages, columns]; the first has an entry for each message."""
    rows = np.empty((np.size(columns[0]), len(columns)), np.int64)
    for number, column in enumerate(columns):
        rows[:, number] = column
    return rows


def joined(deliveries: Sequence[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    """Return several pairs of arrays, such as messages and cycles, as one."""
    if len(deliveries) == 1:
        return deliveries[0]
    messages, cycles = (np.concatenate(column) for column in zip(NOTHING, *deliveries, strict=True))
    return messages, cycles


def _earliest(deliveries: Sequence[tuple[IntArray, IntArray]]) -> int:
    """The first cycle of all deliveries."""
    return min((int(cycles[0]) for _, cycles in deliveries), default=FOREVER)


class SeveralWindows:
    """The windows of all parts as those of one network. Each part supplies its own totals."""

    def __init__(self, parts: Sequence[Part], links: int) -> None:
        self._parts, self.links = parts, links

    @property
    def window(self) -> int:
        return max(part.windows.window for part in self._parts)

    @property
    def end(self) -> int:
        return max(part.windows.end for part in self._parts)

    def record(self, cycle: int, _totals: Totals) -> None:
        for part in self._parts:
            part.record(max(cycle, part.windows.end))

    def close(self, cycle: int) -> None:
        last = max(part.windows.last for part in self._parts)
        for part in self._parts:
            part.windows.close(max(cycle, last))

    def table(self) -> Windows:
        tables = [part.windows.table() for part in self._parts]
        first = max(tables, key=len)
        counts = {name: np.zeros((len(first), self.links), np.uint64) for name in COUNTERS}
        for part, windows in zip(self._parts, tables, strict=True):
            for name, values in windows.counts.items():
                counts[name][: len(windows), part.links] = values
        return Windows(first.start, first.length, counts)
