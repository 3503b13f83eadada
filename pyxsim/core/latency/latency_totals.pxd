"""Latency totals: see latency_totals.pyx. Call these only if `State.config.attribution`."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.latency.latency_records cimport Stay
from pyxsim.core.state.network_state cimport State


cdef bint grow_wait_records(State* s) noexcept nogil
cdef void open_packet_record(State* s, int32_t packet, int32_t message) noexcept nogil
cdef Stay* new_stay(State* s, int32_t packet, int32_t link) noexcept nogil
cdef int32_t new_queued_message(State* s) noexcept nogil
cdef void free_queued_message(State* s, int32_t rider) noexcept nogil
cdef void book_packet(State* s, int32_t packet, int64_t t) noexcept nogil
cdef void forget_packet(State* s, int32_t packet) noexcept nogil
cdef void free_latency_records(State* s) noexcept
