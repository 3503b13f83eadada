"""The input-queued VC router: see router.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport State


cdef void arrive(State* s, int32_t vc, int64_t t) noexcept nogil
cdef void visit_router(State* s, int32_t router, int64_t t) noexcept nogil
