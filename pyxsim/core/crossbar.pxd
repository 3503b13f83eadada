"""A flit through the switch: see crossbar.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport State


cdef bint complete(State* s, int32_t vc) noexcept nogil
cdef void traverse(State* s, int32_t router, int32_t vc, int64_t t, int64_t u) noexcept nogil
