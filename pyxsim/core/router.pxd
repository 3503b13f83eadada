"""One router: what arrives, and one cycle of it. router.pyx tells the order of the stages."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.bits cimport seldom, set_bit
from pyxsim.core.crossbar cimport complete
from pyxsim.core.routing cimport to_front
from pyxsim.core.state cimport IDLE, State, Vc
from pyxsim.core.wait cimport comes


cdef inline void take_in(State* s, Vc* v) noexcept nogil:
    """A flit enters an input VC, and its router looks at it."""
    v.occupancy += 1
    v.occupancy_max = v.occupancy if v.occupancy > v.occupancy_max else v.occupancy_max
    s.inputs[v.spot >> 6].occupied |= <uint64_t> 1 << (v.spot & 63)
    set_bit(s.router_active, v.router)


cdef inline void arrive(State* s, int32_t vc, int64_t t, bint head) noexcept nogil:
    """A flit arrives. Only in store-and-forward can another one than a head bring a packet to the front."""
    cdef Vc* v = &s.vc[vc]
    if seldom(s.attribution):
        comes(s, vc, t)
    take_in(s, v)
    if (head or s.flow) and v.state == IDLE and complete(s, vc):
        to_front(s, vc, t * s.ticks)


cdef void visit_router(State* s, int32_t router, int64_t t) noexcept nogil
