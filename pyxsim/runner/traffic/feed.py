"""Puts the packets of open traffic into a network, takes out what arrived, and answers requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pyxsim.arrays import IntArray
from pyxsim.runner.traffic.observe import Observer
from pyxsim.settings.traffic import TrafficClass
from pyxsim.traffic import Arrivals

PACKETS = 20_000  # that are given to the network at a time
MAX_SPAN = 1 << 16  # cycles


class Carrier(Protocol):
    """What is needed of a network (pyxsim/network/packet/open_network.py is one)."""

    npus: int

    @property
    def now(self) -> int:
        """The cycle up to which everything is known."""

    def inject(self, at: Any, src: Any, dst: Any, flits: Any, klass: Any = 0) -> int:
        """Messages that start in the cycles `at`. Returns the number of the first one; the others follow."""

    def run(self, until: int, *, slack: int | None = None) -> bool:
        """Go on to a cycle, its arrivals included; or only until `slack` cycles after something has arrived."""

    def deliveries(self) -> dict[str, IntArray]:
        """What arrived since the last call: serial, klass, at, first, last, hops, packets, flits, src, dst."""


class Stream(Protocol):
    """Where packets come from."""

    def until(self, cycle: int) -> Arrivals:
        """What is created before a cycle and was not handed out yet."""


class Feed:
    """Runs a network under open traffic; `advance` is all there is to do.

    Classes of messages: those of the settings, then one for the replies to each class that is answered; the observer
    has one more for the round trips of each of these.
    """

    def __init__(
        self, network: Carrier, source: Stream, classes: Sequence[TrafficClass], observer: Observer, load: float
    ) -> None:
        self.network = network
        self.source = source
        self.observer = observer
        self.cycle = 0
        self._end = 0  # of what was created last; while it is carried, more than `cycle`
        per_cycle = max(load * network.npus, 1e-9)
        self._span = int(max(1, min(MAX_SPAN, PACKETS / per_cycle)))
        answered = [k for k, each in enumerate(classes) if each.replies is not None]
        self._first_reply = len(classes)
        # Per class of messages: the class of the replies to it (-1: none), and their delay.
        self._reply_class = np.full(observer.rows, -1, dtype=np.int64)
        self._delay = np.zeros(observer.rows, dtype=np.int64)
        for number, k in enumerate(answered):
            replies = classes[k].replies
            self._reply_class[k] = self._first_reply + number
            self._delay[k] = replies.delay if replies is not None else 0
        self._trips = len(answered)  # from the class of replies to the one of round trips
        self._slack = int(self._delay[answered].min()) if answered else None
        self._owed: dict[int, int] = {}  # request -> flits of its reply
        self._asked: dict[int, int] = {}  # reply -> cycle in which the request was created

    def advance(self, until: int) -> None:
        """Go on to a cycle."""
        while self.cycle < until:
            if self._end == self.cycle:  # else it was left in the middle
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
        self._owed.update(zip((first + answered).tolist(), new.reply[answered].tolist(), strict=True))
        trips = self._reply_class[new.klass[answered]] + self._trips
        self.observer.create(trips, new.cycle[answered], np.zeros(len(answered), dtype=np.int64))

    def _run(self, end: int) -> None:
        while True:
            more = self.network.run(end, slack=self._slack)
            answered = self._take(self.network.deliveries())
            if self.network.now >= end or not (more or answered):
                return

    def _take(self, got: dict[str, IntArray]) -> bool:
        """Note what arrived, and answer it; whether there was something to answer."""
        klass = got["klass"]
        if not len(klass):
            return False
        self.observer.take(got)
        if self._slack is None:
            return False
        requests = np.flatnonzero(self._reply_class[klass] >= 0)
        self._answer(got, requests)
        replies = np.flatnonzero(klass >= self._first_reply)
        if len(replies):
            at = np.array([self._asked.pop(serial) for serial in got["serial"][replies].tolist()], dtype=np.int64)
            none = np.zeros(len(replies), dtype=np.int64)
            trips = klass[replies] + self._trips
            self.observer.arrive(trips, at, at, got["last"][replies], none, none, none, got["dst"][replies])
        return len(requests) > 0

    def _answer(self, got: dict[str, IntArray], requests: IntArray) -> None:
        if not len(requests):
            return
        klass = got["klass"][requests]
        flits = np.array([self._owed.pop(serial) for serial in got["serial"][requests].tolist()], dtype=np.int64)
        at = got["last"][requests] + self._delay[klass]
        replies = self._reply_class[klass]
        self.observer.create(replies, at, flits)
        first = self.network.inject(at, got["dst"][requests], got["src"][requests], flits, replies)
        self._asked.update(zip(range(first, first + len(requests)), got["at"][requests].tolist(), strict=True))
