"""One router: what arrives, and one cycle of it. router_step.pyx tells the order of the stages."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from pyxsim.core.state.bits cimport bits_of, seldom
from pyxsim.core.router.buffer cimport fill_word
from pyxsim.core.router.crossbar cimport complete
from pyxsim.core.router.route_computation cimport to_front
from pyxsim.core.state.network_state cimport IDLE, State, Vc
from pyxsim.core.latency.router_waits cimport comes


cdef inline void wake(State* s, int32_t router, uint8_t really) noexcept nogil:
    """In step 1: a router has something to look at. Bytes are only written to: many bits of one word, set one after the
    other, would each wait for the one before. `gather_woken` comes at the end of the step."""
    s.woken[router] |= really
    s.woken_words[router >> 6] = 1


cdef inline void gather_woken(State* s) noexcept nogil:
    cdef int32_t word
    for word in range(s.router_words):
        if s.woken_words[word]:
            s.woken_words[word] = 0
            s.router_active[word] |= bits_of(&s.woken[64 * word])
            memset(&s.woken[64 * word], 0, 64)


cdef inline void take_in(State* s, Vc* v) noexcept nogil:
    """A flit enters an input VC, and its router looks at it."""
    v.occupancy += 1
    v.occupancy_max = v.occupancy if v.occupancy > v.occupancy_max else v.occupancy_max
    s.inputs[v.spot >> 6].occupied |= <uint64_t> 1 << (v.spot & 63)
    wake(s, v.router, 1)


cdef inline void arrive(State* s, int32_t vc, int64_t t, bint head) noexcept nogil:
    """A flit arrives. Only in store-and-forward can another one than a head bring a packet to the front."""
    cdef Vc* v = &s.vc[vc]
    if seldom(s.attribution):
        comes(s, vc, t)
    take_in(s, v)
    if not s.masked:
        fill_word(s, v)
    if (head or s.flow) and v.state == IDLE and complete(s, vc):
        to_front(s, vc, t * s.ticks)


cdef void visit_router(State* s, int32_t router, int64_t t) noexcept nogil
