"""SA with every option: see switch_allocator.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state.network_state cimport State


cdef int64_t allocate_switch(State* s, int32_t router, int64_t t, int64_t u) noexcept nogil
