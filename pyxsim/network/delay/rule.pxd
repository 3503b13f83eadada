"""Rules: the time of a message over a path or a link."""

from libc.stdint cimport int32_t, int64_t


cdef class Rule:
    cdef readonly int64_t paths
    cdef int32_t[::1] kind

    cdef int64_t flight(self, int64_t path, int64_t nbytes) noexcept nogil
    cdef int64_t serial(self, int64_t path, int64_t nbytes) noexcept nogil
    cdef void _grow(self, kind)


cdef class Exact(Rule):
    cdef readonly int64_t per_cycle
    cdef int64_t[::1] latency
    cdef int64_t[:, ::1] of_flight
    cdef int64_t[:, ::1] of_serial


cdef class Doubles(Rule):
    cdef double[::1] latency
    cdef double[::1] rate


cdef class Summands(Doubles):
    cdef double[:, ::1] more
