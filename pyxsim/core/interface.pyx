"""The two ends of a message.

Sending: a message waits in `pending` until its cycle comes, then in the source queue of its lane, where its packets
are opened (given a VC) one by one and their flits launched. Receiving: a sink consumes a flit the moment it
arrives, so an ejection lane never blocks for long.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.arbiter cimport after, first_from
from pyxsim.core.bits cimport any_bit, clear_bit, next_bit, set_bit
from pyxsim.core.buffer cimport pop_packet, vcs_of
from pyxsim.core.calendar cimport schedule
from pyxsim.core.link cimport available, available_at, hold_vc, release_vc, return_credit, send_flit
from pyxsim.core.state cimport NONE, WAKE, Message, Packet, free_packet, grown, new_packet


# --- messages that wait for their cycle: a binary heap by (at, number) ----------------------------------------------

cdef bint sooner(State* s, int32_t a, int32_t b) noexcept nogil:
    cdef int64_t first = s.messages[a].at
    cdef int64_t second = s.messages[b].at
    return first < second or (first == second and a < b)


cdef void add_pending(State* s, int32_t message) noexcept nogil:
    cdef int32_t place, parent
    if s.pending_count == s.pending_room:
        s.pending = <int32_t*> grown(s, s.pending, s.pending_room * 2 + 64, sizeof(int32_t))
        if s.failed:
            return
        s.pending_room = s.pending_room * 2 + 64
    place = s.pending_count
    s.pending_count += 1
    while place:
        parent = (place - 1) >> 1
        if not sooner(s, message, s.pending[parent]):
            break
        s.pending[place] = s.pending[parent]
        place = parent
    s.pending[place] = message


cdef int32_t pop_pending(State* s) noexcept nogil:
    cdef int32_t top = s.pending[0]
    cdef int32_t last, place, child
    s.pending_count -= 1
    last = s.pending[s.pending_count]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= s.pending_count:
            break
        if child + 1 < s.pending_count and sooner(s, s.pending[child + 1], s.pending[child]):
            child += 1
        if not sooner(s, s.pending[child], last):
            break
        s.pending[place] = s.pending[child]
        place = child
    s.pending[place] = last
    return top


cdef void join_sources(State* s) noexcept nogil:
    """Messages whose cycle has come join the source queue of their lane."""
    cdef int32_t message, lane
    while s.pending_count and s.messages[s.pending[0]].at <= s.now:
        message = pop_pending(s)
        lane = s.messages[message].lane
        if s.source_head[lane] == NONE:
            s.source_head[lane] = message
        else:
            s.messages[s.source_tail[lane]].next = message
        s.source_tail[lane] = message
        set_bit(s.lane_active, lane - s.network_links)


# --- a lane in one cycle --------------------------------------------------------------------------------------------

cdef int32_t usable(State* s, int32_t link, uint64_t* mask, int32_t pointer) noexcept nogil:
    """The first VC of the mask with a credit, at or after the pointer, round the link's VCs; -1 if there is none."""
    cdef int32_t count = s.link_vcs[link]
    cdef int32_t turn, pick, stop
    cdef int32_t start = pointer
    for turn in range(2):
        stop = count if turn == 0 else pointer
        pick = next_bit(mask, start, stop)
        while pick >= 0:
            if s.credit[s.link_base[link] + pick] > 0:
                return pick
            pick = next_bit(mask, pick + 1, stop)
        start = 0
    return -1


cdef int32_t next_to_launch(State* s, int32_t link) noexcept nogil:
    """The VC whose packet launches a flit next, -1: none can. Ordered lanes do not pass a packet that has no credit."""
    cdef uint64_t* opened = vcs_of(s.opened, s, link)
    cdef int32_t pick
    if not s.ordered:
        return usable(s, link, opened, s.launch_pointer[link])
    pick = first_from(opened, s.launch_pointer[link], 0, s.link_vcs[link])
    return pick if pick >= 0 and s.credit[s.link_base[link] + pick] > 0 else -1


cdef bint may_open(State* s, int32_t link) noexcept nogil:
    if s.source_head[link] == NONE:
        return False
    return s.interleaved or not any_bit(vcs_of(s.opened, s, link), s.link_words[link])


