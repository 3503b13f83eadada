"""Traffic that ends: batches of packets, and traces. All of it is measured, to the last arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.errors import InputError
from pyxsim.runner.traffic.feed import Carrier
from pyxsim.runner.traffic.observe import Grid, Observer
from pyxsim.settings.traffic import Batch, TrafficClass
from pyxsim.traffic import PatternContext
from pyxsim.traffic.source import Arrivals, Packets
from pyxsim.traffic.trace import Trace

FOREVER = 1 << 60
MAX_PACKETS = 1 << 28  # of a batch, over all nodes
SLACK = 10_000  # cycles after which arrivals are taken out: few enough for the memory
REPLIES, TRIPS = 1, 2  # classes of the observer, besides 0
WHOLE = Grid(0, 1 << 62)  # one batch of all time


class TraceRun:
    """The messages of a trace, each at its cycle. `cut`: packets, flits, last flits of a number of bytes."""

    def __init__(self, network: Any, trace: Trace) -> None:
        self.network = network
        self.trace = trace
        self.observer = Observer(WHOLE, network.npus, 1)
        self.cycle = 0
        self._sent = False

    def run(self) -> None:
        """To the last arrival."""
        network = self.network
        if not self._sent:
            self._send()
        more = True
        while more:
            more = network.run(FOREVER, slack=SLACK)
            got = network.deliveries()
            self.observer.take(got)
            self.cycle = max(self.cycle, int(got["last"].max(initial=0)))

    def _send(self) -> None:
        trace, network = self.trace, self.network
        sizes, which = np.unique(trace.nbytes, return_inverse=True)
        cuts = np.array([network.cut(int(size)) for size in sizes.tolist()], dtype=np.int64)
        packets, flits, last = cuts[which].T
        total = (packets - 1) * flits + last
        zero = np.zeros(len(trace), dtype=np.int64)
        self.observer.create(zero, trace.cycle, total)
        network.inject(trace.cycle, trace.src, trace.dst, flits, 0, packets=packets, last_flits=last)
        self._sent = True


@dataclass
class _Batch:
    """One batch: packets `drawn`; per node how many are `created`, and `after` which cycle it may create the next one;
    how many of all are `left`."""

    begin: int
    drawn: Arrivals
    created: IntArray
    after: IntArray
    left: int


class BatchRun:
    """Batches: a node creates its packets one per cycle, as long as not too many of them are under way, which it knows
    in the cycle after an arrival. The next batch begins in the cycle after the last arrival.

    With replies a request is under way until the reply to it is there.
    """

    def __init__(self, network: Carrier, settings: TrafficClass, batch: Batch, context: PatternContext) -> None:
        if batch.size * network.npus > MAX_PACKETS:
            raise InputError(
                f"{batch.size} packets of {network.npus} nodes are too many",
                key="traffic.batch.size",
                allowed=f"at most {MAX_PACKETS // network.npus}",
            )
        self.network = network
        self.batch = batch
        self.packets = Packets(settings, context, 0)
        self.answered = settings.replies is not None
        self.delay = settings.replies.delay if settings.replies is not None else 0
        self.observer = Observer(WHOLE, network.npus, 1 + self.answered, int(self.answered))
        self.cycle = 0
        self.times: list[int] = []
        self._now: _Batch | None = None  # between two: none
        self._owed: dict[int, int] = {}  # request -> flits of its reply
        self._asked: dict[int, int] = {}  # reply -> cycle in which the request was created

    def run(self) -> None:
        """All batches."""
        while len(self.times) < self.batch.count:
            self._now = self._now or self._begin(len(self.times))
            self._carry(self._now)
            self.times.append(self.cycle - self._now.begin)
            self.cycle += 1
            self._now = None

    def _begin(self, number: int) -> _Batch:
        npus, size, begin = self.network.npus, self.batch.size, self.cycle
        # In the order of creation without any waiting.
        drawn = self.packets.make(np.zeros(npus * size, np.int64), np.tile(np.arange(npus), size), number)
        at_once = min(size, self.batch.outstanding or size)
        cycle = np.repeat(np.arange(begin, begin + at_once), npus)
        self._create(drawn, np.arange(npus * at_once), cycle)
        created = np.full(npus, at_once, dtype=np.int64)
        return _Batch(begin, drawn, created, np.full(npus, begin + at_once, dtype=np.int64), npus * size)

    def _carry(self, now: _Batch) -> None:
        """To the last arrival of a batch."""
        npus, size = self.network.npus, self.batch.size
        drawn, created, after = now.drawn, now.created, now.after
        while now.left:
            self.network.run(FOREVER, slack=1)
            nodes, last = self._take(self.network.deliveries())
            now.left -= len(nodes)
            self.cycle = max(self.cycle, int(last.max(initial=0)))
            while len(nodes):
                # One arrival of each node at a time, in their order.
                _, first = np.unique(nodes, return_index=True)
                node = nodes[first]
                creates = created[node] < size
                node, when = node[creates], np.maximum(after[node], last[first] + 1)[creates]
                self._create(drawn, created[node] * npus + node, when)
                created[node] += 1
                after[node] = when + 1
                nodes, last = np.delete(nodes, first), np.delete(last, first)

    def _create(self, drawn: Arrivals, which: IntArray, cycle: IntArray) -> None:
        if not len(which):
            return
        src, flits, reply = drawn.src[which], drawn.flits[which], drawn.reply[which]
        klass = np.zeros(len(which), dtype=np.int64)
        self.observer.create(klass, cycle, flits)
        first = self.network.inject(cycle, src, drawn.dst[which], flits, klass)
        if self.answered:
            self.observer.create(klass + TRIPS, cycle, klass)
            self._owed.update(zip(range(first, first + len(which)), reply.tolist(), strict=True))

    def _take(self, got: dict[str, IntArray]) -> tuple[IntArray, IntArray]:
        """Note what arrived, and answer it. Returns the nodes that may create another packet, and the cycles in which
        the arrivals that let them took place."""
        self.observer.take(got)
        klass = got["klass"]
        if not self.answered:
            return got["src"], got["last"]
        requests, replies = np.flatnonzero(klass == 0), np.flatnonzero(klass == REPLIES)
        if len(requests):
            flits = np.array([self._owed.pop(serial) for serial in got["serial"][requests].tolist()], dtype=np.int64)
            at = got["last"][requests] + self.delay
            kind = np.full(len(requests), REPLIES, dtype=np.int64)
            self.observer.create(kind, at, flits)
            first = self.network.inject(at, got["dst"][requests], got["src"][requests], flits, kind)
            self._asked.update(zip(range(first, first + len(requests)), got["at"][requests].tolist(), strict=True))
        if len(replies):
            begun = np.array([self._asked.pop(serial) for serial in got["serial"][replies].tolist()], dtype=np.int64)
            kind, zero = np.full(len(replies), TRIPS, dtype=np.int64), np.zeros(len(replies), dtype=np.int64)
            self.observer.arrive(kind, begun, begun, got["last"][replies], zero, zero, zero, got["dst"][replies])
        return got["dst"][replies], got["last"][replies]
