"""A heap of events that Python objects own (pyxsim/heap.pxd)."""

from libc.stdint cimport int64_t

from pyxsim.heap cimport Entry, Heap


cdef class Events:
    cdef Heap heap

    cdef int push(self, int64_t cycle, int64_t number, int64_t item) except -1
    cdef Entry pop(self) noexcept nogil
