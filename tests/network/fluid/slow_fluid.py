"""Fluids once more, slow and exact: fractions, all rates found anew whenever something happens, by the textbook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

Way = dict[int, Fraction]  # the share that goes over each link


def fair(ways: Sequence[Way], capacity: Sequence[Fraction]) -> list[Fraction]:
    """Max-min fair rates (Bertsekas and Gallager, 6.5.2): all rise alike, until a link that they use is full."""
    rates = [Fraction(0)] * len(ways)
    rising = set(range(len(ways)))
    while rising:
        room = {
            link: each - sum(rates[f] * ways[f].get(link, 0) for f in range(len(ways)))
            for link, each in enumerate(capacity)
        }
        pull = {link: sum((ways[f].get(link, Fraction(0)) for f in rising), Fraction(0)) for link in room}
        step = min(room[link] / pull[link] for link in room if pull[link])
        for f in rising:
            rates[f] += step
        full = {link for link in room if pull[link] and room[link] == pull[link] * step}
        rising = {f for f in rising if not full & ways[f].keys()}
    return rates


@dataclass
class Message:
    number: int
    way: int
    left: Fraction


@dataclass(frozen=True)
class Told:
    """`exact`: the time before it was cut off to `cycle`."""

    cycle: int
    number: int
    exact: Fraction


def slowly(
    ways: Sequence[Way],
    capacity: Sequence[Fraction],
    latency: Sequence[Fraction],
    sends: Sequence[tuple[int, int, int]],
    lanes: Sequence[int] = (),
) -> list[Told]:
    """What arrives when, of (cycle, way, bytes). A message that is told of before its end ends when it is told of.

    `lanes`: that of each way, a link; a message starts when those before it leave room there and none is on its way.
    """
    told: list[Told] = []
    queued: list[Message] = []
    here: list[Message] = []
    waiting = sorted((at, number, way, size) for number, (at, way, size) in enumerate(sends))
    now = Fraction(0)
    while here or waiting or queued:
        while waiting and waiting[0][0] <= now:
            _, number, way, size = waiting.pop(0)
            queued.append(Message(number, way, Fraction(size)))
        while True:
            rates = fair([ways[message.way] for message in here], capacity)
            if not (more := _starting(here, queued, rates, ways, capacity, lanes)):
                break
            here += more
            queued = [message for message in queued if message not in more]
        ends = []
        for message, rate in zip(here, rates, strict=True):
            done = now + message.left / rate
            arrival = Fraction(floor(done + latency[message.way]))
            ends.append((arrival if now <= arrival < done else done, done))
        then = min([end for end, _ in ends] + [Fraction(at) for at, *_ in waiting[:1]])
        staying = []
        for message, rate, (end, done) in zip(here, rates, ends, strict=True):
            message.left -= rate * (then - now)
            if end > then:
                staying.append(message)
                continue
            exact = done + latency[message.way]
            told.append(Told(max(floor(exact), ceil(then)), message.number, exact))
        now, here = then, staying
    return sorted(told, key=lambda each: (each.cycle, each.number))


def _starting(
    here: Sequence[Message],
    queued: Sequence[Message],
    rates: Sequence[Fraction],
    ways: Sequence[Way],
    capacity: Sequence[Fraction],
    lanes: Sequence[int],
) -> list[Message]:
    """Those of the messages that wait that may start: by lanes that nobody uses; when there are none, where is room."""
    if not lanes:
        return list(queued)
    first: dict[int, Message] = {}
    for message in queued:
        first.setdefault(lanes[message.way], message)
    taken = {lanes[message.way] for message in here}
    if alone := [message for lane, message in first.items() if lane not in taken]:
        return alone
    found = []
    for lane, message in first.items():
        mine = sum(rate for other, rate in zip(here, rates, strict=True) if lanes[other.way] == lane)
        passing = sum(rate * ways[other.way].get(lane, 0) for other, rate in zip(here, rates, strict=True))
        if max(mine, passing) < capacity[lane] and message.way not in {other.way for other in here}:
            found.append(message)
    return found
