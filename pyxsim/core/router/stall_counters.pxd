"""Stall counters, also for sleeping routers: see stall_counters.pyx."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.state.bits cimport any_bit, set_bit
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport STALL_CREDIT, STALL_VC, Link, Router


cdef enum:
    # Layout of `State.stats.port_stalls`: four counts of 16 bits, from the lowest on as in `Stall`.
    COUNT_MOST = (1 << 16) - 1
    CREDIT_BITS = 16
    SERIAL_BITS = 32
    ARBITRATION_BITS = 48


cdef inline void count_stall(State* s, int32_t out, int32_t cause) noexcept nogil:
    """A front flit requests this link and stalls in this tick."""
    cdef Link* link = &s.links.link[out]
    if s.path.bitmask_sa:   # combined with the causes that switch allocation finds
        if cause == STALL_VC:
            s.scratch.no_vc |= (<uint64_t> 1) << link.out_port
        elif cause == STALL_CREDIT:
            s.scratch.no_credit |= (<uint64_t> 1) << link.out_port
        else:
            s.scratch.lost |= (<uint64_t> 1) << link.out_port
        return
    link.stalled |= <unsigned char> cause
    set_bit(&s.stats.stalled_ports[s.routers.router[link.src].port_word], link.out_port)


cdef inline bint is_stalled(State* s, Router* r) noexcept nogil:
    """Did a flit stall at any output in the last cycle visited?"""
    return any_bit(&s.stats.stalled_ports[r.port_word], r.port_words)


cdef void begin_visit(State* s, int32_t router, int64_t t) noexcept nogil
cdef void fall_asleep(State* s, int32_t router, int32_t port, uint8_t causes, int64_t t) noexcept nogil
cdef void next_tick(State* s, int32_t router) noexcept nogil
cdef void end_visit(State* s, int32_t router) noexcept nogil
cdef void flush_port_stalls(State* s) noexcept nogil
cdef void count_sleeping_stalls(State* s) noexcept nogil
cdef void settle_counters(State* s) noexcept nogil
