"""Messages that queue for links, with exact times: whole messages, first come first served, unbounded queues.

The head of a message advances to the next link of its route as soon as it has crossed one (with `whole`: as soon as
its tail has). A link starts a message when it is free, and is busy until the tail has left:

    start    the later of: arrival of the head; the link is free
    end      the later of: start + bytes / bandwidth; arrival of the tail over a slower link
    next     the head arrives at start + latency, the tail at end + latency

Times are exact (ticks.pyx). All three are known when the head arrives at the link, because later messages do not affect
it: one event per hop. Heads that arrive in the same cycle are served in the order in which the messages were sent. A
message arrives with its tail; the cycle is rounded down.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

import numpy as np

from pyxsim.network.delay.carrier cimport OnRoutes, Pool, add_arrival
from pyxsim.heap cimport Entry
from pyxsim.network.delay.events cimport Events
from pyxsim.network.delay.ticks cimport Ticks, int128_t
from pyxsim.raw cimport arrays, loaded, saved


cdef struct Message:
    int64_t hop    # index of its next link in `links`
    int64_t last   # end of its route in `links`
    int64_t nbytes
    int128_t head, tail  # when they arrive at the next link, or at the destination


cdef class CutThrough(OnRoutes):
    """Messages on links whose times are given by `ticks`.

    Flits and waiting cycles of links are counted in at most `rows` windows of `window` cycles; for a longer run the
    windows double.
    """

    cdef readonly Ticks ticks
    cdef readonly int64_t window
    cdef bint whole
    cdef Pool pool
    cdef Message *messages     # records of the pool
    cdef int128_t *free_at
    cdef int64_t[::1] waited   # per link: the cycle up to which waiting has been counted
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
        """int64[links]: flits of the messages that each link has started."""
        return np.asarray(self.begun).sum(axis=0)

    @property
    def windows(self):
        """int64[rows, links] twice: flits, and cycles in which a message waited, by windows of `window` cycles."""
        return np.asarray(self.begun), np.asarray(self.waits)

    # -- messages --

    def send(self, const int64_t[::1] paths, const int64_t[::1] nbytes, int64_t at):
        """Send messages over these routes in cycle `at`; return the number of the first."""
        cdef int64_t first = self.sent, i, index
        cdef Message *message
        self._check(paths, nbytes, at, self.routes)
        for i in range(len(paths)):
            index = self.pool.take()
            self.messages = <Message*> self.pool.records
            message = &self.messages[index]
            message.nbytes = nbytes[i]
            message.hop, message.last = self.starts[paths[i]], self.starts[paths[i] + 1]
            message.head = message.tail = <int128_t> at * self.ticks.per_cycle
            # A message that enters its link before all scheduled events needs no event.
            if at == self.now and (not self.events.heap.count or self.events.heap.items[0].at > at):
                self._enter(Entry(at, self.sent, index, 0, 0))
            else:
                self.events.push(at, self.sent, index)
            self.sent += 1
            self.flits_sent += (nbytes[i] + self.flit - 1) // self.flit
        return first

    cdef int _enter(self, Entry event) except -1:
        """Serve the head of a message at its next link, and schedule its arrival at the following link or the end."""
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
        """Count flits that a link starts in a cycle."""
        if not self.row_begin <= cycle < self.row_end:
            while cycle // self.window >= self.begun.shape[0]:
                self._double()
            self.row = cycle // self.window
            self.row_begin, self.row_end = self.row * self.window, (self.row + 1) * self.window
        self.begun[self.row, link] += flits
        return 0

    cdef int _wait(self, int64_t link, int64_t since, int64_t until) except -1:
        """Count the cycles from `since` to `until`, which are not yet counted, as waiting for the link."""
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
        """Double the length of the windows."""
        self.begun, self.waits = merged(np.asarray(self.begun)), merged(np.asarray(self.waits))
        self.window *= 2
        self.row_begin = self.row_end = 0
        return 0

    def widen(self, int64_t cycles):
        """Double the windows until they cover the first `cycles` cycles."""
        while self.begun.shape[0] * self.window < cycles:
            self._double()

    # -- time --

    def advance(self, int64_t until, int64_t slack):
        """Return (messages, cycles): the next arrivals up to cycle `until`, and those up to `slack` cycles later."""
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
            add_arrival(self, i, event.number, event.at)
            self.bytes_delivered += message.nbytes
            self.pool.give(event.item)
            i += 1
        self.delivered += i
        return self._arrivals(i)

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
    """Return the sums of rows 0 and 1, 2 and 3, and so on, followed by rows of zeros to the same number of rows."""
    sums = np.zeros_like(rows)
    sums[: (len(rows) + 1) // 2] = rows[::2]
    sums[: len(rows) // 2] += rows[1::2]
    return sums
