"""What carries messages and tells what arrived."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.network.delay.events cimport Events

cdef enum:
    NOBODY = -1


cdef class Carrier:
    cdef readonly int64_t now, sent, delivered, bytes_delivered
    cdef int64_t flit
    cdef Events events
    cdef object table          # what advance finds: rows of messages and cycles,
    cdef int64_t[:, ::1] rows  # and the same for C

    cdef int _check(self, const int64_t[::1] ways, const int64_t[::1] nbytes, int64_t at, int64_t known) except -1
    cdef int _grow(self) except -1
    cdef tuple _noted(self, int64_t count)


cdef inline int note(Carrier carrier, int64_t place, int64_t number, int64_t cycle) except -1:
    """A message has arrived, the one at this place of those that are told next."""
    if place == carrier.rows.shape[1]:
        carrier._grow()
    carrier.rows[0, place] = number
    carrier.rows[1, place] = cycle
    return 0


cdef class OnRoutes(Carrier):
    cdef readonly int64_t routes, flits_sent
    cdef int64_t[::1] starts
    cdef int32_t[::1] links


cdef class Pool:
    cdef void *records
    cdef size_t size
    cdef int64_t room, unused

    cdef int64_t take(self) except -1
    cdef void give(self, int64_t index) noexcept nogil
