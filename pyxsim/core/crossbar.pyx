"""A flit has won the switch: it leaves its buffer for the link, and the credit of its slot starts back."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.bits cimport clear_bit
from pyxsim.core.buffer cimport inputs_of, pop_packet
from pyxsim.core.link cimport hold_vc, release_vc, return_credit, send_flit
from pyxsim.core.routing cimport to_front
from pyxsim.core.state cimport ACTIVE, IDLE, STORE_AND_FORWARD, SWITCHED, WAITING, note
from pyxsim.core.vc_allocator cimport free_vc


cdef bint complete(State* s, int32_t vc) noexcept nogil:
    """May the first packet of a buffer come to the front? In store-and-forward its tail must be there, too."""
    if s.flow != STORE_AND_FORWARD:
        return True
    return s.vc[vc].occupancy >= s.packets[s.nodes_pool[s.vc[vc].head].packet].flits


cdef void traverse(State* s, int32_t router, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    cdef int32_t place = vc - s.router[router].base
    cdef int32_t packet = s.nodes_pool[s.vc[vc].head].packet
    cdef int32_t flits = s.packets[packet].flits
    cdef int32_t target
    if s.vc[vc].state == WAITING:   # va = 0: the VC is taken together with the switch
        target = s.link[s.vc[vc].want].base + free_vc(s, s.vc[vc].want, s.vc[vc].low, s.vc[vc].high, flits)
        hold_vc(s, target, packet)
        s.vc[vc].hold = target
        s.vc[vc].state = ACTIVE
        s.router[router].waiting -= 1
        clear_bit(inputs_of(s.heads, s, router), place)
    target = s.vc[vc].hold
    s.router_visits += 1
    if s.vc[vc].left == flits:
        s.packets[packet].hops += 1
    s.vc[vc].left -= 1
    s.vc[vc].occupancy -= 1
    if s.watch_serial >= 0:
        note(s, packet, t, SWITCHED, s.vc[vc].want, target - s.link[s.vc[vc].want].base, flits - s.vc[vc].left - 1)
    return_credit(s, vc, t)
    # With an internal speed-up ST takes ticks, and the flit is in the output queue after them.
    send_flit(s, target, packet, flits - s.vc[vc].left - 1, t, t if s.ticks == 1 else (u + s.st) // s.ticks)
    if s.vc[vc].left == 0:
        release_vc(s, target)
        pop_packet(s, vc)
        s.vc[vc].state = IDLE
        if s.vc[vc].occupancy and complete(s, vc):
            to_front(s, vc, u + 1)
    if s.vc[vc].occupancy == 0:
        clear_bit(inputs_of(s.occupied, s, router), place)
