"""Interfaces: messages become packets and flits at injection lanes, and messages again at sinks.

Here is what every message and packet does; interface.pyx has the rest.
"""

from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint64_t

from pyxsim.core.latency.latency_totals cimport book_packet, open_packet_record
from pyxsim.core.latency.source_waits cimport message_joins
from pyxsim.core.router.arbiter cimport after
from pyxsim.core.router.buffer cimport link_vc_mask, pop_packet, push_packet
from pyxsim.core.router.link cimport reserve_output_vc
from pyxsim.core.router.random_draws cimport packet_key
from pyxsim.core.state.bits cimport any_bit, clear_bit, prefetch, seldom, set_bit
from pyxsim.core.state.network_state cimport State, free_message, free_packet, new_packet, note_event
from pyxsim.core.state.records cimport NONE, OPENED, Message, Packet


cdef enum:
    MESSAGES_AHEAD = 16   # most are sent in the order of their start


# --- waiting messages ------------------------------------------------------------------------------------------------

cdef inline bint starts_before(State* s, int32_t a, int32_t b) noexcept nogil:
    cdef int64_t first = s.pools.messages[a].at
    cdef int64_t second = s.pools.messages[b].at
    return first < second or (first == second and s.pools.messages[a].serial < s.pools.messages[b].serial)


cdef inline int32_t next_waiting(State* s) noexcept nogil:
    """The message that starts next, or NONE."""
    if s.waiting.heap_count and (s.waiting.first == NONE or starts_before(s, s.waiting.heap[0], s.waiting.first)):
        return s.waiting.heap[0]
    return s.waiting.first


cdef inline int64_t next_start_cycle(State* s) noexcept nogil:
    """The cycle in which the next message starts, or INT64_MAX."""
    cdef int32_t message = next_waiting(s)
    return s.pools.messages[message].at if message != NONE else INT64_MAX


cdef inline int32_t pop_waiting(State* s) noexcept nogil:
    """Remove and return the message that starts next; there must be one."""
    cdef int32_t message = next_waiting(s)
    if message == s.waiting.first:
        s.waiting.first = s.pools.messages[message].next
        s.pools.messages[message].next = NONE
    else:
        pop_heap(s)
    return message


cdef inline void join_sources(State* s) noexcept nogil:
    """Messages whose cycle has come join the source queue of their lane and class."""
    cdef int32_t message, lane, queue
    while next_start_cycle(s) <= s.now:
        message = pop_waiting(s)
        prefetch(&s.pools.messages[message + MESSAGES_AHEAD])
        s.stats.messages_joined += 1
        lane = s.pools.messages[message].lane - s.links.network
        queue = lane * s.config.classes + s.pools.messages[message].klass
        if s.config.attribution:
            message_joins(s, message, NONE if s.lanes.source_head[queue] == NONE else s.lanes.source_tail[queue])
        if s.lanes.source_head[queue] == NONE:
            s.lanes.source_head[queue] = message
        else:
            s.pools.messages[s.lanes.source_tail[queue]].next = message
        s.lanes.source_tail[queue] = message
        set_bit(s.lanes.active, lane)


# --- packets ---------------------------------------------------------------------------------------------------------

cdef inline int32_t next_packet_flits(State* s, Message* message) noexcept nogil:
    """The length of the next packet of a message, in flits."""
    return message.last_flits if message.opened == message.packets - 1 else message.flits


cdef inline void packet_starts(State* s, Packet* p, int64_t t) noexcept nogil:
    """The first flit of a packet is launched."""
    cdef Message* message = &s.pools.messages[p.message]
    p.launched = t
    message.first = t if message.first < 0 else message.first


