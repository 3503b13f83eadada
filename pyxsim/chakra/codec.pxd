from libc.stdint cimport uint8_t, uint64_t

cdef enum Wire:
    VARINT = 0
    FIXED64 = 1
    LENGTH = 2
    FIXED32 = 5

cdef struct Span:
    const uint8_t *data
    Py_ssize_t at
    Py_ssize_t end

cdef struct Field:
    uint64_t number
    int wire
    uint64_t bits  # of a number
    Py_ssize_t begin  # of the field,
    Py_ssize_t start  # and of what has a length
    Py_ssize_t end

cdef uint64_t take_varint(Span *span) except? 0xBAD
cdef bint take(Span *span, Field *field) except -1
