"""A flit has won the switch: it leaves its buffer for the link, and the credit of its slot starts back."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.bits cimport clear_bit
from pyxsim.core.buffer cimport inputs_of, pop_packet
from pyxsim.core.link cimport hold_vc, needed, release_vc, return_credit, send_flit, told
from pyxsim.core.routing cimport to_front
from pyxsim.core.state cimport ACTIVE, HOLDING, IDLE, STORE_AND_FORWARD, SWITCHED, WAITING, Vc, note
from pyxsim.core.vc_allocator cimport free_vc
from pyxsim.core.wait cimport is_first, wins


cdef bint complete(State* s, int32_t vc) noexcept nogil:
    """May the first packet of a buffer come to the front? In store-and-forward its tail must be there, too."""
    if s.flow != STORE_AND_FORWARD:
        return True
    return s.vc[vc].occupancy >= s.packets[s.nodes_pool[s.vc[vc].head].packet].flits


cdef void traverse(State* s, int32_t router, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    cdef Vc* v = &s.vc[vc]
    cdef int32_t place = vc - s.router[router].base
    cdef int32_t packet = v.packet
    cdef int32_t credits = 1 if s.flow == 0 else 0
    cdef int32_t flit = 0
    if s.attribution:
        wins(s, vc, t, u)
    if v.state == WAITING:   # va = 0: the VC is taken together with the switch
        v.hold = s.link[v.want].base + free_vc(s, v.want, v.low, v.high, s.packets[packet].flits)
        hold_vc(s, v.hold, packet)
        v.state = HOLDING
        s.router[router].waiting -= 1
        clear_bit(inputs_of(s.heads, s, router), place)
    if v.state == HOLDING:
        v.state = ACTIVE
        s.packets[packet].hops += 1
        credits = needed(s, s.packets[packet].flits, True)
    s.router_visits += 1
    v.left -= 1
    v.occupancy -= 1
    if told(s):
        flit = s.packets[packet].flits - v.left - 1
    if s.watch_serial >= 0:
        note(s, packet, t, SWITCHED, v.want, v.hold - s.link[v.want].base, flit)
    return_credit(s, vc, t)
    # With an internal speed-up ST takes ticks, and the flit is in the output queue after them.
    send_flit(s, v.hold, credits, packet, flit, t, t if s.ticks == 1 else (u + s.st) // s.ticks)
    if v.left == 0:
        release_vc(s, v.hold)
        pop_packet(s, vc)
        v.state = IDLE
        if s.attribution and v.occupancy:
            is_first(s, vc, (u + 1) // s.ticks)
        if v.occupancy and complete(s, vc):
            to_front(s, vc, u + 1)
    if v.occupancy == 0:
        clear_bit(inputs_of(s.occupied, s, router), place)
