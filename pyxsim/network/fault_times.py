"""When [[faults]] start and end, in cycles."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from pyxsim.errors import InputError
from pyxsim.settings import Experiment
from pyxsim.settings.failure import Fault
from pyxsim.units import Duration, to_cycles, to_seconds

NEVER = 1 << 60  # a cycle that does not come
LINKS = 0x4C494E4B  # makes the random times of links differ from those of NPUs with the same seed


@dataclass(frozen=True)
class FaultTimes:
    """A fault starts in the cycles start + k * period below `until`, and each time lasts `length` cycles.

    `length`, `until`: NEVER if unlimited. `period`: 0 for a fault that starts once.
    """

    start: int
    length: int
    period: int
    until: int

    def active(self, cycle: int) -> bool:
        """Return whether the fault is active in a cycle."""
        begin = self._last_begin(cycle)
        return begin is not None and cycle < begin + self.length

    def following(self, cycle: int) -> int:
        """Return the first cycle after `cycle` in which the fault starts or ends, or NEVER."""
        begin = self._last_begin(cycle)
        if begin is None:
            return self.start if self.start < self.until else NEVER
        if cycle < begin + self.length:
            return min(begin + self.length, NEVER)
        return begin + self.period if self.period and begin + self.period < self.until else NEVER

    def all_begins(self) -> Iterator[int]:
        """Yield the cycles in which it begins."""
        begin = self.following(-1)
        while begin < NEVER:
            yield begin
            end = begin + self.length
            begin = self.following(end) if end < NEVER else NEVER

    def settled(self, cycle: int) -> int:
        """Return a cycle from which the fault brings no new state of the network after `cycle`.

        By then a repeating fault has been through a whole period (at random, two more faults), and any other has ended,
        if it ever does.
        """
        if self.period:
            return max(cycle, self.start) + 2 * self.period
        last = self.start + self.length
        return last if last < NEVER else self.start

    def _last_begin(self, cycle: int) -> int | None:
        if cycle < self.start or self.start >= self.until:
            return None
        if not self.period:
            return self.start
        last = (min(cycle, self.until - 1) - self.start) // self.period
        return self.start + last * self.period


@dataclass(frozen=True)
class RandomTimes(FaultTimes):
    """A fault that starts at random: the time until it starts, from `start` or its last end, is exponential.

    `mean`: of this time, in cycles. `seed`: of the draws. `period` has no meaning.
    """

    mean: float = 1.0
    seed: tuple[int, ...] = ()
    begins: list[int] = field(default_factory=list, compare=False)  # as far as they are drawn

    def following(self, cycle: int) -> int:
        begin = self._last_begin(cycle)
        if begin is not None and cycle < begin + self.length:
            return begin + self.length
        following = self.begins[bisect.bisect_right(self.begins, cycle)]
        return following if following < self.until else NEVER

    def settled(self, cycle: int) -> int:
        last = self._last_begin(cycle)
        first = bisect.bisect_right(self.begins, cycle)
        while len(self.begins) < first + 2:
            self._draw()
        last = max((begin for begin in self.begins[first : first + 2] if begin < self.until), default=last)
        return cycle if last is None else last + self.length

    def _last_begin(self, cycle: int) -> int | None:
        while not self.begins or self.begins[-1] <= cycle:
            self._draw()
        count = bisect.bisect_right(self.begins, cycle)
        while count and self.begins[count - 1] >= self.until:
            count -= 1
        return self.begins[count - 1] if count else None

    def _draw(self) -> None:
        """Draw the next start. Each draw seeds a new generator: no state is kept between draws."""
        waits = np.random.default_rng((*self.seed, len(self.begins))).exponential(self.mean)
        free = self.begins[-1] + self.length if self.begins else self.start
        self.begins.append(min(NEVER, free + max(1, round(waits))))


def times_of(experiment: Experiment, fault: Fault, key: str, *target: int) -> FaultTimes:
    """Return the times of a fault in cycles of the network. Raises InputError.

    `target`: numbers of what it affects; random times differ between targets.
    """

    def cycles(time: Duration) -> int:
        return to_cycles(time, experiment.network.clock)[0]

    length = NEVER if fault.duration is None else max(1, cycles(fault.duration))
    period = 0
    if fault.every is not None:
        period = cycles(fault.every)
        if period <= length:
            raise InputError("the fault repeats before it has ended", key=f"{key}.every", allowed="more than `for`")
    elif fault.up is not None:
        period = length + max(1, cycles(fault.up))
    until = NEVER if fault.until is None else cycles(fault.until)
    if fault.mttf is not None:
        mean = float(to_seconds(fault.mttf, experiment.network.clock) * experiment.network.clock)
        return RandomTimes(cycles(fault.at), length, 0, until, mean, (fault.seed, *target))
    return FaultTimes(cycles(fault.at), length, period, until)


class FaultClock:
    """The starts and ends of several faults, in order of time.

    Attributes
    ----------
    due
        The next cycle in which a fault starts or ends, or NEVER.
    """

    def __init__(self, times: Iterable[FaultTimes]) -> None:
        self.times = list(times)
        self._next = [(each.following(-1), number) for number, each in enumerate(self.times)]
        heapq.heapify(self._next)

    @property
    def due(self) -> int:
        return self._next[0][0] if self._next else NEVER

    def take(self) -> list[int]:
        """Return the numbers of the faults that start or end in cycle `due`, and advance."""
        cycle, numbers = self.due, []
        while self._next and self._next[0][0] == cycle < NEVER:
            number = heapq.heappop(self._next)[1]
            numbers.append(number)
            heapq.heappush(self._next, (self.times[number].following(cycle), number))
        return sorted(numbers)

    def may_help(self, since: int, cycle: int) -> bool:
        """Return whether a network that has not moved since cycle `since` may still move after `cycle`."""
        return self.due < NEVER and any(cycle < each.settled(since) for each in self.times)

    def helps_until(self, since: int) -> int:
        """Return the first cycle in which `may_help` says no if no fault begins or ends until then."""
        return max(each.settled(since) for each in self.times) if self.due < NEVER else 0
