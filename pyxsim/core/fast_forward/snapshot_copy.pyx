"""Copy all records of a network and restore them later, at a state that differs only in times, in the messages of
packets, and in counters (known_periods.pyx).

Copied is what changes: records of hardware, pools, the calendar; not messages and their queues, as none comes or ends
between the two cycles. The counters must be settled.
"""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.fast_forward.detector_state cimport PeriodDetector
from pyxsim.core.state.bits cimport set_bit
from pyxsim.core.state.blocks cimport copy_block
from pyxsim.core.state.network_state cimport free_node, grow_array
from pyxsim.core.state.records cimport KINDS, CalendarSlot, FifoNode, InputVc, Link, Packet, QueuedFlit


cdef struct PoolSizes:
    int32_t node_capacity, node_spare
    int32_t packet_capacity, packet_free, packet_spare
    int64_t in_flight
    int64_t entries            # of the calendar


cdef inline char* write_block(char* place, void* what, int64_t size) noexcept nogil:
    copy_block(place, what, size)
    return place + size


cdef inline char* read_block(char* place, void* what, int64_t size) noexcept nogil:
    copy_block(what, place, size)
    return place + size


cdef int64_t calendar_entry_count(State* s) noexcept nogil:
    cdef int64_t found = 0
    cdef int64_t place
    cdef int32_t kind
    for place in range(s.calendar.slot_mask + 1):
        for kind in range(KINDS):
            found += s.calendar.slots[place].count[kind]
    return found


cdef int64_t copy_size(State* s, int64_t entries) noexcept nogil:
    """Bytes of a copy."""
    cdef int64_t size = sizeof(PoolSizes) + s.vcs.count * sizeof(InputVc) + s.links.count * sizeof(Link)
    cdef int32_t i
    for i in range(s.detector.block_count):
        size += s.detector.blocks[i].size
    size += s.pools.node_capacity * (sizeof(FifoNode) + sizeof(int32_t)) + s.pools.packet_capacity * sizeof(Packet)
    if s.links.any_queued:
        size += s.pools.node_capacity * sizeof(QueuedFlit)
    return size + (s.calendar.slot_mask + 1) * KINDS * sizeof(int32_t) + entries * sizeof(int32_t)


cdef int64_t copy_cost(State* s) noexcept nogil:
    """Approximate cost of a copy, in words."""
    return copy_size(s, s.vcs.count) // sizeof(int64_t)


cdef void copy_records(State* s, StateSnapshot* p) noexcept nogil:
    cdef PeriodDetector* o = s.detector
    cdef PoolSizes pools
    cdef char* at
    cdef int32_t i, kind
    cdef int64_t offset
    cdef CalendarSlot* slot
    pools.entries = calendar_entry_count(s)
    p.copy_size = copy_size(s, pools.entries)
    if p.copy_size > p.copy_capacity:
        p.copy = <char*> grow_array(s, p.copy, p.copy_size, 1)
        if s.failed:
            return
        p.copy_capacity = p.copy_size
    pools.node_capacity, pools.node_spare = s.pools.node_capacity, s.pools.node_spare
    pools.packet_capacity = s.pools.packet_capacity
    pools.packet_free = s.pools.packet_free
    pools.packet_spare = s.pools.packet_spare
    pools.in_flight = s.in_flight
    at = write_block(p.copy, &pools, sizeof(PoolSizes))
    at = write_block(at, s.vcs.input, s.vcs.count * sizeof(InputVc))
    at = write_block(at, s.links.link, s.links.count * sizeof(Link))
    for i in range(o.block_count):
        at = write_block(at, o.blocks[i].begin, o.blocks[i].size)
    at = write_block(at, s.pools.nodes, s.pools.node_capacity * sizeof(FifoNode))
    if s.links.any_queued:
        at = write_block(at, s.pools.queued, s.pools.node_capacity * sizeof(QueuedFlit))
    at = write_block(at, s.pools.free_nodes, s.pools.node_spare * sizeof(int32_t))
    at = write_block(at, s.pools.packets, s.pools.packet_capacity * sizeof(Packet))
    for offset in range(s.calendar.slot_mask + 1):   # relative to now
        slot = &s.calendar.slots[(s.now + offset) & s.calendar.slot_mask]
        at = write_block(at, &slot.count[0], KINDS * sizeof(int32_t))
        for kind in range(KINDS):
            at = write_block(at, slot.events[kind], slot.count[kind] * sizeof(int32_t))


cdef void restore_records(State* s, StateSnapshot* p) noexcept nogil:
    """Restore the records into cycle `now`. Counters and maxima keep their values; times and messages of packets are
    old."""
    cdef PeriodDetector* o = s.detector
    cdef PoolSizes pools
    cdef InputVc vc
    cdef Link link
    cdef int32_t i
    cdef char* at = read_block(p.copy, &pools, sizeof(PoolSizes))
    for i in range(s.vcs.count):
        at = read_block(at, &vc, sizeof(InputVc))
        vc.occupancy_max = s.vcs.input[i].occupancy_max
        s.vcs.input[i] = vc
    for i in range(s.links.count):
        at = read_block(at, &link, sizeof(Link))
        link.flits = s.links.link[i].flits
        link.stall_credit = s.links.link[i].stall_credit
        link.stall_vc = s.links.link[i].stall_vc
        link.stall_arbitration, link.stall_serial = s.links.link[i].stall_arbitration, s.links.link[i].stall_serial
        s.links.link[i] = link
    for i in range(o.block_count):
        at = read_block(at, o.blocks[i].begin, o.blocks[i].size)
    at = read_block(at, s.pools.nodes, pools.node_capacity * sizeof(FifoNode))
    if s.links.any_queued:
        at = read_block(at, s.pools.queued, pools.node_capacity * sizeof(QueuedFlit))
    at = read_block(at, s.pools.free_nodes, pools.node_spare * sizeof(int32_t))
    s.pools.node_spare = pools.node_spare
    for i in range(pools.node_capacity, s.pools.node_capacity):   # allocated since
        free_node(s, i)
    at = read_block(at, s.pools.packets, pools.packet_capacity * sizeof(Packet))
    s.pools.packet_free = pools.packet_free
    s.pools.packet_spare = pools.packet_spare + s.pools.packet_capacity - pools.packet_capacity
    for i in range(pools.packet_capacity, s.pools.packet_capacity):
        s.pools.packets[i].next = s.pools.packet_free
        s.pools.packet_free = i
    s.in_flight = pools.in_flight
    restore_calendar(s, at)


cdef void restore_calendar(State* s, char* at) noexcept nogil:
    cdef int64_t offset, place
    cdef int32_t kind
    cdef CalendarSlot* slot
    for place in range(s.calendar.words):
        s.calendar.used[place] = 0
    for offset in range(s.calendar.slot_mask + 1):
        place = (s.now + offset) & s.calendar.slot_mask
        slot = &s.calendar.slots[place]
        at = read_block(at, &slot.count[0], KINDS * sizeof(int32_t))
        for kind in range(KINDS):
            if slot.count[kind] > slot.capacity[kind]:
                slot.events[kind] = <int32_t*> grow_array(s, slot.events[kind], slot.count[kind], sizeof(int32_t))
                if s.failed:
                    return
                slot.capacity[kind] = slot.count[kind]
            at = read_block(at, slot.events[kind], slot.count[kind] * sizeof(int32_t))
            if slot.count[kind]:
                set_bit(s.calendar.used, <int32_t> place)
