"""Bit errors of links, and retry at the link: see retry.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport Event


cdef bint replay_accepts(State* s, int32_t link, int64_t t) noexcept nogil
cdef void count_full_buffer(State* s, int32_t link, int64_t t) noexcept nogil
cdef void send_with_retry(State* s, int32_t vc, Event kind, int32_t packet, int32_t flit, int64_t t) noexcept nogil
cdef void send_again(State* s, int32_t link, int64_t t) noexcept nogil
cdef void resume_sending(State* s, int32_t link) noexcept nogil
cdef void lose_unaccepted(State* s, int32_t link) noexcept nogil
cdef void spoil(State* s, int32_t link, int32_t packet) noexcept nogil
cdef int64_t held_until(State* s, int32_t link, int64_t cycle) noexcept nogil
