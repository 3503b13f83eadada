"""Pairs of NPUs and their numbers."""

from libc.stdint cimport int64_t


cdef class Pairs:
    cdef readonly int64_t npus, count
    cdef int64_t mask
    cdef int64_t[::1] keys
    cdef int64_t[::1] numbers

    cdef int64_t _slot(self, int64_t key) noexcept nogil
    cdef void _reserve(self)