cdef void open_packet(State* s, int32_t link, int32_t number) noexcept nogil:
    """The next packet of the first message takes a VC."""
    cdef int32_t index = s.source_head[link]
    cdef Message* message = &s.messages[index]
    cdef int32_t packet = new_packet(s)
    cdef int32_t vc = s.link_base[link] + number
    cdef Packet* p
    if s.failed:
        return
    p = &s.packets[packet]
    p.message = index
    p.number = message.opened
    p.flits = message.last_flits if message.opened == message.packets - 1 else message.flits
    p.dst = message.dst
    p.plane = message.plane
    p.eject = message.eject
    p.launched = -1
    message.opened += 1
    if message.opened == message.packets:
        s.source_head[link] = message.next
    hold_vc(s, vc, packet)
    if not any_bit(vcs_of(s.opened, s, link), s.link_words[link]):
        s.launch_pointer[link] = number
    set_bit(vcs_of(s.opened, s, link), number)
    s.send_packet[vc] = packet
    s.send_left[vc] = p.flits
    s.open_pointer[link] = after(number, s.link_vcs[link])


cdef void launch_flit(State* s, int32_t link, int32_t number, int64_t t) noexcept nogil:
    cdef int32_t vc = s.link_base[link] + number
    cdef int32_t packet = s.send_packet[vc]
    cdef Packet* p = &s.packets[packet]
    if p.launched < 0:
        p.launched = t
        if s.messages[p.message].first < 0:
            s.messages[p.message].first = t
    s.in_flight += 1
    s.send_left[vc] -= 1
    send_flit(s, vc, packet, p.flits - s.send_left[vc] - 1, t)
    # Stay with a packet until its tail is launched, then turn to the next VC.
    s.launch_pointer[link] = number if s.send_left[vc] else after(number, s.link_vcs[link])
    if s.send_left[vc] == 0:
        clear_bit(vcs_of(s.opened, s, link), number)
        release_vc(s, vc)


cdef void visit_lane(State* s, int32_t link, int64_t t) noexcept nogil:
    """Open at most one packet, launch at most one flit; sleep if only a credit or a timer can change anything."""
    cdef uint64_t* unheld = vcs_of(s.unheld, s, link)
    cdef int32_t pick
    cdef int64_t again = INT64_MAX
    if may_open(s, link):
        pick = usable(s, link, unheld, s.open_pointer[link])
        if pick >= 0:
            open_packet(s, link, pick)
    if available(s, link, t):
        pick = next_to_launch(s, link)
        if pick >= 0:
            launch_flit(s, link, pick, t)
    if may_open(s, link) and usable(s, link, unheld, 0) >= 0:
        return
    if next_to_launch(s, link) >= 0:
        again = available_at(s, link)
        if again <= t + 1:
            return
        schedule(s, again, s.routers + link - s.network_links, WAKE)
    clear_bit(s.lane_active, link - s.network_links)


# --- a sink ---------------------------------------------------------------------------------------------------------

cdef void report(State* s, int32_t message, int64_t t) noexcept nogil:
    cdef int32_t room
    if s.delivered_count == s.delivered_room:
        room = s.delivered_room * 2 + 64
        s.delivered = <int32_t*> grown(s, s.delivered, room, sizeof(int32_t))
        s.delivered_at = <int64_t*> grown(s, s.delivered_at, room, sizeof(int64_t))
        if s.failed:
            return
        s.delivered_room = room
    s.delivered[s.delivered_count] = message
    s.delivered_at[s.delivered_count] = t
    s.delivered_count += 1
    s.messages_delivered += 1


cdef void consume(State* s, int32_t vc, int64_t t) noexcept nogil:
    """A flit arrives at the end of an ejection lane; its slot is empty again at once."""
    cdef int32_t packet = s.nodes_pool[s.fifo_head[vc]].packet
    cdef Packet* p = &s.packets[packet]
    cdef Message* message = &s.messages[p.message]
    if s.left[vc] == 0:
        s.left[vc] = p.flits
    s.left[vc] -= 1
    s.in_flight -= 1
    s.flits_delivered += 1
    if s.occupancy_max[vc] == 0:
        s.occupancy_max[vc] = 1
    return_credit(s, vc, t)
    if s.left[vc]:
        return
    pop_packet(s, vc)
    s.packets_delivered += 1
    s.latency_sum += t - message.at
    s.network_latency_sum += t - p.launched
    message.delivered += 1
    if message.delivered == message.packets:
        message.last = t
        report(s, p.message, t)
    free_packet(s, packet)
