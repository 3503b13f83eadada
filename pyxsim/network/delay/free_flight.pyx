"""Messages without contention: each takes the time of its path, whatever the other messages."""

from libc.stdint cimport int64_t

import numpy as np

from pyxsim.network.delay.carrier cimport Carrier, add_arrival
from pyxsim.heap cimport Entry
from pyxsim.network.delay.events cimport Events
from pyxsim.network.delay.rule cimport Rule
from pyxsim.network.delay.rule import grown


cdef class FreeFlight(Carrier):
    """Messages in flight over the paths of a rule. `flit`: bytes of a flit, for statistics."""

    cdef readonly Rule rule
    cdef int64_t[::1] carried

    def __init__(self, Rule rule, int64_t flit):
        super().__init__(flit)
        self.rule = rule
        self.carried = np.zeros(16, np.int64)

    def extend(self, *terms):
        """Add paths; `terms` are the arguments of the rule's `extend`."""
        used = self.rule.paths
        self.rule.extend(*terms)
        self.carried = grown(self.carried, used, np.zeros(self.rule.paths - used, np.int64))

    @property
    def flits(self):
        """int64[paths]: flits that each path has carried."""
        return np.asarray(self.carried)[: self.rule.paths].copy()

    def send(self, const int64_t[::1] paths, const int64_t[::1] nbytes, int64_t at):
        """Send messages over these paths in cycle `at`; return the number of the first."""
        cdef int64_t first = self.sent, i, time
        self._check(paths, nbytes, at, self.rule.paths)
        for i in range(len(paths)):
            time = self.rule.flight(paths[i], nbytes[i])
            if time < 0:
                raise OverflowError(f"a message of {nbytes[i]} bytes takes more cycles than can be counted")
            # The event keeps the size of the message, which is all that its arrival needs.
            self.events.push(at + time, self.sent, nbytes[i])
            self.carried[paths[i]] += (nbytes[i] + self.flit - 1) // self.flit
            self.sent += 1
        return first

    def advance(self, int64_t until, int64_t slack):
        """Return (messages, cycles): the next arrivals up to cycle `until`, and those up to `slack` cycles later."""
        cdef Events events = self.events
        cdef Entry event
        cdef int64_t stop, i = 0
        if not events.heap.count or events.heap.items[0].at > until:
            return self._arrivals(0)
        stop = min(until, events.heap.items[0].at + slack)
        while events.heap.count and events.heap.items[0].at <= stop:
            event = events.pop()
            add_arrival(self, i, event.number, event.at)
            self.bytes_delivered += event.item
            i += 1
        self.now = self.rows[1, i - 1]
        self.delivered += i
        return self._arrivals(i)

    def __getstate__(self):
        return super().__getstate__() | {"free": (self.rule, np.asarray(self.carried))}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.rule, self.carried = state["free"]
