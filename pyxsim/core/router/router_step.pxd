"""One router: arrivals, and one cycle. router_step.pyx has the order of the stages."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.latency.router_waits cimport flit_arrives
from pyxsim.core.router.buffer cimport set_filled_word, write_buffer
from pyxsim.core.router.crossbar cimport packet_complete
from pyxsim.core.router.route_computation cimport start_routing
from pyxsim.core.state.bits cimport seldom
from pyxsim.core.state.network_state cimport State, first_tick
from pyxsim.core.state.records cimport IDLE, InputVc


cdef inline void receive_flit(State* s, int32_t vc, int64_t t, bint head) noexcept nogil:
    """A flit arrives. Only in store-and-forward can a flit other than a head bring a packet to the front."""
    cdef InputVc* v = &s.vcs.input[vc]
    if seldom(s.config.attribution):
        flit_arrives(s, vc, t)
    write_buffer(s, v)
    if not s.path.bitmask_sa:
        set_filled_word(s, v)
    if (head or s.config.flow) and v.state == IDLE and packet_complete(s, vc):
        start_routing(s, vc, first_tick(s, t))


cdef void visit_router(State* s, int32_t router, int64_t t) noexcept nogil
