"""Visit the records of attribution: see visit_latency.pyx. Only if `State.config.attribution`."""

from libc.stdint cimport int32_t

from pyxsim.core.fast_forward.field_visitors cimport Visitor
from pyxsim.core.state.network_state cimport State


cdef void visit_lane_records(State* s, Visitor* w) noexcept nogil
cdef void visit_message_record(State* s, Visitor* w, int32_t message) noexcept nogil
cdef void visit_stays(State* s, Visitor* w, int32_t packet) noexcept nogil
cdef void visit_link_record(State* s, Visitor* w, int32_t number) noexcept nogil
cdef void visit_vc_record(State* s, Visitor* w, int32_t vc) noexcept nogil
cdef void visit_wait_table(State* s, Visitor* w) noexcept nogil
