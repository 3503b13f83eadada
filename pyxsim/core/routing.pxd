"""RC: from a router and a destination to an output link and the VCs that may be used there."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport State


cdef void to_front(State* s, int32_t vc, int64_t t) noexcept nogil
