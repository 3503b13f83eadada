"""Base classes of the engines of the analytical backends: time, counters, routes, and a pool of message records."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

import numpy as np

from pyxsim.network.delay.events cimport Events
from pyxsim.network.delay.rule import grown
from pyxsim.raw cimport loaded, saved

cdef int64_t NEVER = (<int64_t> 1 << 62) + 1


cdef class Carrier:
    """Messages in flight. `flit`: bytes of a flit, for statistics."""

    def __init__(self, int64_t flit):
        self.flit = flit
        self.events = Events()
        self.now = self.sent = self.delivered = self.bytes_delivered = 0
        self.table = self.rows = np.empty((2, 16), np.int64)

    @property
    def next_cycle(self):
        """The cycle of the next event; NEVER without one."""
        return self.events.heap.items[0].at if self.events.heap.count else NEVER

    def wait(self, int64_t cycle):
        """Advance time to `cycle`; there is no event before it."""
        self.now = max(self.now, cycle)

    cdef int _check(self, const int64_t[::1] paths, const int64_t[::1] nbytes, int64_t at, int64_t count) except -1:
        """Refuse invalid messages before any of them is sent. `count`: number of paths."""
        cdef int64_t i
        if at < self.now:
            raise ValueError(f"a message of cycle {at} in cycle {self.now}")
        for i in range(len(paths)):
            if not 0 <= paths[i] < count:
                raise IndexError(f"unknown path {paths[i]}")
            if nbytes[i] < 1:
                raise ValueError(f"a message of {nbytes[i]} bytes")
        return 0

    cdef int _grow(self) except -1:
        """Quadruple the capacity of the table of arrivals."""
        self.table = self.rows = np.concatenate([self.table, np.empty((2, 3 * self.rows.shape[1]), np.int64)], axis=1)
        return 0

    cdef tuple _arrivals(self, int64_t count):
        return self.table[0, :count].copy(), self.table[1, :count].copy()

    # The table of arrivals holds no state between calls.

    def __getstate__(self):
        return {"carrier": (self.now, self.sent, self.delivered, self.bytes_delivered, self.flit, self.events)}

    def __setstate__(self, state):
        self.now, self.sent, self.delivered, self.bytes_delivered, self.flit, self.events = state["carrier"]
        self.table = self.rows = np.empty((2, 16), np.int64)


cdef class OnRoutes(Carrier):
    """Messages that go from link to link over the routes that `extend` adds."""

    def __init__(self, int64_t flit):
        super().__init__(flit)
        self.flits_sent = self.routes = 0
        self.starts, self.links = np.zeros(16, np.int64), np.zeros(16, np.int32)

    def extend(self, lengths, links):
        """Add routes: `lengths` is the number of links of each; `links` are those of all routes in order."""
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
    """Records of `size` bytes. The first 8 bytes of a free record are the number of the next free one.

    Records move when the pool grows, so pointers into `records` are invalid after `take`.
    """

    def __cinit__(self, size_t size):
        self.records = NULL
        self.size, self.capacity, self.unused = size, 0, NONE

    def __dealloc__(self):
        free(self.records)

    cdef int64_t take(self) except -1:
        """Return the number of a free record."""
        cdef int64_t index, capacity = 2 * self.capacity + 64
        cdef void *larger
        if self.unused == NONE:
            larger = realloc(self.records, capacity * self.size)
            if larger == NULL:
                raise MemoryError(f"{self.capacity} messages in flight")
            self.records = larger
            for index in range(capacity - 1, self.capacity - 1, -1):
                self.give(index)
            self.capacity = capacity
        index = self.unused
        self.unused = (<int64_t*> (<char*> self.records + index * self.size))[0]
        return index

    cdef void give(self, int64_t index) noexcept nogil:
        (<int64_t*> (<char*> self.records + index * self.size))[0] = self.unused
        self.unused = index

    def __getnewargs__(self):
        return (self.size,)

    def __getstate__(self):
        return self.unused, saved(self.records, self.capacity, self.size)

    def __setstate__(self, state):
        self.unused, records = state
        self.records, self.capacity = loaded(records), len(records) // <int64_t> self.size
