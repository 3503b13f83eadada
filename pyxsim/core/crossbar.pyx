"""A flit has won the switch: it leaves its buffer for the link, and the credit of its slot starts back."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.bits cimport clear_bit
from pyxsim.core.buffer cimport pop_packet, vcs_of
from pyxsim.core.link cimport hold_vc, release_vc, return_credit, send_flit
from pyxsim.core.routing cimport to_front
from pyxsim.core.state cimport ACTIVE, IDLE, STORE_AND_FORWARD, SWITCHED, WAITING, note
from pyxsim.core.vc_allocator cimport free_vc


cdef bint complete(State* s, int32_t vc) noexcept nogil:
    """May the first packet of a buffer come to the front? In store-and-forward its tail must be there, too."""
    if s.flow != STORE_AND_FORWARD:
        return True
    return s.occupancy[vc] >= s.packets[s.nodes_pool[s.fifo_head[vc]].packet].flits


cdef void traverse(State* s, int32_t router, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    cdef int32_t link = s.vc_link[vc]
    cdef int32_t packet = s.nodes_pool[s.fifo_head[vc]].packet
    cdef int32_t flits = s.packets[packet].flits
    cdef int32_t target
    if s.vc_state[vc] == WAITING:   # va = 0: the VC is taken together with the switch
        target = s.link_base[s.want[vc]] + free_vc(s, s.want[vc], s.range_low[vc], s.range_high[vc], flits)
        hold_vc(s, target, packet)
        s.hold[vc] = target
        s.vc_state[vc] = ACTIVE
        s.waiting[router] -= 1
    target = s.hold[vc]
    s.router_visits += 1
    if s.left[vc] == flits:
        s.packets[packet].hops += 1
    s.left[vc] -= 1
    s.occupancy[vc] -= 1
    if s.watch_serial >= 0:
        note(s, packet, t, SWITCHED, s.want[vc], target - s.link_base[s.want[vc]], flits - s.left[vc] - 1)
    return_credit(s, vc, t)
    # With an internal speed-up ST takes ticks, and the flit is in the output queue after them.
    send_flit(s, target, packet, flits - s.left[vc] - 1, t, t if s.ticks == 1 else (u + s.st) // s.ticks)
    if s.left[vc] == 0:
        release_vc(s, target)
        pop_packet(s, vc)
        s.vc_state[vc] = IDLE
        if s.occupancy[vc] and complete(s, vc):
            to_front(s, vc, u + 1)
    if s.occupancy[vc] == 0:
        clear_bit(vcs_of(s.occupied, s, link), vc - s.link_base[link])
