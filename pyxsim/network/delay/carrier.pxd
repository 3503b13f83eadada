"""Base classes of the compiled delay engines: arrivals, routes and a pool of message records."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.network.delay.events cimport Events

cdef enum:
    NONE = -1


cdef class Carrier:
    cdef readonly int64_t now, sent, delivered, bytes_delivered
    cdef int64_t flit
    cdef Events events
    cdef object table          # int64[2, capacity]: messages and cycles that `advance` returns,
    cdef int64_t[:, ::1] rows  # and its memory view

    cdef int _check(self, const int64_t[::1] paths, const int64_t[::1] nbytes, int64_t at, int64_t count) except -1
    cdef int _grow(self) except -1
    cdef tuple _arrivals(self, int64_t count)


cdef inline int add_arrival(Carrier carrier, int64_t index, int64_t number, int64_t cycle) except -1:
    """Store an arrival as row `index` of the table."""
    if index == carrier.rows.shape[1]:
        carrier._grow()
    carrier.rows[0, index] = number
    carrier.rows[1, index] = cycle
    return 0


cdef class OnRoutes(Carrier):
    cdef readonly int64_t routes, flits_sent
    cdef int64_t[::1] starts
    cdef int32_t[::1] links


cdef class Pool:
    cdef void *records
    cdef size_t size
    cdef int64_t capacity, unused

    cdef int64_t take(self) except -1
    cdef void give(self, int64_t index) noexcept nogil
