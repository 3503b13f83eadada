"""VA: see vc_allocator.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport State


cdef int32_t free_vc(State* s, int32_t link, int32_t low, int32_t high, int32_t flits) noexcept nogil
cdef int64_t allocate_vcs(State* s, int32_t router, int64_t u) noexcept nogil
