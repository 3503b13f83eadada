"""Store and forward of whole messages that queue for links, first come first served, with unbounded queues.

A message enters the queue of the first link of its route. A link sends one message at a time and is busy for its
serialisation. The message arrives at the other end after serialisation and latency, and only then enters the queue of
the next link. Events of one cycle happen in the order in which they were scheduled; a link that sends schedules first
the arrival, then its own release, as ASTRA-sim's congestion-aware analytical backend does.
"""

from libc.stdint cimport int64_t

import numpy as np

from pyxsim.network.delay.carrier cimport NONE, OnRoutes, Pool
from pyxsim.heap cimport Entry
from pyxsim.network.delay.rule cimport Rule
from pyxsim.raw cimport arrays


cdef enum EventKind:
    SENT = 0      # message `index` is sent
    ARRIVED = 1   # message `index` arrives at the end of a link
    FREE = 2      # link `index` is free


cdef struct Message:
    int64_t next   # the next message in the queue of the same link
    int64_t number
    int64_t nbytes
    int64_t hop    # index of its next link in `links`
    int64_t last   # end of its route in `links`


cdef class StoreAndForward(OnRoutes):
    """Messages on links, which are the paths of the rule."""

    cdef readonly Rule rule
    cdef int64_t scheduled
    cdef Pool pool
    cdef Message *messages  # records of the pool
    cdef int64_t[::1] busy, front, back, carried
    cdef list arrived

    def __init__(self, Rule rule, int64_t flit):
        super().__init__(flit)
        self.rule, self.scheduled = rule, 0
        self.pool, self.messages = Pool(sizeof(Message)), NULL
        self.busy, self.carried = np.zeros(rule.paths, np.int64), np.zeros(rule.paths, np.int64)
        self.front, self.back = np.full(rule.paths, NONE, np.int64), np.full(rule.paths, NONE, np.int64)
        self.arrived = []

    @property
    def flits(self):
        """int64[links]: flits that each link has carried."""
        return np.asarray(self.carried).copy()

    def send(self, const int64_t[::1] paths, const int64_t[::1] nbytes, int64_t at):
        """Send messages over these routes in cycle `at`; return the number of the first."""
        cdef int64_t first = self.sent, i, index
        cdef Message *message
        self._check(paths, nbytes, at, self.routes)
        for i in range(len(paths)):
            index = self.pool.take()
            self.messages = <Message*> self.pool.records
            message = &self.messages[index]
            message.number, message.nbytes, message.next = self.sent, nbytes[i], NONE
            message.hop, message.last = self.starts[paths[i]], self.starts[paths[i] + 1]
            self.sent += 1
            self.flits_sent += (nbytes[i] + self.flit - 1) // self.flit
            if at == self.now and message.hop < message.last:
                self._enter(index)
            else:
                self._schedule(at, SENT, index)
        return first

    cdef int _schedule(self, int64_t cycle, EventKind kind, int64_t index) except -1:
        self.events.push(cycle, self.scheduled, index * 4 + <int64_t> kind)
        self.scheduled += 1
        return 0

    cdef int _enter(self, int64_t index) except -1:
        """Enter a message into the queue of its next link, or start it on an idle one."""
        cdef int64_t link = self.links[self.messages[index].hop]
        if not self.busy[link]:
            self._start(link, index)
        elif self.front[link] == NONE:
            self.front[link] = self.back[link] = index
        else:
            self.messages[self.back[link]].next = index
            self.back[link] = index
        return 0

    cdef int _start(self, int64_t link, int64_t index) except -1:
        """Send a message over a link."""
        cdef int64_t nbytes = self.messages[index].nbytes
        cdef int64_t flight = self.rule.flight(link, nbytes), serial = self.rule.serial(link, nbytes)
        if flight < 0 or serial < 0:
            raise OverflowError(f"a message of {nbytes} bytes takes more cycles than can be counted")
        self.busy[link] = 1
        self.carried[link] += (nbytes + self.flit - 1) // self.flit
        self._schedule(self.now + flight, ARRIVED, index)
        self._schedule(self.now + serial, FREE, link)
        return 0

    cdef int _process(self, Entry event) except -1:
        cdef int64_t index = event.item >> 2
        cdef EventKind kind = <EventKind> (event.item & 3)
        cdef Message *message
        cdef int64_t waiting
        self.now = event.at
        if kind == FREE:
            self.busy[index] = 0
            waiting = self.front[index]
            if waiting != NONE:
                self.front[index] = self.messages[waiting].next
                self.messages[waiting].next = NONE
                self._start(index, waiting)
            return 0
        message = &self.messages[index]
        if kind == ARRIVED:
            message.hop += 1
        if message.hop < message.last:
            self._enter(index)
            return 0
        self.arrived.append((event.at, message.number))
        self.bytes_delivered += message.nbytes
        self.delivered += 1
        self.pool.give(index)
        return 0

    def advance(self, int64_t until, int64_t slack):
        """Return (messages, cycles): the next arrivals up to cycle `until`, and those up to `slack` cycles later."""
        cdef int64_t stop = until
        while self.events.heap.count and self.events.heap.items[0].at <= stop:
            self._process(self.events.pop())
            if self.arrived and stop == until:
                stop = min(until, <int64_t> self.arrived[0][0] + slack)
        rows = np.array(sorted(self.arrived), np.int64).reshape(-1, 2)
        self.arrived.clear()
        return np.ascontiguousarray(rows[:, 1]), np.ascontiguousarray(rows[:, 0])

    def __getstate__(self):
        columns = arrays([self.busy, self.front, self.back, self.carried])
        return super().__getstate__() | {"stored": (self.rule, self.scheduled, self.pool, self.arrived, columns)}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.rule, self.scheduled, self.pool, self.arrived, columns = state["stored"]
        self.busy, self.front, self.back, self.carried = columns
        self.messages = <Message*> self.pool.records
