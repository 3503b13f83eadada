"""Attribution at the sources: see source_waits.pyx. Call these only if `State.config.attribution`."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state.network_state cimport State


cdef void message_joins(State* s, int32_t message, int32_t before) noexcept nogil
cdef void flit_launches(State* s, int32_t link, int32_t packet, bint tail, int64_t t) noexcept nogil
cdef void message_interrupts_lane(State* s, int32_t link, int64_t t) noexcept nogil
cdef void lane_visited(State* s, int32_t link, int32_t opened, int64_t t) noexcept nogil
