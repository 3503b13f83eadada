"""All packets of an experiment's open traffic, in order of cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from pyxsim.errors import InputError
from pyxsim.settings.traffic import OnOff as OnOffSettings
from pyxsim.settings.traffic import Replies, TrafficClass
from pyxsim.traffic import shipped  # noqa: F401  registers the patterns
from pyxsim.traffic.draws import DESTINATION, SIZE, Floats, Longs, stream, weighted
from pyxsim.traffic.pattern import Pattern, Place, make_pattern
from pyxsim.traffic.process import OnOff, Process, block_cycles, trials


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Packets as they are created: arrays int64 of one length, in order of (cycle, klass, src).

    `klass`: number of the class. `reply`: flits of the reply that its destination gives; 0: none.
    """

    cycle: Longs
    src: Longs
    dst: Longs
    flits: Longs
    klass: Longs
    reply: Longs

    def __len__(self) -> int:
        return len(self.cycle)

    def part(self, which: slice | Longs) -> Arrivals:
        """Some of them."""
        return Arrivals(*(getattr(self, each.name)[which] for each in fields(self)))

    @classmethod
    def together(cls, parts: Sequence[Arrivals]) -> Arrivals:
        """All of them, one after the other."""
        none = np.zeros(0, dtype=np.int64)
        return cls(*(np.concatenate([none, *(getattr(p, each.name) for p in parts)]) for each in fields(cls)))


_NONE = Arrivals.together([])


class Packets:
    """What the packets of one class are like: destination, size, reply. Drawn from streams by name (see draws)."""

    def __init__(self, settings: TrafficClass, place: Place, klass: int) -> None:
        self.pattern: Pattern = make_pattern(settings.pattern or "uniform", place, settings.pattern_options)
        self._name = (place.seed, klass)
        self._klass = klass
        answered = settings.replies
        self._sizes = np.array(settings.sizes if answered is None else _requests(answered), dtype=np.int64)
        self._weights = np.array(settings.weights if answered is None else _kinds(answered))
        self._replies = np.array([0] * len(self._sizes) if answered is None else _answers(answered), dtype=np.int64)

    def make(self, cycle: Longs, src: Longs, block: int) -> Arrivals:
        """Packets that are created in these cycles by these nodes; `block` names the streams."""
        which = weighted(stream(*self._name, SIZE, block), self._weights, len(src))
        dst = self.pattern.destinations(stream(*self._name, DESTINATION, block), src)
        klass = np.full(len(src), self._klass, dtype=np.int64)
        return Arrivals(cycle, src, dst, self._sizes[which], klass, self._replies[which])


def _requests(replies: Replies) -> tuple[int, int]:
    return replies.read_request, replies.write_request


def _answers(replies: Replies) -> tuple[int, int]:
    return replies.read_reply, replies.write_reply


def _kinds(replies: Replies) -> tuple[float, float]:
    return 1 - replies.write_share, replies.write_share


class Source:
    """The packets of all classes. `until` hands them out in order, each once."""

    def __init__(self, classes: Sequence[TrafficClass], place: Place) -> None:
        self.packets = [_placed(each, place, number) for number, each in enumerate(classes)]
        self._processes = [
            _process(each, place, number, packets.pattern.rates())
            for number, (each, packets) in enumerate(zip(classes, self.packets, strict=True))
        ]
        self._length = block_cycles(place.npus)
        self._blocks = 0  # that are drawn
        self._left = Arrivals.together([])
        self._drawn = 0  # cycles

    def until(self, cycle: int) -> Arrivals:
        """What is created before `cycle` and was not handed out yet."""
        parts = [self._left]
        while self._drawn < cycle:
            block = self._draw(self._blocks)
            if len(block):
                parts.append(block)
            self._blocks += 1
            self._drawn += self._length
        everything = self._left if len(parts) == 1 else Arrivals.together(parts)
        end = int(np.searchsorted(everything.cycle, cycle))
        self._left = everything.part(slice(end, None))
        return everything.part(slice(end))

    def _draw(self, number: int) -> Arrivals:
        parts = []
        for packets, process in zip(self.packets, self._processes, strict=True):
            cycle, src = process.block(number)
            if not len(src) and len(self._processes) == 1:  # as most blocks of rare packets
                return _NONE
            parts.append(packets.make(cycle + number * self._length, src, number))
        block = Arrivals.together(parts)
        return block if len(parts) == 1 else block.part(np.argsort(block.cycle, kind="stable"))


def _placed(settings: TrafficClass, place: Place, number: int) -> Packets:
    """The packets of a class; faults get the key of the settings."""
    try:
        return Packets(settings, place, number)
    except InputError as error:
        key = f"traffic.{settings.key_of(error.key or 'pattern')}" if error.file is None else None
        raise InputError(error.problem, file=error.file, key=key, allowed=error.allowed, given=error.given) from None


def _process(settings: TrafficClass, place: Place, number: int, shares: Floats | None) -> Process:
    """When a class creates packets: a trial that succeeds with load over mean flits."""
    rate = (settings.load or 0.0) / settings.mean_flits
    rates: float | Floats = rate if shares is None else rate * shares
    if isinstance(settings.injection, OnOffSettings):
        bursts = settings.injection
        try:
            return OnOff(place.seed, number, place.npus, rates, bursts.alpha, bursts.beta, bursts.r1)
        except InputError as error:
            raise InputError(
                error.problem, key=f"traffic.{settings.key_of(error.key or 'injection')}", allowed=error.allowed
            ) from None
    return trials(place.seed, number, place.npus, rates)
