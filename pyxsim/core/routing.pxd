"""RC: from a router and a destination to an output link and the VCs that may be used there."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport State


cdef int32_t entry_of(State* s, int32_t plane, int32_t router, int32_t goal, int64_t* entry) noexcept nogil
cdef int32_t candidates(State* s, int32_t vc, int32_t plane, bint turned, int32_t found) noexcept nogil
cdef int32_t offers(State* s, int32_t vc, int32_t* count) noexcept nogil
cdef void aim(State* s, int32_t vc, int32_t link, int32_t vc_class) noexcept nogil
cdef void to_front(State* s, int32_t vc, int64_t u) noexcept nogil
cdef void find_routes(State* s, int32_t router, int64_t u) noexcept nogil
