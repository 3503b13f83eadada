"""Messages that queue for links, exactly: a whole message is the unit, first come first served, no limits to queues.

The head of a message goes on to the next link of its route as soon as it has crossed one (`whole`: when all of the
message has). A link begins with it when it is free, and is taken until the tail has come through:

    start    the later of: the head is there; the link is free
    end      the later of: start + bytes / bandwidth; the tail is there, coming over a slower link
    next     the head is there at start + latency, the tail at end + latency

Times are exact (ticks.pyx). All of that is known when the head comes to the link, because who comes later does not
matter to it: one event per hop. Heads that come in the same cycle are served in the order in which the messages were
sent: whoever hears of an arrival, which is told in whole cycles, and sends something then, is in order. A message has
arrived when its tail has, cut off to whole cycles.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

import numpy as np

from pyxsim.network.delay.carrier cimport OnRoutes, Pool, note
from pyxsim.heap cimport Entry
from pyxsim.network.delay.events cimport Events
from pyxsim.network.delay.ticks cimport Ticks, int128_t
from pyxsim.raw cimport arrays, loaded, saved


cdef struct Message:
    int64_t hop    # its place in `links`
    int64_t last   # the place behind its last link
    int64_t nbytes
    int128_t head, tail  # when they are at the link, or at the end


cdef class CutThrough(OnRoutes):
    """Messages on links that are told what a link takes by `ticks`.

    `window`, `rows`: what links began with, and the cycles in which somebody waited for them, are counted in windows
    of so many cycles, at most so many; else they double.
    """

    cdef readonly Ticks ticks
    cdef readonly int64_t window
    cdef bint whole
    cdef Pool pool
    cdef Message *messages     # those of the pool
    cdef int128_t *free_at
    cdef int64_t[::1] waited   # until when somebody has waited for each link, as far as it is counted
    cdef int64_t row, row_begin, row_end
    cdef int64_t[:, ::1] begun, waits

    def __init__(self, Ticks ticks, int64_t flit, *, bint whole=False, int64_t window=1000, int64_t rows=1):
        super().__init__(flit)
        self.free_at = <int128_t*> calloc(ticks.links + 1, sizeof(int128_t))
        if self.free_at == NULL:
            raise MemoryError(f"{ticks.links} links")
        self.ticks = ticks
        self.whole, self.window = whole, window
        self.pool, self.messages = Pool(sizeof(Message)), NULL
        self.waited = np.zeros(ticks.links, np.int64)
        self.begun, self.waits = np.zeros((rows, ticks.links), np.int64), np.zeros((rows, ticks.links), np.int64)
        self.row, self.row_begin, self.row_end = 0, 0, window

    def __dealloc__(self):
        free(self.free_at)

    @property
    def flits(self):
        """int64[links]: what each link began with."""
        return np.asarray(self.begun).sum(axis=0)

    @property
    def windows(self):
        """(int64[rows, links], the same): flits, and cycles in which somebody waited, by windows of `window` cycles."""
        return np.asarray(self.begun), np.asarray(self.waits)

    # -- messages --

    def send(self, const int64_t[::1] ways, const int64_t[::1] nbytes, int64_t at):
        """Messages of `nbytes` over these routes in cycle `at`; returns the number of the first."""
        cdef int64_t first = self.sent, i, index
        cdef Message *message
        self._check(ways, nbytes, at, self.routes)
        for i in range(len(ways)):
            index = self.pool.take()
            self.messages = <Message*> self.pool.records
            message = &self.messages[index]
            message.nbytes = nbytes[i]
            message.hop, message.last = self.starts[ways[i]], self.starts[ways[i] + 1]
            message.head = message.tail = <int128_t> at * self.ticks.per_cycle
            # What is at its link before everything that is foreseen needs no event.
            if at == self.now and (not self.events.heap.count or self.events.heap.items[0].at > at):
                self._enter(Entry(at, self.sent, index, 0, 0))
            else:
                self.events.push(at, self.sent, index)
            self.sent += 1
            self.flits_sent += (nbytes[i] + self.flit - 1) // self.flit
        return first

    cdef int _enter(self, Entry event) except -1:
        """The head of a message is at its next link: when it will be at the one behind it, or all of it at the end."""
        cdef Message *message = &self.messages[event.item]
        cdef int64_t link = self.links[message.hop], cycle = event.at
        cdef int128_t serial = self.ticks.serial(link, message.nbytes), begin = message.head, end
        if serial < 0:
            raise OverflowError(f"a message of {message.nbytes} bytes takes more cycles than can be counted")
        if self.free_at[link] > begin:
            begin = self.free_at[link]
            cycle = self.ticks.cycle(begin)
            self._wait(link, max(event.at, self.waited[link]), cycle)
        end = begin + serial
        if message.tail > end:
            end = message.tail
        self.free_at[link] = end
        self._count(link, cycle, (message.nbytes + self.flit - 1) // self.flit)
        message.hop += 1
        message.tail = end + self.ticks.latency[link]
        message.head = message.tail if self.whole else begin + self.ticks.latency[link]
        cycle = self.ticks.cycle(message.head if message.hop < message.last else message.tail)
        if cycle < 0:
            raise OverflowError(f"a message of {message.nbytes} bytes takes more cycles than can be counted")
        self.events.push(cycle, event.number, event.item)
        return 0

    # -- windows --

    cdef int _count(self, int64_t link, int64_t cycle, int64_t flits) except -1:
        """The link begins with so many flits."""
        if not self.row_begin <= cycle < self.row_end:
            while cycle // self.window >= self.begun.shape[0]:
                self._double()
            self.row = cycle // self.window
            self.row_begin, self.row_end = self.row * self.window, (self.row + 1) * self.window
        self.begun[self.row, link] += flits
        return 0

    cdef int _wait(self, int64_t link, int64_t since, int64_t until) except -1:
        """Somebody waits for the link in these cycles, which nobody has been counted for yet."""
        cdef int64_t row
        while since < until:
            row = since // self.window
            if row >= self.begun.shape[0]:
                self._double()
                continue
            self.waits[row, link] += min(until, (row + 1) * self.window) - since
            since = (row + 1) * self.window
        self.waited[link] = max(self.waited[link], until)
        return 0

    cdef int _double(self) except -1:
        """Windows of twice the length."""
        self.begun, self.waits = merged(np.asarray(self.begun)), merged(np.asarray(self.waits))
        self.window *= 2
        self.row_begin = self.row_end = 0
        return 0

    def widen(self, int64_t cycles):
        """Make the windows so long that those of the first `cycles` cycles are few enough."""
        while self.begun.shape[0] * self.window < cycles:
            self._double()

    # -- time --

    def advance(self, int64_t until, int64_t slack):
        """(messages, cycles) of the next arrivals up to cycle `until`, and of those up to `slack` cycles later."""
        cdef Events events = self.events
        cdef Entry event
        cdef Message *message
        cdef int64_t stop = until, i = 0
        while events.heap.count and events.heap.items[0].at <= stop:
            event = events.pop()
            self.now = event.at
            message = &self.messages[event.item]
            if message.hop < message.last:
                self._enter(event)
                continue
            if not i:
                stop = min(until, event.at + slack)
            note(self, i, event.number, event.at)
            self.bytes_delivered += message.nbytes
            self.pool.give(event.item)
            i += 1
        self.delivered += i
        return self._noted(i)

    def __getstate__(self):
        columns = arrays([self.waited, self.begun, self.waits])
        numbers = self.window, self.whole, self.row, self.row_begin, self.row_end
        free_at = saved(self.free_at, self.ticks.links, sizeof(int128_t))
        return super().__getstate__() | {"queued": (self.ticks, self.pool, numbers, free_at, columns)}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.ticks, self.pool, numbers, free_at, columns = state["queued"]
        self.window, self.whole, self.row, self.row_begin, self.row_end = numbers
        self.free_at = <int128_t*> loaded(free_at)
        self.waited, self.begun, self.waits = columns
        self.messages = <Message*> self.pool.records


def merged(rows):
    """Every second row with the one behind it, and as many rows of zeros."""
    found = np.zeros_like(rows)
    found[: (len(rows) + 1) // 2] = rows[::2]
    found[: len(rows) // 2] += rows[1::2]
    return found
