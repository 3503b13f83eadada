"""Rerouting between two cycles: see reroute.pyx."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from pyxsim.core.state.network_state cimport State


cdef void choose_anew(State* s) noexcept nogil
cdef int64_t route_anew(State* s) noexcept nogil
cdef int64_t discard_waiting(State* s, uint8_t* abandoned, int32_t* discard) noexcept nogil
cdef int64_t lose_holders(State* s, uint8_t* broken) noexcept nogil
cdef void wake_lanes(State* s) noexcept nogil
cdef bint has_open_packets(State* s) noexcept nogil
