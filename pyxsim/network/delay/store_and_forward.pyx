"""Messages that queue for links: a whole message is the unit, first come first served, without limits to queues.

A message enters the queue of the first link of its route. A link takes one message at a time. It holds the link for
its serialisation, arrives at the other end after serialisation and latency, and only then enters the queue of the next
link: store and forward. Events of one cycle happen in the order in which they were foreseen; a link that sends foresees
the arrival first and then that it is free again (as ASTRA-sim's congestion-aware analytical backend does).
"""

from libc.stdint cimport int64_t

import numpy as np

from pyxsim.network.delay.carrier cimport NOBODY, OnRoutes, Pool
from pyxsim.heap cimport Entry
from pyxsim.network.delay.rule cimport Rule
from pyxsim.raw cimport arrays


cdef enum Happening:
    SENT = 0      # message `index` is handed to the network
    ARRIVED = 1   # it is at the end of a link
    FREE = 2      # link `index` is free


cdef struct Message:
    int64_t next   # who waits behind it for the same link
    int64_t number
    int64_t nbytes
    int64_t hop    # its place in `links`
    int64_t last   # the place behind its last link


cdef class StoreAndForward(OnRoutes):
    """Messages on links, which are the ways of the rule."""

    cdef readonly Rule rule
    cdef int64_t foreseen
    cdef Pool pool
    cdef Message *messages  # those of the pool
    cdef int64_t[::1] busy, front, back, carried
    cdef list arrived

    def __init__(self, Rule rule, int64_t flit):
        super().__init__(flit)
        self.rule, self.foreseen = rule, 0
        self.pool, self.messages = Pool(sizeof(Message)), NULL
        self.busy, self.carried = np.zeros(rule.ways, np.int64), np.zeros(rule.ways, np.int64)
        self.front, self.back = np.full(rule.ways, NOBODY, np.int64), np.full(rule.ways, NOBODY, np.int64)
        self.arrived = []

    @property
    def flits(self):
        """int64[links]: what each link carried."""
        return np.asarray(self.carried).copy()

    def send(self, const int64_t[::1] ways, const int64_t[::1] nbytes, int64_t at):
        """Messages of `nbytes` over these routes in cycle `at`; returns the number of the first."""
        cdef int64_t first = self.sent, i, index
        cdef Message *message
        self._check(ways, nbytes, at, self.routes)
        for i in range(len(ways)):
            index = self.pool.take()
            self.messages = <Message*> self.pool.records
            message = &self.messages[index]
            message.number, message.nbytes, message.next = self.sent, nbytes[i], NOBODY
            message.hop, message.last = self.starts[ways[i]], self.starts[ways[i] + 1]
            self.sent += 1
            self.flits_sent += (nbytes[i] + self.flit - 1) // self.flit
            if at == self.now and message.hop < message.last:
                self._enter(index)
            else:
                self._foresee(at, SENT, index)
        return first

    cdef int _foresee(self, int64_t cycle, Happening happening, int64_t index) except -1:
        self.events.push(cycle, self.foreseen, index * 4 + <int64_t> happening)
        self.foreseen += 1
        return 0

    cdef int _enter(self, int64_t index) except -1:
        """A message reaches the queue of its next link."""
        cdef int64_t link = self.links[self.messages[index].hop]
        if not self.busy[link]:
            self._start(link, index)
        elif self.front[link] == NOBODY:
            self.front[link] = self.back[link] = index
        else:
            self.messages[self.back[link]].next = index
            self.back[link] = index
        return 0

    cdef int _start(self, int64_t link, int64_t index) except -1:
        """The link sends a message."""
        cdef int64_t nbytes = self.messages[index].nbytes
        cdef int64_t flight = self.rule.flight(link, nbytes), serial = self.rule.serial(link, nbytes)
        if flight < 0 or serial < 0:
            raise OverflowError(f"a message of {nbytes} bytes takes more cycles than can be counted")
        self.busy[link] = 1
        self.carried[link] += (nbytes + self.flit - 1) // self.flit
        self._foresee(self.now + flight, ARRIVED, index)
        self._foresee(self.now + serial, FREE, link)
        return 0

    cdef int _happen(self, Entry event) except -1:
        cdef int64_t index = event.item >> 2
        cdef Happening happening = <Happening> (event.item & 3)
        cdef Message *message
        cdef int64_t waiting
        self.now = event.at
        if happening == FREE:
            self.busy[index] = 0
            waiting = self.front[index]
            if waiting != NOBODY:
                self.front[index] = self.messages[waiting].next
                self.messages[waiting].next = NOBODY
                self._start(index, waiting)
            return 0
        message = &self.messages[index]
        if happening == ARRIVED:
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
        """(messages, cycles) of the next arrivals up to cycle `until`, and of those up to `slack` cycles later."""
        cdef int64_t stop = until
        while self.events.heap.count and self.events.heap.items[0].at <= stop:
            self._happen(self.events.pop())
            if self.arrived and stop == until:
                stop = min(until, <int64_t> self.arrived[0][0] + slack)
        found = np.array(sorted(self.arrived), np.int64).reshape(-1, 2)
        self.arrived.clear()
        return np.ascontiguousarray(found[:, 1]), np.ascontiguousarray(found[:, 0])

    def __getstate__(self):
        columns = arrays([self.busy, self.front, self.back, self.carried])
        return super().__getstate__() | {"stored": (self.rule, self.foreseen, self.pool, self.arrived, columns)}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.rule, self.foreseen, self.pool, self.arrived, columns = state["stored"]
        self.busy, self.front, self.back, self.carried = columns
        self.messages = <Message*> self.pool.records
