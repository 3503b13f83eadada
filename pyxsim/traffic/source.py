"""The packets of open traffic of all classes, in order of cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from pyxsim.arrays import FloatArray, IntArray
from pyxsim.errors import InputError
from pyxsim.settings.traffic import OnOff as OnOffSettings
from pyxsim.settings.traffic import TrafficClass
from pyxsim.traffic.draws import DESTINATION, SIZE, stream, weighted
from pyxsim.traffic.pattern import PatternContext, make_pattern
from pyxsim.traffic.process import OnOff, Process, bernoulli_process, block_cycles


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Created packets: int64 arrays of one length, in order of (cycle, klass, src).

    Attributes
    ----------
    cycle
        Cycle of creation.
    src, dst
        Nodes.
    flits
        Size of the packet.
    klass
        Number of the traffic class.
    reply
        Size in flits of the reply from the destination; 0 for none.
    """

    cycle: IntArray
    src: IntArray
    dst: IntArray
    flits: IntArray
    klass: IntArray
    reply: IntArray

    def __len__(self) -> int:
        return len(self.cycle)

    def select(self, which: slice | IntArray) -> Arrivals:
        """Return the packets of a slice or an index array."""
        return Arrivals(*(getattr(self, field.name)[which] for field in fields(self)))

    @classmethod
    def concatenate(cls, parts: Sequence[Arrivals]) -> Arrivals:
        """Join several arrivals, in the given order."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(*(np.concatenate([empty, *(getattr(p, field.name) for p in parts)]) for field in fields(cls)))


_NO_ARRIVALS = Arrivals.concatenate([])


class Packets:
    """Draws destination, size and reply of the packets of one class."""

    def __init__(self, settings: TrafficClass, context: PatternContext, klass: int) -> None:
        self.pattern = make_pattern(settings.pattern or "uniform", context, settings.pattern_options)
        self._key = (context.seed, klass)
        self._klass = klass
        replies = settings.replies
        if replies is None:
            sizes, weights, answers = settings.sizes, settings.weights, (0,) * len(settings.sizes)
        else:
            sizes = (replies.read_request, replies.write_request)
            weights = (1 - replies.write_share, replies.write_share)
            answers = (replies.read_reply, replies.write_reply)
        self._sizes = np.array(sizes, dtype=np.int64)
        self._weights = np.array(weights)
        self._replies = np.array(answers, dtype=np.int64)

    def make(self, cycle: IntArray, src: IntArray, block: int) -> Arrivals:
        """Return the packets that nodes `src` create in cycles `cycle`; `block` selects the random streams."""
        which = weighted(stream(*self._key, SIZE, block), self._weights, len(src))
        dst = self.pattern.destinations(stream(*self._key, DESTINATION, block), src)
        klass = np.full(len(src), self._klass, dtype=np.int64)
        return Arrivals(cycle, src, dst, self._sizes[which], klass, self._replies[which])


class Source:
    """The packet source of all classes.

    Parameters
    ----------
    classes
        Complete settings of each traffic class.
    context
        The network as patterns see it.
    """

    def __init__(self, classes: Sequence[TrafficClass], context: PatternContext) -> None:
        self.packets = [_packets(settings, context, klass) for klass, settings in enumerate(classes)]
        self._processes = [
            _process(settings, context, klass, packets.pattern.rates())
            for klass, (settings, packets) in enumerate(zip(classes, self.packets, strict=True))
        ]
        self._block_cycles = block_cycles(context.npus)
        self._blocks = 0  # drawn so far
        self._pending = _NO_ARRIVALS  # drawn, but not returned yet
        self._drawn = 0  # cycles

    def until(self, cycle: int) -> Arrivals:
        """Return the packets that are created before `cycle` and were not returned by an earlier call."""
        parts = [self._pending]
        while self._drawn < cycle:
            block = self._draw(self._blocks)
            if len(block):
                parts.append(block)
            self._blocks += 1
            self._drawn += self._block_cycles
        arrivals = self._pending if len(parts) == 1 else Arrivals.concatenate(parts)
        end = int(np.searchsorted(arrivals.cycle, cycle))
        self._pending = arrivals.select(slice(end, None))
        return arrivals.select(slice(end))

    def _draw(self, number: int) -> Arrivals:
        parts = []
        for packets, process in zip(self.packets, self._processes, strict=True):
            cycle, src = process.block(number)
            if not len(src) and len(self._processes) == 1:  # most blocks where packets are rare
                return _NO_ARRIVALS
            parts.append(packets.make(cycle + number * self._block_cycles, src, number))
        block = Arrivals.concatenate(parts)
        return block if len(parts) == 1 else block.select(np.argsort(block.cycle, kind="stable"))


def _packets(settings: TrafficClass, context: PatternContext, klass: int) -> Packets:
    """The packets of a class; errors get the key of the setting at fault."""
    try:
        return Packets(settings, context, klass)
    except InputError as error:
        key = f"traffic.{settings.key_of(error.key or 'pattern')}" if error.file is None else None
        raise InputError(error.problem, file=error.file, key=key, allowed=error.allowed, given=error.given) from None


def _process(settings: TrafficClass, context: PatternContext, klass: int, shares: FloatArray | None) -> Process:
    """The injection process of a class: packets per node and cycle are load over mean flits."""
    rate = (settings.load or 0.0) / settings.mean_flits
    rates: float | FloatArray = rate if shares is None else rate * shares
    if isinstance(settings.injection, OnOffSettings):
        bursts = settings.injection
        try:
            return OnOff(context.seed, klass, context.npus, rates, bursts.alpha, bursts.beta, bursts.r1)
        except InputError as error:
            raise InputError(
                error.problem, key=f"traffic.{settings.key_of(error.key or 'injection')}", allowed=error.allowed
            ) from None
    return bernoulli_process(context.seed, klass, context.npus, rates)
