"""How long open traffic runs, which part of it is measured, and whether the network is saturated (docs/traffic.md).

Looks are taken at longer and longer times. At each one the transient is found anew (MSER), and the interval of the mean
latency behind it; the run ends when it is narrow enough twice in a row, or when it turns out twice in a row that the
network is saturated, or at a limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pyxsim.analysis.statistics import Interval, interval, settled
from pyxsim.arrays import FloatArray, IntArray
from pyxsim.runner.traffic.feed import Feed
from pyxsim.runner.traffic.observe import MAX_BATCHES, Grid, Observer

FIRST_LOOK = 60  # batches
GROWTH = 1.25  # from one look to the next
SHORTEST = 100  # cycles of a batch
PACKETS = 16  # of a batch, at least
LONGEST = 200_000  # cycles of a run, if no other number is given; or so many batches, if that is more:
MOST = 400
LEAST = 100  # batches of a run with a limit
FLIGHTS = 2  # mean zero-load latencies: by then what was created first has arrived over the longest routes, too
PACKETS_LOOKED_AT = FIRST_LOOK * GROWTH * PACKETS  # at the second look, the first after which a run may end
MAX_LENGTH = 1 << 32
ACCEPTED = 0.97  # of the load that was created: less is saturated


@dataclass(frozen=True)
class Rules:
    """`warmup`, `measure`: cycles, None for as many as are needed. `max_cycles`: when to stop, None for a time that
    suits the network. `latency_limit`: cycles; None: there is none. `flight`: the zero-load latency."""

    warmup: int | None = None
    measure: int | None = None
    precision: float = 0.01
    max_cycles: int | None = None
    latency_limit: float | None = None
    flight: float = 0.0

    def grid(self, packets_per_cycle: float, zero_load: float | None) -> Grid:
        """The batches that suit a load and a network: long enough for one packet, and for some."""
        wanted = max(SHORTEST, zero_load or 0, PACKETS / max(packets_per_cycle, 1e-9))
        wanted = max(wanted, 8 * (self.max_cycles or 0) / MAX_BATCHES)
        length = SHORTEST * math.ceil(min(wanted, MAX_LENGTH) / SHORTEST)
        if self.max_cycles is not None:
            length = max(1, min(length, self.max_cycles // LEAST))
        if self.measure is None:
            return Grid(self.warmup or 0, length)
        if self.warmup is None:
            return Grid(0, self.measure, max(1, round(self.measure / length)))
        return Grid(self.warmup, self.measure, min(FIRST_LOOK, self.measure))

    def longest(self, grid: Grid) -> int:
        """The cycles after which a run is stopped."""
        return self.max_cycles or max(LONGEST, MOST * grid.length // grid.parts)


@dataclass(frozen=True)
class Outcome:
    """What was measured: packets created in the batches `first` to `end` - 1; `accepted` was counted in the batches
    `from_` to `to` - 1. `why`: "precision", "measured", "saturated" or "limit"."""

    why: str
    first: int
    end: int
    from_: int
    to: int
    steady: bool
    saturated: bool
    reason: str = ""


@dataclass(frozen=True)
class _Look:
    """What is known after `batches` batches: `done` of them are complete, the first `cut` are the transient (None: not
    settled)."""

    batches: int
    done: int
    cut: int | None
    latency: Interval
    saturated: str

    def good(self, precision: float) -> bool:
        return self.cut is not None and self.latency.relative <= precision and self.latency.independent


def latency(observer: Observer, first: int, end: int, rows: slice | int | None = None) -> Interval:
    """The mean latency of packets created in some batches; of all real classes, if no rows are named."""
    rows = slice(observer.classes) if rows is None else rows
    part = (rows, slice(first, end))
    return _ratio(observer.latency.upto(end)[part], observer.arrived.upto(end)[part])


def network_latency(observer: Observer, first: int, end: int, rows: slice | int | None = None) -> Interval:
    """The same of the time in the network."""
    rows = slice(observer.classes) if rows is None else rows
    part = (rows, slice(first, end))
    return _ratio(observer.network.upto(end)[part], observer.arrived.upto(end)[part])


def _ratio(sums: IntArray, counts: IntArray) -> Interval:
    axis = tuple(range(sums.ndim - 1))
    return interval(sums.sum(axis=axis).astype(float), counts.sum(axis=axis).astype(float))


def accepted(observer: Observer, first: int, end: int) -> Interval:
    """Flits per node and cycle that arrived in some batches."""
    flits = observer.accepted_flits.upto(end)[: observer.classes, first:].sum(axis=0)
    return interval(flits.astype(float), _cycles(observer.grid, first, end) * float(observer.npus))


def created(observer: Observer, first: int, end: int) -> float:
    """Flits per node and cycle that were created in some batches."""
    flits = int(observer.created_flits.upto(end)[: observer.classes, first:].sum())
    cycles = observer.grid.start(end) - observer.grid.start(first)
    return flits / cycles / observer.npus if cycles else math.nan


def _cycles(grid: Grid, first: int, end: int) -> FloatArray:
    return np.diff([float(grid.start(batch)) for batch in range(first, end + 1)])


class Method:
    """Run a feed by the rules. If an exception ends `run`, `so_far` returns what was measured.

    The object holds all state: a copy of it, made while the network pauses, continues from there.
    """

    def __init__(self, feed: Feed, rules: Rules) -> None:
        self.feed = feed
        self.observer = feed.observer
        self.rules = rules
        self.longest = rules.longest(feed.observer.grid)
        self._batches = 0  # up to the next look
        self._before: _Look | None = None
        self._drained: int | None = None  # the first batch that is measured, while it waits for packets to arrive
        self._goal = 0  # of this waiting, the next cycle to look at

    def run(self) -> Outcome:
        """To the end. Raises what the network raises."""
        if self._drained is None and self.rules.warmup is not None and self.rules.measure is not None:
            self._begin_draining(0)
        return self._watch() if self._drained is None else self._drain(self._drained)

    def so_far(self, why: str) -> Outcome:
        """What there is after the run was left, and why it was."""
        cycle = max(self.feed.cycle, self.feed.network.now)
        batches = max(1, self.observer.grid.whole(cycle))
        return replace(self._ended("limit", self._look(batches)), why=why, steady=False)

    def _watch(self) -> Outcome:
        """Look at it at longer and longer times."""
        grid, rules = self.observer.grid, self.rules
        last = max(1, grid.whole(self.longest))
        self._batches = self._batches or min(FIRST_LOOK, last)
        while True:
            batches, before = self._batches, self._before
            self.feed.advance(grid.start(batches))
            look = self._look(batches)
            if before is not None:
                if rules.measure is not None and look.cut is not None and before.cut is not None:
                    self._begin_draining(look.cut)
                    return self._drain(look.cut)
                if rules.measure is None and look.good(rules.precision) and before.good(rules.precision):
                    return self._ended("precision", look)
                if look.saturated and before.saturated and not look.good(rules.precision):
                    return self._ended("saturated", look)
            if batches >= last:
                return self._ended("limit", look)
            self._batches, self._before = min(last, math.ceil(GROWTH * batches)), look

    def _look(self, batches: int) -> _Look:
        done = self.observer.complete(batches)
        cut: int | None = 0
        if self.rules.warmup is None:
            cuts = [settled(self._means(done)), settled(self.observer.backlog(batches)[0].astype(float))]
            known = [each for each in cuts if each is not None]
            cut = max(known) if len(known) == len(cuts) and max(known) < done else None
        first = batches // 2 if cut is None else cut
        return _Look(batches, done, cut, latency(self.observer, min(first, done), done), self._saturated(batches, done))

    def _means(self, done: int) -> FloatArray:
        """The mean latency of each complete batch; one without packets is as the one before."""
        sums = self.observer.latency.upto(done)[: self.observer.classes].sum(axis=0)
        counts = self.observer.arrived.upto(done)[: self.observer.classes].sum(axis=0)
        there = np.flatnonzero(counts)
        if not len(there):
            return np.zeros(0)
        means = sums[there] / counts[there]
        found: FloatArray = means[np.maximum(np.searchsorted(there, np.arange(done), side="right") - 1, 0)]
        return found

    def _saturated(self, batches: int, done: int, first: int | None = None) -> str:
        """Why the network is saturated, by the second half of the time; "" if it is not."""
        first = batches // 2 if first is None else first
        # What is created reaches its end a flight later: the first time counts less that arrives than is created.
        while first < batches and self.observer.grid.start(first) < FLIGHTS * self.rules.flight:
            first += 1
        if first >= batches:
            return ""
        rate, offered = accepted(self.observer, first, batches), created(self.observer, first, batches)
        if rate.high < ACCEPTED * offered:
            return f"it accepts {rate.mean:.4g} of {offered:.4g} flits per node and cycle, and its backlog grows"
        limit = self.rules.latency_limit
        if limit is None:
            return ""
        mean = latency(self.observer, first, done).mean if done > first else math.nan
        # Little's law: what is under way, over what arrives per cycle, is how long it takes.
        under_way = float(self.observer.backlog(batches)[0][first:].mean())
        packets = int(self.observer.accepted.upto(batches)[: self.observer.classes, first:].sum())
        cycles = self.observer.grid.start(batches) - self.observer.grid.start(first)
        little = under_way * cycles / packets if packets else math.inf if under_way else 0.0
        if little > limit and not mean <= limit:
            shown = little if math.isnan(mean) else mean
            return f"packets take {shown:,.0f} cycles, and the limit is {limit:,.0f}"
        return ""

    def _begin_draining(self, first: int) -> None:
        self._drained = first
        self._goal = max(self.observer.grid.start(first + self.observer.grid.parts), self.feed.cycle)

    def _drain(self, first: int) -> Outcome:
        """Measure the packets of a fixed time: run until all of them have arrived."""
        grid = self.observer.grid
        end = first + grid.parts
        limit = max(self.longest, 3 * grid.start(end))
        while True:
            self.feed.advance(self._goal)
            if self.observer.complete(end) >= end:
                break
            reason = self._saturated(end, self.observer.complete(end), first)
            if reason or self.feed.cycle >= limit:
                why = "saturated" if reason else "limit"
                return Outcome(why, first, self.observer.complete(end), first, end, False, bool(reason), reason)
            self._goal = min(limit, self.feed.cycle + max(SHORTEST, grid.length // grid.parts))
        reason = self._saturated(end, end, first)
        return Outcome("measured", first, end, first, end, not reason, bool(reason), reason)

    def _ended(self, why: str, look: _Look) -> Outcome:
        saturated = look.saturated
        if look.cut is not None and why == "precision":
            return Outcome(why, look.cut, look.done, look.cut, look.done, True, bool(saturated), saturated)
        first = look.done // 2 if look.cut is None else look.cut
        return Outcome(why, first, look.done, look.batches // 2, look.batches, False, bool(saturated), saturated)
