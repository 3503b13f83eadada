"""Counting of stalls, also for routers that sleep: see stats.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.bits cimport set_bit
from pyxsim.core.state cimport Link, State


cdef inline void stall(State* s, int32_t out, int32_t cause) noexcept nogil:
    """A flit wants this link and cannot have it in this tick."""
    cdef Link* link = &s.link[out]
    link.stalled |= <unsigned char> cause
    set_bit(&s.stalled_ports[s.router[link.src].port_word], link.out_port)


cdef void begin_look(State* s, int32_t router, int64_t t) noexcept nogil
cdef void next_tick(State* s, int32_t router) noexcept nogil
cdef void end_look(State* s, int32_t router) noexcept nogil
cdef void settle(State* s) noexcept nogil
