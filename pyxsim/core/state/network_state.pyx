"""Pools that grow while the network runs: FIFO nodes, packets, messages, requests, logs.

The fixed arrays of `State` are numpy arrays owned by the Engine; these are C memory. Record 0 of a pool is as good as
any: lists end with NONE.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

from pyxsim.core.latency.latency_totals cimport free_books
from pyxsim.core.fast_forward.period_detector cimport free_orbit


cdef void* grown(State* s, void* old, int64_t room, size_t size) noexcept nogil:
    """`old` enlarged to `room` records of `size` bytes; on failure `failed` is set and `old` comes back."""
    cdef void* new = realloc(old, <size_t> room * size)
    if new == NULL:
        s.failed = 1
        return old
    return new


cdef void more_nodes(State* s) noexcept nogil:
    cdef int32_t node
    cdef int32_t room = s.node_room * 2 if s.node_room else 1024
    s.nodes_pool = <Node*> grown(s, s.nodes_pool, room, sizeof(Node))
    if s.queues:
        s.queued_pool = <Queued*> grown(s, s.queued_pool, room, sizeof(Queued))
    s.free_nodes = <int32_t*> grown(s, s.free_nodes, room, sizeof(int32_t))
    if s.failed:
        return
    for node in range(room - 1, s.node_room - 1, -1):
        s.free_nodes[s.node_spare] = node
        s.node_spare += 1
    s.node_room = room


cdef void more_packets(State* s) noexcept nogil:
    cdef int32_t packet
    cdef int32_t room = s.packet_room * 2 if s.packet_room else 1024
    s.packets = <Packet*> grown(s, s.packets, room, sizeof(Packet))
    if s.failed:
        return
    for packet in range(s.packet_room, room):
        s.packets[packet].next = packet + 1
    s.packets[room - 1].next = NONE
    s.packet_free = s.packet_room
    s.packet_spare = room - s.packet_room
    s.packet_room = room


cdef int32_t new_message(State* s) noexcept nogil:
    cdef int32_t message, room
    if s.message_free == NONE:
        room = s.message_room * 2 + 1024
        s.messages = <Message*> grown(s, s.messages, room, sizeof(Message))
        if s.failed:
            return NONE
        for message in range(s.message_room, room):
            s.messages[message].next = message + 1
        s.messages[room - 1].next = NONE
        s.message_free = s.message_room
        s.message_room = room
    message = s.message_free
    s.message_free = s.messages[message].next
    return message


cdef void free_message(State* s, int32_t message) noexcept nogil:
    s.messages[message].next = s.message_free
    s.message_free = message


cdef bint requests_fit(State* s, int32_t count) noexcept nogil:
    """Room for `count` requests in all."""
    cdef int32_t room
    if count > s.request_room:
        room = count * 2 + 64
        s.requests = <Request*> grown(s, s.requests, room, sizeof(Request))
        s.matched = <int32_t*> grown(s, s.matched, room, sizeof(int32_t))
        if s.failed:
            return False
        s.request_room = room
    return True


cdef void log_launch(State* s, int64_t cycle, int32_t vc, int32_t packet, int32_t flit) noexcept nogil:
    cdef int64_t room
    cdef Launch* entry
    if s.log_count == s.log_room:
        room = s.log_room * 2 if s.log_room else 4096
        s.log = <Launch*> grown(s, s.log, room, sizeof(Launch))
        if s.failed:
            return
        s.log_room = room
    entry = &s.log[s.log_count]
    s.log_count += 1
    entry.cycle = cycle
    entry.link = s.vc[vc].link
    entry.vc = vc - s.link[entry.link].base
    entry.message = s.messages[s.packets[packet].message].serial
    entry.packet = s.packets[packet].number
    entry.flit = flit


cdef void note(
    State* s, int32_t packet, int64_t cycle, Noted what, int32_t link, int32_t vc, int32_t flit
) noexcept nogil:
    """Something happened to a packet: worth a line if it is the watched one. `vc`, `flit`: numbers, or NONE."""
    cdef int64_t room
    cdef Note* entry
    if s.packets[packet].number != s.watch_packet or s.messages[s.packets[packet].message].serial != s.watch_serial:
        return
    if s.note_count == s.note_room:
        room = s.note_room * 2 + 256
        s.notes = <Note*> grown(s, s.notes, room, sizeof(Note))
        if s.failed:
            return
        s.note_room = room
    entry = &s.notes[s.note_count]
    s.note_count += 1
    entry.cycle, entry.what, entry.link, entry.vc, entry.flit = cycle, what, link, vc, flit


cdef void free_state(State* s) noexcept:
    """Give back all memory that is not an array of numpy's."""
    cdef int64_t place
    cdef int32_t kind
    if s.slots != NULL:
        for place in range(s.slot_mask + 1):
            for kind in range(KINDS):
                free(s.slots[place].events[kind])
    free(s.slots)
    free(s.slot_used)
    free(s.nodes_pool)
    free(s.queued_pool)
    free(s.free_nodes)
    free(s.packets)
    free(s.messages)
    free(s.pending)
    free(s.delivered)
    free(s.delivered_at)
    free(s.log)
    free(s.arrivals)
    free(s.notes)
    free(s.requests)
    free(s.matched)
    free_books(s)
    free_orbit(s)
