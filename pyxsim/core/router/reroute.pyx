"""Rerouting between two cycles: the packets in the network (docs/router.md, "Other routes")."""

from pyxsim.core.router.buffer cimport first_packet_place, link_vc_mask, next_packet_place, packet_at
from pyxsim.core.router.interface cimport lose_packet
from pyxsim.core.router.route_computation cimport compute_route, set_candidate
from pyxsim.core.state.bits cimport has_bit, set_bit
from pyxsim.core.state.network_state cimport first_tick
from pyxsim.core.state.records cimport ACTIVE, HOLDING, NONE, WAITING, InputVc, Packet


cdef void choose_anew(State* s) noexcept nogil:
    """Let every packet in the network select its route option again, as if it were injected where it is."""
    cdef int32_t vc, place
    cdef Packet* p
    for vc in range(s.vcs.count):
        place = first_packet_place(s, vc)
        while place != NONE:
            p = &s.pools.packets[packet_at(s, vc, place)]
            p.via = NONE
            p.plane = p.last = s.pools.messages[p.message].plane
            place = next_packet_place(s, vc, place)


cdef int64_t route_anew(State* s) noexcept nogil:
    """Reroute every head flit that waits for a VC. Return how many that requested one link then request another."""
    cdef int32_t vc, before
    cdef bint one
    cdef int64_t count = 0
    cdef InputVc* v
    for vc in range(s.vcs.count):
        v = &s.vcs.input[vc]
        if v.router == NONE or v.state != WAITING:
            continue
        before, one = v.out_link, not v.multi
        compute_route(s, vc, v.packet, first_tick(s, s.now))
        count += one and v.out_link != before
        set_bit(s.routers.active, v.router)
    return count


cdef int64_t discard_waiting(State* s, uint8_t* abandoned, int32_t* discard) noexcept nogil:
    """Send head flits that wait for a VC of an abandoned link to the sink of their router. Return how many."""
    cdef int32_t vc
    cdef int64_t count = 0
    cdef InputVc* v
    for vc in range(s.vcs.count):
        v = &s.vcs.input[vc]
        if v.router == NONE or v.state != WAITING:
            continue
        set_bit(s.routers.active, v.router)   # one with several candidates now has others
        if not v.multi and v.out_link != NONE and abandoned[v.out_link]:
            set_candidate(s, vc, discard[v.router], 0)
            count += 1
    return count


cdef int64_t lose_holders(State* s, uint8_t* broken) noexcept nogil:
    """Mark packets that hold a VC of a broken link as lost; their remaining flits cross it. Return how many."""
    cdef int32_t vc, link, packet
    cdef int64_t count = 0
    cdef InputVc* v
    for vc in range(s.vcs.count):
        v = &s.vcs.input[vc]
        link = s.vcs.output[vc].link
        if v.router != NONE and v.state & (HOLDING | ACTIVE) and broken[v.out_link]:
            packet = v.packet
        elif broken[link] and s.links.link[link].src == NONE and has_bit(
            link_vc_mask(s.lanes.opened, s, link), vc - s.links.link[link].base
        ):
            packet = s.vcs.output[vc].send_packet
        else:
            continue
        count += not s.pools.packets[packet].lost
        lose_packet(s, packet)
    return count


cdef void wake_lanes(State* s) noexcept nogil:
    cdef int32_t lane
    for lane in range(s.links.injection):
        set_bit(s.lanes.active, lane)


cdef bint has_open_packets(State* s) noexcept nogil:
    """Is a packet open at an interface whose tail has not been launched?"""
    cdef int32_t i
    for i in range(s.links.injection * s.config.classes):
        if s.lanes.open_count[i]:
            return True
    return False