cdef inline void open_packet(
    State* s, int32_t link, int32_t klass, int32_t number, int64_t first, bint batch
) noexcept nogil:
    """Open the next packet of the first message of a class on VC `number`.

    `first`: the cycle in which its first flit is launched, or -1. `batch`: called by the lane batch.
    """
    cdef int32_t lane = link - s.links.network
    cdef int32_t queue = lane if batch else lane * s.config.classes + klass
    cdef int32_t index = s.lanes.source_head[queue]
    cdef Message* message = &s.pools.messages[index]
    cdef int32_t packet = new_packet(s)
    cdef int32_t vc = s.links.link[link].base + number
    cdef uint64_t* opened = link_vc_mask(s.lanes.opened, s, link)
    cdef Packet* p
    if s.failed:
        return
    if not batch and s.config.attribution:
        open_packet_record(s, packet, index)
    p = &s.pools.packets[packet]
    p.message = index
    p.number = message.opened
    p.flits = next_packet_flits(s, message)
    p.dst = message.dst
    p.plane = message.plane
    p.via = NONE
    p.last = <int16_t> message.plane
    p.lost = 0
    p.eject = message.eject
    p.exit = message.exit
    p.vnet = s.config.class_vnet[klass]
    p.key = packet_key(s.config.seed, message.serial, p.number) if s.routes.uses_draws else 0
    p.hops = 0
    p.launched = first
    message.first = first if message.first < 0 else message.first
    message.opened += 1
    message.last = -2 - s.now
    s.lanes.source_head[queue] = message.next if message.opened == message.packets else index
    if batch:   # all VCs in one word, and the router in the same partition
        clear_bit(link_vc_mask(s.vcs.unheld, s, link), number)
        push_packet(s, vc, packet)
    else:
        reserve_output_vc(s, vc, packet)
    if not any_bit(opened, 1 if batch else s.links.link[link].words):
        s.links.link[link].launch_pointer = number
    set_bit(opened, number)
    s.lanes.open_count[queue] += 1
    s.vcs.output[vc].send_packet = packet
    s.vcs.output[vc].send_left = p.flits
    s.lanes.open_pointer[lane * s.config.vnets + p.vnet] = number + 1
    if not batch:
        s.lanes.class_pointer[lane] = after(klass, s.config.classes)
        if s.trace.watch_serial >= 0:
            note_event(s, packet, s.now, OPENED, link, number, NONE)


cdef inline void report_delivery(State* s, int32_t message, int64_t t) noexcept nogil:
    """A message has been delivered."""
    if s.arrivals.delivered_count == s.arrivals.delivered_capacity:
        grow_delivered(s)
        if s.failed:
            return
    s.arrivals.delivered[s.arrivals.delivered_count] = message
    s.arrivals.delivered_at[s.arrivals.delivered_count] = t
    s.arrivals.delivered_count += 1
    s.stats.messages_delivered += 1


cdef inline void message_arrived(State* s, int32_t index, int64_t t) noexcept nogil:
    """The last flit of a message has arrived."""
    cdef Message* message = &s.pools.messages[index]
    message.last = t
    if message.klass >= s.config.silent_class:
        record_arrival(s, message, index)
        s.stats.messages_delivered += 1
    else:
        report_delivery(s, index, t)
    if s.config.recycling:
        record_arrival(s, message, index)
        free_message(s, index)


cdef inline void consume_packet(State* s, int32_t vc, int64_t t) noexcept nogil:
    """A sink has consumed the tail of a packet."""
    cdef int32_t packet = pop_packet(s, vc)
    cdef Packet* p = &s.pools.packets[packet]
    cdef Message* message = &s.pools.messages[p.message]
    if seldom(s.config.lossy) and (p.lost or s.links.drops[s.vcs.input[vc].link]):
        drop_packet(s, packet)
        return
    s.stats.packets_delivered += 1
    s.stats.latency_sum += t - message.at
    s.stats.network_latency_sum += t - p.launched
    s.stats.hops_sum += p.hops
    message.hops += p.hops
    message.delivered += 1
    if s.config.attribution:
        book_packet(s, packet, t)
    if message.delivered == message.packets:
        message_arrived(s, p.message, t)
    free_packet(s, packet)


cdef void add_waiting(State* s, int32_t message) noexcept nogil
cdef int32_t pop_heap(State* s) noexcept nogil
cdef int32_t next_to_launch(State* s, int32_t link) noexcept nogil
cdef void visit_lane(State* s, int32_t link, int64_t t) noexcept nogil
cdef bint sources_hold(State* s) noexcept nogil
cdef void lose_packet(State* s, int32_t packet) noexcept nogil
cdef void drop_packet(State* s, int32_t packet) noexcept nogil
cdef void grow_delivered(State* s) noexcept nogil
cdef void record_arrival(State* s, Message* m, int32_t index) noexcept nogil
