from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef enum:
    SLOTS = 1 << 12

cdef struct Slot:
    uint64_t hash
    const uint8_t *key
    Py_ssize_t size
    int64_t number


cdef class ByteKeys:
    cdef dict numbers  # by the bytes: the same bytes, to which slots point, and the number
    cdef Slot slots[SLOTS]

    cdef int64_t find(self, const uint8_t *key, Py_ssize_t size) except -2
    cdef int add(self, bytes key, int64_t number) except -1
    cdef int clear(self) except -1
