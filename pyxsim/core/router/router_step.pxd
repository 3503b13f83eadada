"""One router: what arrives, and one cycle of it. router_step.pyx tells the order of the stages."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from pyxsim.core.state.bits cimport bits_of, seldom
from pyxsim.core.router.buffer cimport set_filled_word
from pyxsim.core.router.crossbar cimport packet_complete
from pyxsim.core.router.route_computation cimport start_routing
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport IDLE, InputVc
from pyxsim.core.latency.router_waits cimport flit_arrives


cdef inline void wake_router(State* s, int32_t router, uint8_t really) noexcept nogil:
    """In step 1: a router has something to look at. Bytes are only written to: many bits of one word, set one after the
    other, would each wait for the one before. `collect_woken` comes at the end of the step."""
    s.routers.woken[router] |= really
    s.routers.woken_words[router >> 6] = 1


cdef inline void collect_woken(State* s) noexcept nogil:
    cdef int32_t word
    for word in range(s.routers.words):
        if s.routers.woken_words[word]:
            s.routers.woken_words[word] = 0
            s.routers.active[word] |= bits_of(&s.routers.woken[64 * word])
            memset(&s.routers.woken[64 * word], 0, 64)


cdef inline void write_buffer(State* s, InputVc* v) noexcept nogil:
    """A flit enters an input VC, and its router looks at it."""
    v.occupancy += 1
    v.occupancy_max = v.occupancy if v.occupancy > v.occupancy_max else v.occupancy_max
    s.masks.inputs[v.mask_bit >> 6].occupied |= <uint64_t> 1 << (v.mask_bit & 63)
    wake_router(s, v.router, 1)


cdef inline void receive_flit(State* s, int32_t vc, int64_t t, bint head) noexcept nogil:
    """A flit arrives. Only in store-and-forward can another one than a head bring a packet to the front."""
    cdef InputVc* v = &s.vcs.input[vc]
    if seldom(s.config.attribution):
        flit_arrives(s, vc, t)
    write_buffer(s, v)
    if not s.path.bitmask_sa:
        set_filled_word(s, v)
    if (head or s.config.flow) and v.state == IDLE and packet_complete(s, vc):
        start_routing(s, vc, t * s.config.ticks)


cdef void visit_router(State* s, int32_t router, int64_t t) noexcept nogil
