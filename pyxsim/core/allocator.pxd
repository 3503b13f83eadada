"""VA and SA: see allocator.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport State


cdef int64_t allocate_vcs(State* s, int32_t router, int64_t t) noexcept nogil
cdef int64_t allocate_switch(State* s, int32_t router, int64_t t) noexcept nogil
