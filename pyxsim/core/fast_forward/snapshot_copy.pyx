"""The records of a network as they are in a cycle, to be put back later: they are the same then but for times, for the
messages that packets belong to, and for what is counted (known_periods.pyx).

Copied is what changes: records of hardware, pools, the calendar. Messages and their queues are not: none comes or goes
between the two cycles. The counters have to be settled.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from pyxsim.core.state.bits cimport set_bit
from pyxsim.core.fast_forward.detector_state cimport Orbit
from pyxsim.core.state.network_state cimport KINDS, Link, Node, Packet, Queued, Slot, Vc, free_node, grown


cdef struct Pools:
    int32_t node_room, node_spare
    int32_t packet_room, packet_free, packet_spare
    int64_t in_flight
    int64_t entries            # of the calendar


cdef inline char* take(char* place, void* what, int64_t size) noexcept nogil:
    memcpy(place, what, size)
    return place + size


cdef inline char* give(char* place, void* what, int64_t size) noexcept nogil:
    memcpy(what, place, size)
    return place + size


cdef int64_t entries_of(State* s) noexcept nogil:
    cdef int64_t found = 0
    cdef int64_t place
    cdef int32_t kind
    for place in range(s.slot_mask + 1):
        for kind in range(KINDS):
            found += s.slots[place].count[kind]
    return found


cdef int64_t size_of(State* s, int64_t entries) noexcept nogil:
    """Bytes of a copy."""
    cdef int64_t size = sizeof(Pools) + s.vcs * sizeof(Vc) + s.links * sizeof(Link)
    cdef int32_t i
    for i in range(s.orbit.block_count):
        size += s.orbit.blocks[i].size
    size += s.node_room * (sizeof(Node) + sizeof(int32_t)) + s.packet_room * sizeof(Packet)
    if s.queues:
        size += s.node_room * sizeof(Queued)
    return size + (s.slot_mask + 1) * KINDS * sizeof(int32_t) + entries * sizeof(int32_t)


cdef int64_t copy_words(State* s) noexcept nogil:
    """About."""
    return size_of(s, s.vcs) // sizeof(int64_t)


cdef void copy_records(State* s, Picture* p) noexcept nogil:
    cdef Orbit* o = s.orbit
    cdef Pools pools
    cdef char* at
    cdef int32_t i, kind
    cdef int64_t offset
    cdef Slot* slot
    pools.entries = entries_of(s)
    p.copy_size = size_of(s, pools.entries)
    if p.copy_size > p.copy_room:
        p.copy = <char*> grown(s, p.copy, p.copy_size, 1)
        if s.failed:
            return
        p.copy_room = p.copy_size
    pools.node_room, pools.node_spare = s.node_room, s.node_spare
    pools.packet_room, pools.packet_free, pools.packet_spare = s.packet_room, s.packet_free, s.packet_spare
    pools.in_flight = s.in_flight
    at = take(p.copy, &pools, sizeof(Pools))
    at = take(at, s.vc, s.vcs * sizeof(Vc))
    at = take(at, s.link, s.links * sizeof(Link))
    for i in range(o.block_count):
        at = take(at, o.blocks[i].begin, o.blocks[i].size)
    at = take(at, s.nodes_pool, s.node_room * sizeof(Node))
    if s.queues:
        at = take(at, s.queued_pool, s.node_room * sizeof(Queued))
    at = take(at, s.free_nodes, s.node_spare * sizeof(int32_t))
    at = take(at, s.packets, s.packet_room * sizeof(Packet))
    for offset in range(s.slot_mask + 1):   # as seen from now
        slot = &s.slots[(s.now + offset) & s.slot_mask]
        at = take(at, &slot.count[0], KINDS * sizeof(int32_t))
        for kind in range(KINDS):
            at = take(at, slot.events[kind], slot.count[kind] * sizeof(int32_t))


cdef void put_back(State* s, Picture* p) noexcept nogil:
    """Into cycle `now`. Counters and peaks remain what they are; times, and messages of packets, are those of then."""
    cdef Orbit* o = s.orbit
    cdef Pools pools
    cdef Vc vc
    cdef Link link
    cdef int32_t i
    cdef char* at = give(p.copy, &pools, sizeof(Pools))
    for i in range(s.vcs):
        at = give(at, &vc, sizeof(Vc))
        vc.occupancy_max = s.vc[i].occupancy_max
        s.vc[i] = vc
    for i in range(s.links):
        at = give(at, &link, sizeof(Link))
        link.flits, link.stall_credit, link.stall_vc = s.link[i].flits, s.link[i].stall_credit, s.link[i].stall_vc
        link.stall_arbitration, link.stall_serial = s.link[i].stall_arbitration, s.link[i].stall_serial
        s.link[i] = link
    for i in range(o.block_count):
        at = give(at, o.blocks[i].begin, o.blocks[i].size)
    at = give(at, s.nodes_pool, pools.node_room * sizeof(Node))
    if s.queues:
        at = give(at, s.queued_pool, pools.node_room * sizeof(Queued))
    at = give(at, s.free_nodes, pools.node_spare * sizeof(int32_t))
    s.node_spare = pools.node_spare
    for i in range(pools.node_room, s.node_room):   # made since
        free_node(s, i)
    at = give(at, s.packets, pools.packet_room * sizeof(Packet))
    s.packet_free, s.packet_spare = pools.packet_free, pools.packet_spare + s.packet_room - pools.packet_room
    for i in range(pools.packet_room, s.packet_room):
        s.packets[i].next = s.packet_free
        s.packet_free = i
    s.in_flight = pools.in_flight
    put_calendar(s, at)


cdef void put_calendar(State* s, char* at) noexcept nogil:
    cdef int64_t offset, place
    cdef int32_t kind
    cdef Slot* slot
    for place in range(s.slot_words):
        s.slot_used[place] = 0
    for offset in range(s.slot_mask + 1):
        place = (s.now + offset) & s.slot_mask
        slot = &s.slots[place]
        at = give(at, &slot.count[0], KINDS * sizeof(int32_t))
        for kind in range(KINDS):
            if slot.count[kind] > slot.room[kind]:
                slot.events[kind] = <int32_t*> grown(s, slot.events[kind], slot.count[kind], sizeof(int32_t))
                if s.failed:
                    return
                slot.room[kind] = slot.count[kind]
            at = give(at, slot.events[kind], slot.count[kind] * sizeof(int32_t))
            if slot.count[kind]:
                set_bit(s.slot_used, <int32_t> place)
