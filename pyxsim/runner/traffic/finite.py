"""Open traffic of finite length: batches of packets and traces. All packets are measured, to the last arrival."""

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
MAX_PACKETS = 1 << 28  # per batch, over all nodes
SLACK = 10_000  # cycles after which arrivals are collected: few enough to fit into memory
REPLIES, TRIPS = 1, 2  # classes of the observer; 0 is that of requests
WHOLE = Grid(0, 1 << 62)  # one batch for the whole run


class TraceRun:
    """A run of the messages of a trace, each sent in its cycle."""

    def __init__(self, network: Any, trace: Trace) -> None:
        self.network = network
        self.trace = trace
        self.observer = Observer(WHOLE, network.npus, 1)
        self.cycle = 0
        self._sent = False

    def run(self) -> None:
        """Simulate to the last arrival."""
        network = self.network
        if not self._sent:
            self._send()
        more = True
        while more:
            more = network.run(FOREVER, slack=SLACK)
            arrived = network.deliveries()
            self.observer.take(arrived)
            self.cycle = max(self.cycle, int(arrived["last"].max(initial=0)))

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
    """The state of one batch.

    Attributes
    ----------
    begin
        First cycle.
    drawn
        All packets of the batch.
    created, after
        Per node: packets created so far, and the first cycle in which it can create the next one.
    left
        Packets that have not arrived.
    """

    begin: int
    drawn: Arrivals
    created: IntArray
    after: IntArray
    left: int


class BatchRun:
    """A run of batches, in which each node creates a fixed number of packets.

    A node creates one packet per cycle while fewer than `outstanding` of its packets are in flight; it learns of an
    arrival in the next cycle. The next batch begins in the cycle after the last arrival. With replies a request is in
    flight until its reply arrives.
    """

    def __init__(self, network: Carrier, settings: TrafficClass, batch: Batch, context: PatternContext) -> None:
        if batch.size * network.npus > MAX_PACKETS:
            raise InputError(
                f"{batch.size} packets for each of {network.npus} nodes are too many",
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
        self._now: _Batch | None = None  # None between two batches
        self._reply_flits: dict[int, int] = {}  # request -> flits of its reply
        self._request_cycle: dict[int, int] = {}  # reply -> cycle in which the request was created

    def run(self) -> None:
        """Simulate all batches."""
        while len(self.times) < self.batch.count:
            self._now = self._now or self._begin(len(self.times))
            self._carry(self._now)
            self.times.append(self.cycle - self._now.begin)
            self.cycle += 1
            self._now = None

    def _begin(self, number: int) -> _Batch:
        npus, size, begin = self.network.npus, self.batch.size, self.cycle
        # In the order of creation without contention.
        drawn = self.packets.make(np.zeros(npus * size, np.int64), np.tile(np.arange(npus), size), number)
        at_once = min(size, self.batch.outstanding or size)
        cycle = np.repeat(np.arange(begin, begin + at_once), npus)
        self._create(drawn, np.arange(npus * at_once), cycle)
        created = np.full(npus, at_once, dtype=np.int64)
        return _Batch(begin, drawn, created, np.full(npus, begin + at_once, dtype=np.int64), npus * size)

    def _carry(self, now: _Batch) -> None:
        """Simulate to the last arrival of a batch."""
        npus, size = self.network.npus, self.batch.size
        drawn, created, after = now.drawn, now.created, now.after
        while now.left:
            self.network.run(FOREVER, slack=1)
            nodes, last = self._take(self.network.deliveries())
            now.left -= len(nodes)
            self.cycle = max(self.cycle, int(last.max(initial=0)))
            while len(nodes):
                # One arrival per node at a time, in order.
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
            self._reply_flits.update(zip(range(first, first + len(which)), reply.tolist(), strict=True))

    def _take(self, arrived: dict[str, IntArray]) -> tuple[IntArray, IntArray]:
        """Record arrivals and create replies; return the nodes that may create another packet, and the cycles of the
        arrivals that allow it."""
        self.observer.take(arrived)
        klass = arrived["klass"]
        if not self.answered:
            return arrived["src"], arrived["last"]
        requests, replies = np.flatnonzero(klass == 0), np.flatnonzero(klass == REPLIES)
        if len(requests):
            flits = np.array(
                [self._reply_flits.pop(serial) for serial in arrived["serial"][requests].tolist()], dtype=np.int64
            )
            at = arrived["last"][requests] + self.delay
            kind = np.full(len(requests), REPLIES, dtype=np.int64)
            self.observer.create(kind, at, flits)
            first = self.network.inject(at, arrived["dst"][requests], arrived["src"][requests], flits, kind)
            self._request_cycle.update(
                zip(range(first, first + len(requests)), arrived["at"][requests].tolist(), strict=True)
            )
        if len(replies):
            requested = np.array(
                [self._request_cycle.pop(serial) for serial in arrived["serial"][replies].tolist()], dtype=np.int64
            )
            kind, zero = np.full(len(replies), TRIPS, dtype=np.int64), np.zeros(len(replies), dtype=np.int64)
            self.observer.arrive(
                kind, requested, requested, arrived["last"][replies], zero, zero, zero, arrived["dst"][replies]
            )
        return arrived["dst"][replies], arrived["last"][replies]
