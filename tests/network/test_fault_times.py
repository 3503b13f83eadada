"""When faults begin and end, against the definition cycle by cycle."""

from __future__ import annotations

from itertools import islice

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyxsim.network.fault_times import NEVER, FaultClock, FaultTimes, RandomTimes

times = st.builds(
    lambda start, length, gap, until: FaultTimes(start, length, length + gap if gap and length < NEVER else 0, until),
    start=st.integers(0, 30),
    length=st.one_of(st.integers(1, 12), st.just(NEVER)),
    gap=st.integers(0, 9),
    until=st.one_of(st.just(NEVER), st.integers(1, 60)),
)
FAR = 150


def active(each: FaultTimes, cycle: int) -> bool:
    """As it is defined: it begins in start + k * period below `until`, and lasts `length` cycles."""
    begins = [each.start] if not each.period else range(each.start, cycle + 1, each.period)
    return any(begin <= cycle < begin + each.length for begin in begins if begin < each.until)


@given(times)
def test_a_fault_is_there_as_defined(each: FaultTimes) -> None:
    assert [each.active(cycle) for cycle in range(FAR)] == [active(each, cycle) for cycle in range(FAR)]


@given(st.lists(times, min_size=1, max_size=4))
def test_the_clock_stops_at_every_beginning_and_end(some: list[FaultTimes]) -> None:
    clock = FaultClock(some)
    changes = []
    while clock.due < FAR:
        cycle = clock.due
        changes += [(cycle, number) for number in clock.take()]
    wanted = [
        (cycle, number)
        for cycle in range(FAR)
        for number, each in enumerate(some)
        if active(each, cycle) != active(each, cycle - 1)
    ]
    assert changes == wanted


def test_a_flapping_link_is_given_two_periods_after_the_last_motion() -> None:
    clock = FaultClock([FaultTimes(100, 10, 30, NEVER)])
    assert clock.may_help(0, 0)
    assert clock.may_help(500, 559)
    assert not clock.may_help(500, 560)


def test_a_fault_that_is_over_helps_nobody() -> None:
    clock = FaultClock([FaultTimes(100, 10, 0, NEVER)])
    assert clock.may_help(0, 105)
    clock.take()
    clock.take()
    assert clock.due == NEVER
    assert not clock.may_help(0, 111)


# --- random times -----------------------------------------------------------------------------------------------------

drawn = st.builds(
    lambda start, length, until, mean, seed: RandomTimes(start, length, 0, until, mean, (seed,)),
    start=st.integers(0, 30),
    length=st.integers(1, 12),
    until=st.one_of(st.just(NEVER), st.integers(1, 60)),
    mean=st.floats(0.1, 20),
    seed=st.integers(0, 99),
)


def begins(each: FaultTimes, end: int = FAR) -> list[int]:
    return [cycle for cycle in range(end) if each.active(cycle) and not each.active(cycle - 1)]


@given(st.one_of(times, drawn))
def test_all_beginnings_are_listed_in_order(each: FaultTimes) -> None:
    assert [cycle for cycle in islice(each.all_begins(), FAR) if cycle < FAR] == begins(each)


@given(drawn, st.integers(0, FAR))
def test_a_random_fault_has_settled_after_two_more_times(each: RandomTimes, cycle: int) -> None:
    later = [begin for begin in begins(each, 4 * FAR) if begin > cycle][:2]
    before = [begin for begin in begins(each) if begin <= cycle][-1:]
    last = max(before + later, default=None)
    assert each.settled(cycle) == (cycle if last is None else last + each.length)


def test_times_without_fault_are_exponential() -> None:
    number, mean, length = 2000, 5000.0, 7
    some = list(islice(RandomTimes(0, length, 0, NEVER, mean, (1, 2)).all_begins(), number))
    waits = np.diff([-length, *some]) - length
    assert abs(waits.mean() - mean) < 3.3 * mean / number**0.5
    assert abs((waits > mean).mean() - np.exp(-1)) < 3.3 * (np.exp(-1) * (1 - np.exp(-1)) / number) ** 0.5
