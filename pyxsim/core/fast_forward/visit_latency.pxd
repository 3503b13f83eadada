"""The books of attribution in a walk through the state: see visit_latency.pyx. Only if `State.attribution`."""

from libc.stdint cimport int32_t

from pyxsim.core.state.network_state cimport State
from pyxsim.core.fast_forward.field_visitors cimport Walk


cdef void meet_lane_books(State* s, Walk* w) noexcept nogil
cdef void meet_message_book(State* s, Walk* w, int32_t message) noexcept nogil
cdef void meet_stays(State* s, Walk* w, int32_t packet) noexcept nogil
cdef void meet_link_book(State* s, Walk* w, int32_t number) noexcept nogil
cdef void meet_vc_book(State* s, Walk* w, int32_t vc) noexcept nogil
cdef void meet_table(State* s, Walk* w) noexcept nogil
