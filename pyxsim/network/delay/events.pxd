"""What is going to happen, in order."""

from libc.stdint cimport int64_t


cdef struct Event:
    int64_t cycle
    int64_t number
    int64_t what


cdef class Events:
    cdef readonly int64_t count
    cdef int64_t room
    cdef Event *heap

    cdef bint push(self, int64_t cycle, int64_t number, int64_t what) noexcept nogil
    cdef Event pop(self) noexcept nogil
