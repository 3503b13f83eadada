"""Interfaces: messages become packets and flits at injection lanes, and messages again at sinks. See interface.pyx.

What every message and packet does stands here.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.router.arbiter cimport after
from pyxsim.core.state.bits cimport any_bit, clear_bit, prefetch, set_bit
from pyxsim.core.router.buffer cimport pop_packet, push_packet, vcs_of
from pyxsim.core.router.random_draws cimport packet_key
from pyxsim.core.latency.latency_totals cimport open_books, settle_packet
from pyxsim.core.router.link cimport hold_vc
from pyxsim.core.latency.source_waits cimport joins
from pyxsim.core.state.network_state cimport NONE, OPENED, Message, Packet, State, free_message, free_packet, new_packet, note


cdef enum:
    MESSAGES_AHEAD = 16   # most are sent in the order in which they start


# --- messages that wait for their cycle ------------------------------------------------------------------------------

cdef inline bint sooner(State* s, int32_t a, int32_t b) noexcept nogil:
    cdef int64_t first = s.messages[a].at
    cdef int64_t second = s.messages[b].at
    return first < second or (first == second and s.messages[a].serial < s.messages[b].serial)


cdef inline int32_t next_pending(State* s) noexcept nogil:
    """The message that starts next, or NONE."""
    if s.pending_count and (s.next_message == NONE or sooner(s, s.pending[0], s.next_message)):
        return s.pending[0]
    return s.next_message


cdef inline int64_t next_start(State* s) noexcept nogil:
    """The cycle in which the next message starts, or INT64_MAX."""
    cdef int32_t message = next_pending(s)
    return s.messages[message].at if message != NONE else INT64_MAX


cdef inline int32_t take_pending(State* s) noexcept nogil:
    """The message that starts next waits no more. There is one."""
    cdef int32_t message = next_pending(s)
    if message == s.next_message:
        s.next_message = s.messages[message].next
        s.messages[message].next = NONE
    else:
        pop_pending(s)
    return message


cdef inline void join_sources(State* s) noexcept nogil:
    """Messages whose cycle has come join the source queue of their lane and class."""
    cdef int32_t message, lane, queue
    while next_start(s) <= s.now:
        message = take_pending(s)
        prefetch(&s.messages[message + MESSAGES_AHEAD])
        s.joined += 1
        lane = s.messages[message].lane - s.network_links
        queue = lane * s.classes + s.messages[message].klass
        if s.attribution:
            joins(s, message, NONE if s.source_head[queue] == NONE else s.source_tail[queue])
        if s.source_head[queue] == NONE:
            s.source_head[queue] = message
        else:
            s.messages[s.source_tail[queue]].next = message
        s.source_tail[queue] = message
        set_bit(s.lane_active, lane)


# --- packets ---------------------------------------------------------------------------------------------------------

cdef inline int32_t next_flits(State* s, Message* message) noexcept nogil:
    """The length of the next packet of a message."""
    return message.last_flits if message.opened == message.packets - 1 else message.flits


cdef inline void begins(State* s, Packet* p, int64_t t) noexcept nogil:
    """The first flit of a packet is launched."""
    cdef Message* message = &s.messages[p.message]
    p.launched = t
    message.first = t if message.first < 0 else message.first


cdef inline void open_packet(
    State* s, int32_t link, int32_t klass, int32_t number, int64_t first, bint plain
) noexcept nogil:
    """The next packet of the first message of a class takes a VC.

    `first`: the cycle in which its first flit is launched, or -1. `plain`: `plain_lanes`, and nobody is told.
    """
    cdef int32_t lane = link - s.network_links
    cdef int32_t queue = lane if plain else lane * s.classes + klass
    cdef int32_t index = s.source_head[queue]
    cdef Message* message = &s.messages[index]
    cdef int32_t packet = new_packet(s)
    cdef int32_t vc = s.link[link].base + number
    cdef uint64_t* opened = vcs_of(s.opened, s, link)
    cdef Packet* p
    if s.failed:
        return
    if not plain and s.attribution:
        open_books(s, packet, index)
    p = &s.packets[packet]
    p.message = index
    p.number = message.opened
    p.flits = next_flits(s, message)
    p.dst = message.dst
    p.plane = message.plane
    p.via = NONE
    p.last = message.plane
    p.eject = message.eject
    p.exit = message.exit
    p.vnet = s.class_vnet[klass]
    p.key = packet_key(s.seed, message.serial, p.number) if s.keyed else 0
    p.hops = 0
    p.launched = first
    message.first = first if message.first < 0 else message.first
    message.opened += 1
    s.source_head[queue] = message.next if message.opened == message.packets else index
    if plain:   # all VCs in a word, and the router in the same part
        clear_bit(vcs_of(s.unheld, s, link), number)
        push_packet(s, vc, packet)
    else:
        hold_vc(s, vc, packet)
    if not any_bit(opened, 1 if plain else s.link[link].words):
        s.link[link].launch_pointer = number
    set_bit(opened, number)
    s.open_count[queue] += 1
    s.out[vc].send_packet = packet
    s.out[vc].send_left = p.flits
    s.open_pointer[lane * s.vnets + p.vnet] = number + 1
    if not plain:
        s.class_pointer[lane] = after(klass, s.classes)
        if s.watch_serial >= 0:
            note(s, packet, s.now, OPENED, link, number, NONE)


cdef inline void report(State* s, int32_t message, int64_t t) noexcept nogil:
    """A message has arrived."""
    if s.delivered_count == s.delivered_room:
        more_delivered(s)
        if s.failed:
            return
    s.delivered[s.delivered_count] = message
    s.delivered_at[s.delivered_count] = t
    s.delivered_count += 1
    s.messages_delivered += 1


cdef inline void consume_packet(State* s, int32_t vc, int64_t t) noexcept nogil:
    """The tail of a packet has been consumed by a sink."""
    cdef int32_t packet = pop_packet(s, vc)
    cdef Packet* p = &s.packets[packet]
    cdef Message* message = &s.messages[p.message]
    s.packets_delivered += 1
    s.latency_sum += t - message.at
    s.network_latency_sum += t - p.launched
    s.hops_sum += p.hops
    message.hops += p.hops
    message.delivered += 1
    if s.attribution:
        settle_packet(s, packet, t)
    if message.delivered == message.packets:
        message.last = t
        report(s, p.message, t)
        if s.recycling:
            record_arrival(s, message, p.message)
            free_message(s, p.message)
    free_packet(s, packet)


cdef void add_pending(State* s, int32_t message) noexcept nogil
cdef int32_t pop_pending(State* s) noexcept nogil
cdef void visit_lane(State* s, int32_t link, int64_t t) noexcept nogil
cdef void more_delivered(State* s) noexcept nogil
cdef void record_arrival(State* s, Message* m, int32_t index) noexcept nogil
