"""Pools that grow while the network runs: FIFO nodes, packets, messages, requests, logs.

The fixed arrays of `State` are numpy arrays owned by the engine; these are C memory. Lists end with NONE; record 0 is
an ordinary one.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

from pyxsim.core.fast_forward.period_detector cimport free_detector
from pyxsim.core.latency.latency_totals cimport free_latency_records
from pyxsim.core.state.records cimport KINDS


cdef void* grow_array(State* s, void* old, int64_t capacity, size_t size) noexcept nogil:
    """Enlarge `old` to `capacity` records of `size` bytes; on failure set `failed` and return `old`."""
    cdef void* new = realloc(old, <size_t> capacity * size)
    if new == NULL:
        s.failed = 1
        return old
    return new


cdef int64_t grow_list(State* s, void** items, int64_t capacity, int64_t extra, size_t size) noexcept nogil:
    """Enlarge `items` from `capacity` records to 2 * `capacity` + `extra`; return the new capacity."""
    cdef int64_t enlarged = capacity * 2 + extra
    items[0] = grow_array(s, items[0], enlarged, size)
    return capacity if s.failed else enlarged


cdef void grow_nodes(State* s) noexcept nogil:
    cdef int32_t node
    cdef int32_t capacity = s.pools.node_capacity * 2 if s.pools.node_capacity else 1024
    s.pools.nodes = <FifoNode*> grow_array(s, s.pools.nodes, capacity, sizeof(FifoNode))
    if s.links.any_queued:
        s.pools.queued = <QueuedFlit*> grow_array(s, s.pools.queued, capacity, sizeof(QueuedFlit))
    s.pools.free_nodes = <int32_t*> grow_array(s, s.pools.free_nodes, capacity, sizeof(int32_t))
    if s.failed:
        return
    for node in range(capacity - 1, s.pools.node_capacity - 1, -1):
        s.pools.free_nodes[s.pools.node_spare] = node
        s.pools.node_spare += 1
    s.pools.node_capacity = capacity


cdef void grow_packets(State* s) noexcept nogil:
    cdef int32_t packet
    cdef int32_t capacity = s.pools.packet_capacity * 2 if s.pools.packet_capacity else 1024
    s.pools.packets = <Packet*> grow_array(s, s.pools.packets, capacity, sizeof(Packet))
    if s.failed:
        return
    for packet in range(s.pools.packet_capacity, capacity):
        s.pools.packets[packet].next = packet + 1
    s.pools.packets[capacity - 1].next = NONE
    s.pools.packet_free = s.pools.packet_capacity
    s.pools.packet_spare = capacity - s.pools.packet_capacity
    s.pools.packet_capacity = capacity


cdef int32_t new_message(State* s) noexcept nogil:
    cdef int32_t message, capacity
    if s.pools.message_free == NONE:
        capacity = s.pools.message_capacity * 2 + 1024
        s.pools.messages = <Message*> grow_array(s, s.pools.messages, capacity, sizeof(Message))
        if s.failed:
            return NONE
        for message in range(s.pools.message_capacity, capacity):
            s.pools.messages[message].next = message + 1
        s.pools.messages[capacity - 1].next = NONE
        s.pools.message_free = s.pools.message_capacity
        s.pools.message_capacity = capacity
    message = s.pools.message_free
    s.pools.message_free = s.pools.messages[message].next
    return message


cdef void free_message(State* s, int32_t message) noexcept nogil:
    s.pools.messages[message].next = s.pools.message_free
    s.pools.message_free = message


cdef bint reserve_requests(State* s, int32_t count) noexcept nogil:
    """Make room for `count` requests."""
    cdef int32_t capacity
    if count > s.matching.request_capacity:
        capacity = count * 2 + 64
        s.matching.requests = <Request*> grow_array(s, s.matching.requests, capacity, sizeof(Request))
        s.matching.granted = <int32_t*> grow_array(s, s.matching.granted, capacity, sizeof(int32_t))
        if s.failed:
            return False
        s.matching.request_capacity = capacity
    return True


cdef void log_launch(State* s, int64_t cycle, int32_t vc, int32_t packet, int32_t flit) noexcept nogil:
    cdef Launch* entry
    if s.trace.launch_count == s.trace.launch_capacity:
        s.trace.launch_capacity = grow_list(
            s, <void**> &s.trace.launches, s.trace.launch_capacity, 4096, sizeof(Launch))
        if s.failed:
            return
    entry = &s.trace.launches[s.trace.launch_count]
    s.trace.launch_count += 1
    entry.cycle = cycle
    entry.link = s.vcs.input[vc].link
    entry.vc = vc - s.links.link[entry.link].base
    entry.message = s.pools.messages[s.pools.packets[packet].message].serial
    entry.packet = s.pools.packets[packet].number
    entry.flit = flit


cdef void note_event(
    State* s, int32_t packet, int64_t cycle, PacketEvent what, int32_t link, int32_t vc, int32_t flit
) noexcept nogil:
    """Log an event of a packet if it is the watched one. `vc`, `flit`: numbers, or NONE."""
    cdef PacketNote* entry
    if (
        s.pools.packets[packet].number != s.trace.watch_packet
        or s.pools.messages[s.pools.packets[packet].message].serial != s.trace.watch_serial
    ):
        return
    if s.trace.note_count == s.trace.note_capacity:
        s.trace.note_capacity = grow_list(s, <void**> &s.trace.notes, s.trace.note_capacity, 256, sizeof(PacketNote))
        if s.failed:
            return
    entry = &s.trace.notes[s.trace.note_count]
    s.trace.note_count += 1
    entry.cycle, entry.what, entry.link, entry.vc, entry.flit = cycle, what, link, vc, flit


cdef void free_state(State* s) noexcept:
    """Free all memory that numpy does not own."""
    cdef int64_t place
    cdef int32_t kind
    if s.calendar.slots != NULL:
        for place in range(s.calendar.slot_mask + 1):
            for kind in range(KINDS):
                free(s.calendar.slots[place].events[kind])
    free(s.calendar.slots)
    free(s.calendar.used)
    free(s.pools.nodes)
    free(s.pools.queued)
    free(s.pools.free_nodes)
    free(s.pools.packets)
    free(s.pools.messages)
    free(s.waiting.heap)
    free(s.arrivals.delivered)
    free(s.arrivals.delivered_at)
    free(s.trace.launches)
    free(s.arrivals.records)
    free(s.trace.notes)
    free(s.matching.requests)
    free(s.matching.granted)
    free_latency_records(s)
    free_detector(s)
