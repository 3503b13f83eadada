"""The length of an open-traffic run, the part that is measured, and the test for saturation (docs/traffic.md).

The run is evaluated at growing times. Each evaluation determines the transient (MSER) and the confidence interval of
the mean latency after it. The run ends when two evaluations in a row find the interval narrow enough, or the network
saturated, or at a limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pyxsim.analysis.statistics import Interval, interval, settled
from pyxsim.arrays import FloatArray, IntArray
from pyxsim.runner.traffic.feed import Feed
from pyxsim.runner.traffic.observe import MAX_BATCHES, Grid, Observer

FIRST_LOOK = 60  # batches before the first evaluation
GROWTH = 1.25  # ratio of the times of two evaluations
SHORTEST = 100  # minimum cycles of a batch
PACKETS = 16  # minimum mean packets of a batch
LONGEST = 200_000  # default limit of a run in cycles, or in batches if that is longer:
MOST = 400
LEAST = 100  # minimum batches of a run with a limit
FLIGHTS = 2  # mean zero-load latencies after which the first packets have arrived, even over the longest routes
MIN_PACKETS = FIRST_LOOK * GROWTH * PACKETS  # packets at the second evaluation, after which a run can end
MAX_LENGTH = 1 << 32
ACCEPTED = 0.97  # accepted over created load below which the network is saturated


@dataclass(frozen=True)
class Rules:
    """The settings of a measurement.

    Attributes
    ----------
    warmup, measure
        Cycles; None for an automatic length.
    precision
        Relative half-width of the confidence interval at which the run ends.
    max_cycles
        Limit of the run; None for a default that depends on the network.
    latency_limit
        Mean latency in cycles above which the network counts as saturated; None for no limit.
    flight
        Zero-load latency in cycles.
    """

    warmup: int | None = None
    measure: int | None = None
    precision: float = 0.01
    max_cycles: int | None = None
    latency_limit: float | None = None
    flight: float = 0.0

    def grid(self, packets_per_cycle: float, zero_load: float | None) -> Grid:
        """Return batches that are longer than the zero-load latency and have enough packets."""
        cycles = max(SHORTEST, zero_load or 0, PACKETS / max(packets_per_cycle, 1e-9))
        cycles = max(cycles, 8 * (self.max_cycles or 0) / MAX_BATCHES)
        length = SHORTEST * math.ceil(min(cycles, MAX_LENGTH) / SHORTEST)
        if self.max_cycles is not None:
            length = max(1, min(length, self.max_cycles // LEAST))
        if self.measure is None:
            return Grid(self.warmup or 0, length)
        if self.warmup is None:
            return Grid(0, self.measure, max(1, round(self.measure / length)))
        return Grid(self.warmup, self.measure, min(FIRST_LOOK, self.measure))

    def longest(self, grid: Grid) -> int:
        """Return the cycles after which a run is stopped."""
        return self.max_cycles or max(LONGEST, MOST * grid.length // grid.parts)


@dataclass(frozen=True)
class Outcome:
    """The measured part of a run.

    Attributes
    ----------
    why
        Why the run ended: "precision", "measured", "saturated", "limit", "finished", or the word given to `so_far`.
    first, end
        Latency is that of packets created in the batches first to end - 1.
    from_, to
        Accepted load is that of the batches from_ to to - 1.
    steady, saturated
        Whether the latency is that of a steady state; whether the network is saturated.
    reason
        Why the network is saturated, or "".
    """

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
    """An evaluation after `batches` batches: `done` are complete, the first `cut` are the transient (None: unknown)."""

    batches: int
    done: int
    cut: int | None
    latency: Interval
    saturated: str

    def is_precise(self, precision: float) -> bool:
        return self.cut is not None and self.latency.relative <= precision and self.latency.independent


def latency(observer: Observer, first: int, end: int, rows: slice | int | None = None) -> Interval:
    """Return the mean packet latency of the batches first to end - 1, by default over all classes of packets."""
    rows = slice(observer.classes) if rows is None else rows
    part = (rows, slice(first, end))
    return _ratio(observer.latency.upto(end)[part], observer.arrived.upto(end)[part])


def network_latency(observer: Observer, first: int, end: int, rows: slice | int | None = None) -> Interval:
    """Return the mean latency without the wait at the source, as `latency`."""
    rows = slice(observer.classes) if rows is None else rows
    part = (rows, slice(first, end))
    return _ratio(observer.network.upto(end)[part], observer.arrived.upto(end)[part])


def _ratio(sums: IntArray, counts: IntArray) -> Interval:
    axis = tuple(range(sums.ndim - 1))
    return interval(sums.sum(axis=axis).astype(float), counts.sum(axis=axis).astype(float))


def accepted(observer: Observer, first: int, end: int) -> Interval:
    """Return the flits per node and cycle that arrived in the batches first to end - 1."""
    flits = observer.accepted_flits.upto(end)[: observer.classes, first:].sum(axis=0)
    return interval(flits.astype(float), _cycles(observer.grid, first, end) * float(observer.npus))


def created(observer: Observer, first: int, end: int) -> float:
    """Return the flits per node and cycle that were created in the batches first to end - 1."""
    flits = int(observer.created_flits.upto(end)[: observer.classes, first:].sum())
    cycles = observer.grid.start(end) - observer.grid.start(first)
    return flits / cycles / observer.npus if cycles else math.nan


def _cycles(grid: Grid, first: int, end: int) -> FloatArray:
    return np.diff([float(grid.start(batch)) for batch in range(first, end + 1)])


class Method:
    """Runs a feed by the rules. If an exception ends `run`, `so_far` returns the measurement until then.

    The object holds all state, so a copy made between two calls of the network continues from there.
    """

    def __init__(self, feed: Feed, rules: Rules) -> None:
        self.feed = feed
        self.observer = feed.observer
        self.rules = rules
        self.longest = rules.longest(feed.observer.grid)
        self._batches = 0  # at the next evaluation
        self._before: _Look | None = None
        self._drained: int | None = None  # first measured batch, while its packets are awaited
        self._goal = 0  # cycle of the next evaluation while packets are awaited

    def run(self) -> Outcome:
        """Simulate to the end. Raises SimulationError."""
        if self._drained is None and self.rules.warmup is not None and self.rules.measure is not None:
            self._begin_draining(0)
        return self._watch() if self._drained is None else self._drain(self._drained)

    def so_far(self, why: str) -> Outcome:
        """Return the outcome of a run that ended early; `why` says why."""
        cycle = max(self.feed.cycle, self.feed.network.now)
        batches = max(1, self.observer.grid.whole(cycle))
        return replace(self._ended("limit", self._look(batches)), why=why, steady=False)

    def _watch(self) -> Outcome:
        """Evaluate the run at growing times until it ends."""
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
                if rules.measure is None and look.is_precise(rules.precision) and before.is_precise(rules.precision):
                    return self._ended("precision", look)
                if look.saturated and before.saturated and not look.is_precise(rules.precision):
                    return self._ended("saturated", look)
            if batches >= last:
                return self._ended("limit", look)
            self._batches, self._before = min(last, math.ceil(GROWTH * batches)), look

    def _look(self, batches: int) -> _Look:
        done = self.observer.complete(batches)
        cut: int | None = 0
        if self.rules.warmup is None:
            cuts = [settled(self._means(done)), settled(self.observer.backlog(batches)[0].astype(float))]
            known = [transient for transient in cuts if transient is not None]
            cut = max(known) if len(known) == len(cuts) and max(known) < done else None
        first = batches // 2 if cut is None else cut
        return _Look(batches, done, cut, latency(self.observer, min(first, done), done), self._saturated(batches, done))

    def _means(self, done: int) -> FloatArray:
        """The mean latency of each complete batch; a batch without packets repeats the previous one."""
        sums = self.observer.latency.upto(done)[: self.observer.classes].sum(axis=0)
        counts = self.observer.arrived.upto(done)[: self.observer.classes].sum(axis=0)
        filled = np.flatnonzero(counts)
        if not len(filled):
            return np.zeros(0)
        means = sums[filled] / counts[filled]
        extended: FloatArray = means[np.maximum(np.searchsorted(filled, np.arange(done), side="right") - 1, 0)]
        return extended

    def _saturated(self, batches: int, done: int, first: int | None = None) -> str:
        """Why the network is saturated, judged by the second half of the run; "" if it is not."""
        first = batches // 2 if first is None else first
        # Packets arrive a flight after their creation: at first fewer arrive than are created.
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
        # Little's law: the mean latency is the mean backlog over the arrivals per cycle.
        backlog = float(self.observer.backlog(batches)[0][first:].mean())
        packets = int(self.observer.accepted.upto(batches)[: self.observer.classes, first:].sum())
        cycles = self.observer.grid.start(batches) - self.observer.grid.start(first)
        little = backlog * cycles / packets if packets else math.inf if backlog else 0.0
        if little > limit and not mean <= limit:
            shown = little if math.isnan(mean) else mean
            return f"the mean packet latency is {shown:,.0f} cycles, above the limit of {limit:,.0f}"
        return ""

    def _begin_draining(self, first: int) -> None:
        self._drained = first
        self._goal = max(self.observer.grid.start(first + self.observer.grid.parts), self.feed.cycle)

    def _drain(self, first: int) -> Outcome:
        """Run until all packets created in a fixed interval have arrived."""
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
