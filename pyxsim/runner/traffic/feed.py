"""Inject the packets of open traffic into a network, collect its arrivals, and create replies to requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.runner.traffic.observe import Observer
from pyxsim.settings.traffic import TrafficClass
from pyxsim.traffic import Arrivals

PACKETS = 20_000  # mean number of packets that are injected per call
MAX_SPAN = 1 << 16  # cycles per call


class Carrier(Protocol):
    """The part of a network that open traffic uses (implemented by pyxsim/network/packet/open_network.py)."""

    npus: int

    @property
    def now(self) -> int:
        """The cycle up to which the network is simulated."""

    def inject(self, at: Any, src: Any, dst: Any, flits: Any, klass: Any = 0) -> int:
        """Inject messages in the cycles `at`; return the number of the first one, the others are consecutive."""

    def run(self, until: int, *, slack: int | None = None) -> bool:
        """Simulate to the end of cycle `until`, or with `slack` to that many cycles after the first arrival."""

    def deliveries(self) -> dict[str, IntArray]:
        """Return the arrivals since the last call: serial, klass, at, first, last, hops, packets, flits, src, dst."""


class Stream(Protocol):
    """A generator of packets."""

    def until(self, cycle: int) -> Arrivals:
        """Return the packets created before `cycle` and not yet returned."""


class Feed:
    """Run a network under open traffic; `advance` does all of it.

    Message classes are those of the settings, then one for the replies to each class of requests. The observer adds a
    class for the round trips of each class of requests.
    """

    def __init__(
        self, network: Carrier, source: Stream, classes: Sequence[TrafficClass], observer: Observer, load: float
    ) -> None:
        self.network = network
        self.source = source
        self.observer = observer
        self.cycle = 0
        self._end = 0  # the cycle up to which packets are created; above `cycle` while they are simulated
        per_cycle = max(load * network.npus, 1e-9)
        self._span = int(max(1, min(MAX_SPAN, PACKETS / per_cycle)))
        answered = [k for k, class_ in enumerate(classes) if class_.replies is not None]
        self._first_reply = len(classes)
        # Per message class: the class of its replies (-1: none), and their delay.
        self._reply_class = np.full(observer.rows, -1, dtype=np.int64)
        self._delay = np.zeros(observer.rows, dtype=np.int64)
        for number, k in enumerate(answered):
            replies = classes[k].replies
            self._reply_class[k] = self._first_reply + number
            self._delay[k] = replies.delay if replies is not None else 0
        self._trips = len(answered)  # offset from a class of replies to that of its round trips
        self._slack = int(self._delay[answered].min()) if answered else None
        self._reply_flits: dict[int, int] = {}  # request -> flits of its reply
        self._request_cycle: dict[int, int] = {}  # reply -> cycle in which the request was created

    def advance(self, until: int) -> None:
        """Simulate up to a cycle."""
        while self.cycle < until:
            if self._end == self.cycle:  # else an interrupted call is continued
                end = min(until, self.cycle + self._span)
                self._create(self.source.until(end))
                self._end = end
            self._run(self._end)
            self.cycle = self._end

    def _create(self, new: Arrivals) -> None:
        if not len(new):
            return
        self.observer.create(new.klass, new.cycle, new.flits)
        first = self.network.inject(new.cycle, new.src, new.dst, new.flits, new.klass)
        if self._slack is None:
            return
        answered = np.flatnonzero(new.reply)
        self._reply_flits.update(zip((first + answered).tolist(), new.reply[answered].tolist(), strict=True))
        trips = self._reply_class[new.klass[answered]] + self._trips
        self.observer.create(trips, new.cycle[answered], np.zeros(len(answered), dtype=np.int64))

    def _run(self, end: int) -> None:
        while True:
            more = self.network.run(end, slack=self._slack)
            answered = self._take(self.network.deliveries())
            if self.network.now >= end or not (more or answered):
                return

    def _take(self, arrived: dict[str, IntArray]) -> bool:
        """Record arrivals and create replies; return whether there were requests."""
        klass = arrived["klass"]
        if not len(klass):
            return False
        self.observer.take(arrived)
        if self._slack is None:
            return False
        requests = np.flatnonzero(self._reply_class[klass] >= 0)
        self._answer(arrived, requests)
        replies = np.flatnonzero(klass >= self._first_reply)
        if len(replies):
            at = np.array(
                [self._request_cycle.pop(serial) for serial in arrived["serial"][replies].tolist()], dtype=np.int64
            )
            none = np.zeros(len(replies), dtype=np.int64)
            trips = klass[replies] + self._trips
            self.observer.arrive(trips, at, at, arrived["last"][replies], none, none, none, arrived["dst"][replies])
        return len(requests) > 0

    def _answer(self, arrived: dict[str, IntArray], requests: IntArray) -> None:
        if not len(requests):
            return
        klass = arrived["klass"][requests]
        flits = np.array(
            [self._reply_flits.pop(serial) for serial in arrived["serial"][requests].tolist()], dtype=np.int64
        )
        at = arrived["last"][requests] + self._delay[klass]
        replies = self._reply_class[klass]
        self.observer.create(replies, at, flits)
        first = self.network.inject(at, arrived["dst"][requests], arrived["src"][requests], flits, replies)
        self._request_cycle.update(
            zip(range(first, first + len(requests)), arrived["at"][requests].tolist(), strict=True)
        )
