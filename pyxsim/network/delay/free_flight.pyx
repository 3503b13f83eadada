"""Messages that never meet: each takes what its way takes by itself, however many there are."""

from libc.stdint cimport int64_t

import numpy as np

from pyxsim.network.delay.carrier cimport Carrier, note
from pyxsim.heap cimport Entry
from pyxsim.network.delay.events cimport Events
from pyxsim.network.delay.rule cimport Rule
from pyxsim.network.delay.rule import grown


cdef class FreeFlight(Carrier):
    """Messages in flight over the ways of a rule. `flit`: bytes in which `flits` counts what each way carried."""

    cdef readonly Rule rule
    cdef int64_t[::1] carried

    def __init__(self, Rule rule, int64_t flit):
        super().__init__(flit)
        self.rule = rule
        self.carried = np.zeros(16, np.int64)

    def extend(self, *terms):
        """More ways, in the terms of the rule."""
        used = self.rule.ways
        self.rule.extend(*terms)
        self.carried = grown(self.carried, used, np.zeros(self.rule.ways - used, np.int64))

    @property
    def flits(self):
        """int64[ways]: what each way carried."""
        return np.asarray(self.carried)[: self.rule.ways].copy()

    def send(self, const int64_t[::1] ways, const int64_t[::1] nbytes, int64_t at):
        """Messages of `nbytes` over these ways in cycle `at`; returns the number of the first."""
        cdef int64_t first = self.sent, i, time
        self._check(ways, nbytes, at, self.rule.ways)
        for i in range(len(ways)):
            time = self.rule.flight(ways[i], nbytes[i])
            if time < 0:
                raise OverflowError(f"a message of {nbytes[i]} bytes takes more cycles than can be counted")
            # Nothing is remembered of a message but its size.
            self.events.push(at + time, self.sent, nbytes[i])
            self.carried[ways[i]] += (nbytes[i] + self.flit - 1) // self.flit
            self.sent += 1
        return first

    def advance(self, int64_t until, int64_t slack):
        """(messages, cycles) of the next arrivals up to cycle `until`, and of those up to `slack` cycles later."""
        cdef Events events = self.events
        cdef Entry event
        cdef int64_t stop, i = 0
        if not events.heap.count or events.heap.items[0].at > until:
            return self._noted(0)
        stop = min(until, events.heap.items[0].at + slack)
        while events.heap.count and events.heap.items[0].at <= stop:
            event = events.pop()
            note(self, i, event.number, event.at)
            self.bytes_delivered += event.item
            i += 1
        self.now = self.rows[1, i - 1]
        self.delivered += i
        return self._noted(i)

    def __getstate__(self):
        return super().__getstate__() | {"free": (self.rule, np.asarray(self.carried))}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.rule, self.carried = state["free"]
