"""What the engines of the analytical backends share: time, counts, what is sent, and a pool of messages."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

import numpy as np

from pyxsim.network.delay.events cimport Events
from pyxsim.network.delay.rule import grown
from pyxsim.raw cimport loaded, saved

cdef int64_t NEVER = (<int64_t> 1 << 62) + 1


cdef class Carrier:
    """Messages in flight. `flit`: bytes in which flits are counted."""

    def __init__(self, int64_t flit):
        self.flit = flit
        self.events = Events()
        self.now = self.sent = self.delivered = self.bytes_delivered = 0
        self.table = self.rows = np.empty((2, 16), np.int64)

    @property
    def next_cycle(self):
        """The cycle in which something happens next; one that never comes if nothing does."""
        return self.events.heap.items[0].at if self.events.heap.count else NEVER

    def wait(self, int64_t cycle):
        """Let time pass in which nothing happens."""
        self.now = max(self.now, cycle)

    cdef int _check(self, const int64_t[::1] ways, const int64_t[::1] nbytes, int64_t at, int64_t known) except -1:
        """Refuse to send what nobody can carry, before any of it is sent. `known`: how many ways there are."""
        cdef int64_t i
        if at < self.now:
            raise ValueError(f"a message of cycle {at} in cycle {self.now}")
        for i in range(len(ways)):
            if not 0 <= ways[i] < known:
                raise IndexError(f"no way {ways[i]}")
            if nbytes[i] < 1:
                raise ValueError(f"a message of {nbytes[i]} bytes")
        return 0

    cdef int _grow(self) except -1:
        """Room for four times as many arrivals."""
        self.table = self.rows = np.concatenate([self.table, np.empty((2, 3 * self.rows.shape[1]), np.int64)], axis=1)
        return 0

    cdef tuple _noted(self, int64_t count):
        return self.table[0, :count].copy(), self.table[1, :count].copy()

    # Of what is found nothing is left from one call to the next.

    def __getstate__(self):
        return {"carrier": (self.now, self.sent, self.delivered, self.bytes_delivered, self.flit, self.events)}

    def __setstate__(self, state):
        self.now, self.sent, self.delivered, self.bytes_delivered, self.flit, self.events = state["carrier"]
        self.table = self.rows = np.empty((2, 16), np.int64)


cdef class OnRoutes(Carrier):
    """Messages that go from link to link; `extend` tells routes, which messages name."""

    def __init__(self, int64_t flit):
        super().__init__(flit)
        self.flits_sent = self.routes = 0
        self.starts, self.links = np.zeros(16, np.int64), np.zeros(16, np.int32)

    def extend(self, lengths, links):
        """More routes: how many links each has, and the links, one route behind the other."""
        used = self.starts[self.routes]
        self.starts = grown(self.starts, self.routes + 1, used + np.cumsum(lengths, dtype=np.int64))
        self.links = grown(self.links, used, links)
        self.routes += len(lengths)

    def __getstate__(self):
        routes = self.routes, self.flits_sent, np.asarray(self.starts), np.asarray(self.links)
        return super().__getstate__() | {"routes": routes}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.routes, self.flits_sent, self.starts, self.links = state["routes"]


cdef class Pool:
    """Records of `size` bytes, which begin with room for a number: of one that nobody has, it is the next such one.

    Records move when the pool grows: who takes one looks up `records` anew.
    """

    def __cinit__(self, size_t size):
        self.records = NULL
        self.size, self.room, self.unused = size, 0, NOBODY

    def __dealloc__(self):
        free(self.records)

    cdef int64_t take(self) except -1:
        """The number of a record that is free now."""
        cdef int64_t index, room = 2 * self.room + 64
        cdef void *larger
        if self.unused == NOBODY:
            larger = realloc(self.records, room * self.size)
            if larger == NULL:
                raise MemoryError(f"{self.room} messages in flight")
            self.records = larger
            for index in range(room - 1, self.room - 1, -1):
                self.give(index)
            self.room = room
        index = self.unused
        self.unused = (<int64_t*> (<char*> self.records + index * self.size))[0]
        return index

    cdef void give(self, int64_t index) noexcept nogil:
        (<int64_t*> (<char*> self.records + index * self.size))[0] = self.unused
        self.unused = index

    def __getnewargs__(self):
        return (self.size,)

    def __getstate__(self):
        return self.unused, saved(self.records, self.room, self.size)

    def __setstate__(self, state):
        self.unused, records = state
        self.records, self.room = loaded(records), len(records) // <int64_t> self.size
