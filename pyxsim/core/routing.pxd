"""Route computation: see routing.pyx."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.buffer cimport bit_of, inputs_of
from pyxsim.core.masks cimport is_early
from pyxsim.core.state cimport ROUTING, WAITING, Packet, State, Vc


cdef inline void aim(State* s, int32_t vc, int32_t link, int32_t vc_class) noexcept nogil:
    """The packet at the front of `vc` wants this link, in this class."""
    cdef Packet* p = &s.packets[s.vc[vc].packet]
    cdef int32_t row = s.link[link].range + p.vnet * s.link[link].classes + vc_class
    s.vc[vc].want = link
    s.vc[vc].low = s.low[row]
    s.vc[vc].high = s.high[row]


cdef inline void wait_for_vc(State* s, int32_t vc, int64_t u) noexcept nogil:
    cdef int64_t ready = u + s.rc + (s.va - 1 if s.va else 0)
    s.vc[vc].state = WAITING
    s.vc[vc].ready = ready
    if s.masked:
        is_early(s, vc, ready)
    s.router[s.vc[vc].router].waiting += 1


cdef inline void to_front(State* s, int32_t vc, int64_t u) noexcept nogil:
    """The head of the next packet is at the front of its input VC from tick `u` on."""
    cdef Vc* v = &s.vc[vc]
    cdef int32_t packet = s.nodes_pool[v.head].packet
    v.packet = packet
    v.left = s.packets[packet].flits
    if s.priorities:
        s.rank[vc] = s.packets[packet].rank
    inputs_of(s, vc).heads |= bit_of(s, vc)
    s.front[vc] = u
    if s.lazy:
        v.state = ROUTING
        v.ready = u
        s.router[v.router].unrouted += 1
        return
    compute_route(s, vc, packet, u)
    wait_for_vc(s, vc, u)


cdef void compute_route(State* s, int32_t vc, int32_t packet, int64_t u) noexcept nogil
cdef int32_t entry_of(State* s, int32_t plane, int32_t router, int32_t goal, int64_t* entry) noexcept nogil
cdef int32_t candidates(State* s, int32_t vc, int32_t plane, bint turned, int32_t found) noexcept nogil
cdef int32_t offers(State* s, int32_t vc, int32_t* count) noexcept nogil
cdef void find_routes(State* s, int32_t router, int64_t u) noexcept nogil
