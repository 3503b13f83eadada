"""The two ends of a message.

Sending: a message waits in `pending` until its cycle comes, then in the source queue of its lane, where its packets
are opened (given a VC) one by one and their flits launched. Receiving: a sink consumes a flit the moment it
arrives, so an ejection lane never blocks for long.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.router.arbiter cimport after, first_from
from pyxsim.core.state.bits cimport clear_bit, has_bit, next_bit
from pyxsim.core.router.buffer cimport vcs_of
from pyxsim.core.router.link cimport (
    available,
    has_credits,
    kind_of,
    needed,
    release_vc,
    send_flit,
    take_slots,
    told,
)
from pyxsim.core.latency.source_waits cimport rests, sends
from pyxsim.core.state.network_state cimport NONE, Arrival, Message, Packet, grown, rank_of


# --- messages that wait for their cycle ------------------------------------------------------------------------------
#
# Most are sent in the order in which they start: they stand in a list. Those that start before the last one of it stand
# in a binary heap by (at, number). The next one is the first of the two.

cdef void add_pending(State* s, int32_t message) noexcept nogil:
    cdef int32_t place, parent
    if s.next_message == NONE or s.messages[s.last_message].at <= s.messages[message].at:
        if s.next_message == NONE:
            s.next_message = message
        else:
            s.messages[s.last_message].next = message
        s.last_message = message
        return
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


# --- a lane in one cycle --------------------------------------------------------------------------------------------

cdef int32_t free_from(State* s, int32_t link, int32_t vnet, int32_t flits) noexcept nogil:
    """The first free VC of a virtual network with credits for a packet of so many flits, at or after the pointer."""
    cdef uint64_t* mask = vcs_of(s.unheld, s, link)
    cdef int32_t low = s.low[s.link[link].range + vnet]
    cdef int32_t high = s.high[s.link[link].range + vnet]
    cdef int32_t start = s.open_pointer[(link - s.network_links) * s.vnets + vnet]
    cdef int32_t wanted = needed(s, flits, True)
    cdef int32_t turn, pick
    if start < low or start >= high:
        start = low
    for turn in range(2):
        pick = next_bit(mask, start if turn == 0 else low, high if turn == 0 else start)
        while pick >= 0:
            if has_credits(s, s.link[link].base + pick, wanted):
                return pick
            pick = next_bit(mask, pick + 1, high if turn == 0 else start)
    return -1


cdef int32_t opens(State* s, int32_t link, int32_t klass) noexcept nogil:
    """The VC on which the class may open a packet now, or -1."""
    cdef int32_t queue = (link - s.network_links) * s.classes + klass
    if s.source_head[queue] == NONE or (s.open_count[queue] and not s.interleaved):
        return -1
    return free_from(s, link, s.class_vnet[klass], next_flits(s, &s.messages[s.source_head[queue]]))


cdef int32_t class_to_open(State* s, int32_t link, int32_t* number) noexcept nogil:
    """The class that opens a packet, and the VC for it; NONE: no class may."""
    cdef int32_t best = NONE
    cdef int32_t klass, turn, vc
    cdef int32_t start
    if s.classes == 1:
        number[0] = opens(s, link, 0)
        return NONE if number[0] < 0 else 0
    start = s.class_pointer[link - s.network_links]
    for turn in range(s.classes):
        klass = start + turn if start + turn < s.classes else start + turn - s.classes
        if best != NONE and s.class_rank[klass] >= s.class_rank[best]:
            continue
        vc = opens(s, link, klass)
        if vc >= 0:
            best = klass
            number[0] = vc
    return best


cdef inline bint can_launch(State* s, int32_t vc) noexcept nogil:
    """Has the VC of an open packet the credits for its next flit?"""
    cdef int32_t flits
    if s.flow == 0:
        return has_credits(s, vc, 1)
    flits = s.packets[s.out[vc].send_packet].flits
    return has_credits(s, vc, needed(s, flits, s.out[vc].send_left == flits))


cdef int32_t next_to_launch(State* s, int32_t link) noexcept nogil:
    """The VC whose packet launches a flit next, -1: none can. Ordered lanes do not pass a packet that has no credit."""
    cdef uint64_t* opened = vcs_of(s.opened, s, link)
    cdef int32_t base = s.link[link].base
    cdef int32_t pointer = s.link[link].launch_pointer
    cdef int32_t count = s.link[link].vcs
    cdef int32_t best = -1
    cdef int64_t rank
    cdef int64_t least = INT64_MAX
    cdef int32_t turn, pick, stop
    if not s.priorities and pointer < count and has_bit(opened, pointer) and can_launch(s, base + pointer):
        return pointer   # most of the time: on with the packet of last time
    if s.ordered:
        pick = first_from(opened, pointer, 0, count)
        return pick if pick >= 0 and can_launch(s, base + pick) else -1
    for turn in range(2):
        stop = count if turn == 0 else pointer
        pick = next_bit(opened, pointer if turn == 0 else 0, stop)
        while pick >= 0:
            if can_launch(s, base + pick):
                if not s.priorities:
                    return pick
                rank = rank_of(s, s.out[base + pick].send_packet)
                if rank < least:
                    best, least = pick, rank
            pick = next_bit(opened, pick + 1, stop)
    return best


cdef void launch_flit(State* s, int32_t link, int32_t number, int64_t t) noexcept nogil:
    cdef int32_t vc = s.link[link].base + number
    cdef int32_t packet = s.out[vc].send_packet
    cdef Packet* p = &s.packets[packet]
    cdef int32_t flit
    if p.launched < 0:
        begins(s, p, t)
    s.in_flight += 1
    s.out[vc].send_left -= 1
    flit = p.flits - s.out[vc].send_left - 1
    if s.attribution:
        sends(s, link, packet, s.out[vc].send_left == 0, t)
    take_slots(s, vc, needed(s, p.flits, flit == 0))
    s.changed = 1
    send_flit(s, vc, link, kind_of(s, link, flit == 0, s.out[vc].send_left == 0), packet, flit, t, t, told(s))
    # Stay with a packet until its tail is launched, then turn to the next VC.
    s.link[link].launch_pointer = number if s.out[vc].send_left else after(number, s.link[link].vcs)
    if s.out[vc].send_left == 0:
        clear_bit(vcs_of(s.opened, s, link), number)
        s.open_count[(link - s.network_links) * s.classes + s.messages[p.message].klass] -= 1
        release_vc(s, vc)


cdef void visit_lane(State* s, int32_t link, int64_t t) noexcept nogil:
    """Open at most one packet, launch at most one flit. Who did neither sleeps until a credit, a message, or its link
    that is free again wakes it."""
    cdef int32_t pick = 0
    cdef int32_t klass = class_to_open(s, link, &pick)
    cdef bint idle = klass == NONE
    if klass != NONE:
        open_packet(s, link, klass, pick, -1, False)
    if available(s, link, t):
        pick = next_to_launch(s, link)
        if pick >= 0:
            launch_flit(s, link, pick, t)
            idle = False
    if s.attribution:
        rests(s, link, klass, t)
    if idle:
        clear_bit(s.lane_active, link - s.network_links)


# --- a sink ---------------------------------------------------------------------------------------------------------

cdef void more_delivered(State* s) noexcept nogil:
    cdef int32_t room = s.delivered_room * 2 + 64
    s.delivered = <int32_t*> grown(s, s.delivered, room, sizeof(int32_t))
    s.delivered_at = <int64_t*> grown(s, s.delivered_at, room, sizeof(int64_t))
    if not s.failed:
        s.delivered_room = room


cdef void record_arrival(State* s, Message* m, int32_t index) noexcept nogil:
    """Keep what is to be known of a message whose record is used again."""
    cdef int64_t room
    cdef Arrival* a
    cdef int32_t i
    if s.arrival_count == s.arrival_room:
        room = s.arrival_room * 2 + 1024
        s.arrivals = <Arrival*> grown(s, s.arrivals, room, sizeof(Arrival))
        if s.failed:
            return
        s.arrival_room = room
    a = &s.arrivals[s.arrival_count]
    s.arrival_count += 1
    a.serial, a.klass, a.at, a.first, a.last = m.serial, m.klass, m.at, m.first, m.last
    a.hops, a.packets = m.hops, m.packets
    a.flits = <int64_t> (m.packets - 1) * m.flits + m.last_flits
    for i in range(8):
        a.parts[i] = s.books.messages[index].parts[i] if s.attribution else 0
