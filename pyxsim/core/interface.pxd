"""Interfaces: messages become packets and flits at injection lanes, and messages again at sinks. See interface.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport State


cdef bint sooner(State* s, int32_t a, int32_t b) noexcept nogil
cdef void add_pending(State* s, int32_t message) noexcept nogil
cdef int32_t next_pending(State* s) noexcept nogil
cdef int32_t take_pending(State* s) noexcept nogil
cdef int64_t next_start(State* s) noexcept nogil
cdef void join_sources(State* s) noexcept nogil
cdef void visit_lane(State* s, int32_t link, int64_t t) noexcept nogil
cdef void consume_packet(State* s, int32_t vc, int64_t t) noexcept nogil
