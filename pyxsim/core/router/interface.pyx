"""Both ends of a message.

Sending: a message waits until its cycle, then in the source queue of its lane, where its packets are opened (given a
VC) one by one and their flits launched. Receiving: a sink consumes a flit on arrival, so an ejection lane never blocks
for long.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.latency.latency_records cimport PARTS
from pyxsim.core.latency.latency_totals cimport forget_packet
from pyxsim.core.latency.source_waits cimport flit_launches, lane_visited
from pyxsim.core.router.arbiter cimport after, first_from
from pyxsim.core.router.buffer cimport link_vc_mask
from pyxsim.core.router.link cimport (
    arrival_event,
    consume_credits,
    credits_needed,
    free_output_vc,
    has_credits,
    is_observed,
    link_available,
    send_flit,
    share_slots,
)
from pyxsim.core.router.retry cimport replay_accepts
from pyxsim.core.state.bits cimport any_bit, clear_bit, has_bit, next_bit, seldom
from pyxsim.core.state.network_state cimport free_packet, grow_array, grow_list, priority_rank
from pyxsim.core.state.records cimport NONE, Arrival, Message, Packet


# --- waiting messages ------------------------------------------------------------------------------------------------
#
# Most are sent in the order in which they start: they stand in a list. Those that start before the last one of it stand
# in a binary heap by (at, number). The next one is the first of the two.

cdef void add_waiting(State* s, int32_t message) noexcept nogil:
    cdef int32_t place, parent
    if s.waiting.first == NONE or s.pools.messages[s.waiting.last].at <= s.pools.messages[message].at:
        if s.waiting.first == NONE:
            s.waiting.first = message
        else:
            s.pools.messages[s.waiting.last].next = message
        s.waiting.last = message
        return
    if s.waiting.heap_count == s.waiting.heap_capacity:
        s.waiting.heap_capacity = <int32_t> grow_list(
            s, <void**> &s.waiting.heap, s.waiting.heap_capacity, 64, sizeof(int32_t))
        if s.failed:
            return
    place = s.waiting.heap_count
    s.waiting.heap_count += 1
    while place:
        parent = (place - 1) >> 1
        if not starts_before(s, message, s.waiting.heap[parent]):
            break
        s.waiting.heap[place] = s.waiting.heap[parent]
        place = parent
    s.waiting.heap[place] = message


cdef int32_t pop_heap(State* s) noexcept nogil:
    cdef int32_t top = s.waiting.heap[0]
    cdef int32_t last, place, child
    s.waiting.heap_count -= 1
    last = s.waiting.heap[s.waiting.heap_count]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= s.waiting.heap_count:
            break
        if child + 1 < s.waiting.heap_count and starts_before(s, s.waiting.heap[child + 1], s.waiting.heap[child]):
            child += 1
        if not starts_before(s, s.waiting.heap[child], last):
            break
        s.waiting.heap[place] = s.waiting.heap[child]
        place = child
    s.waiting.heap[place] = last
    return top


# --- a lane in one cycle --------------------------------------------------------------------------------------------

cdef int32_t free_vc_from(State* s, int32_t link, int32_t vnet, int32_t flits) noexcept nogil:
    """The first free VC of a virtual network with credits for a packet of `flits` flits, at or after the pointer; or
    -1."""
    cdef uint64_t* mask = link_vc_mask(s.vcs.unheld, s, link)
    cdef int32_t low = s.links.low[s.links.link[link].range + vnet]
    cdef int32_t high = s.links.high[s.links.link[link].range + vnet]
    cdef int32_t start = s.lanes.open_pointer[(link - s.links.network) * s.config.vnets + vnet]
    cdef int32_t credits = credits_needed(s, flits, True)
    cdef int32_t turn, pick
    if start < low or start >= high:
        start = low
    for turn in range(2):
        pick = next_bit(mask, start if turn == 0 else low, high if turn == 0 else start)
        while pick >= 0:
            if has_credits(s, s.links.link[link].base + pick, credits):
                return pick
            pick = next_bit(mask, pick + 1, high if turn == 0 else start)
    return -1


cdef int32_t vc_to_open(State* s, int32_t link, int32_t klass) noexcept nogil:
    """The VC on which the class may open a packet now, or -1."""
    cdef int32_t queue = (link - s.links.network) * s.config.classes + klass
    if s.lanes.source_head[queue] == NONE or (s.lanes.open_count[queue] and not s.config.interleaved):
        return -1
    return free_vc_from(s, link, s.config.class_vnet[klass],
                        next_packet_flits(s, &s.pools.messages[s.lanes.source_head[queue]]))


cdef int32_t class_to_open(State* s, int32_t link, int32_t* number) noexcept nogil:
    """The class that opens a packet, or NONE; `number` becomes its VC."""
    cdef int32_t best = NONE
    cdef int32_t klass, turn, vc
    cdef int32_t start
    if s.config.classes == 1:
        number[0] = vc_to_open(s, link, 0)
        return NONE if number[0] < 0 else 0
    start = s.lanes.class_pointer[link - s.links.network]
    for turn in range(s.config.classes):
        klass = start + turn if start + turn < s.config.classes else start + turn - s.config.classes
        if best != NONE and s.config.class_rank[klass] >= s.config.class_rank[best]:
            continue
        vc = vc_to_open(s, link, klass)
        if vc >= 0:
            best = klass
            number[0] = vc
    return best


cdef inline bint can_launch(State* s, int32_t vc) noexcept nogil:
    """Does the VC of an open packet have the credits for its next flit?"""
    cdef int32_t flits
    if s.config.flow == 0:
        return has_credits(s, vc, 1)
    flits = s.pools.packets[s.vcs.output[vc].send_packet].flits
    return has_credits(s, vc, credits_needed(s, flits, s.vcs.output[vc].send_left == flits))


cdef int32_t next_to_launch(State* s, int32_t link) noexcept nogil:
    """The VC that launches a flit next, or -1. Ordered lanes do not pass a packet without a credit."""
    cdef uint64_t* opened = link_vc_mask(s.lanes.opened, s, link)
    cdef int32_t base = s.links.link[link].base
    cdef int32_t pointer = s.links.link[link].launch_pointer
    cdef int32_t count = s.links.link[link].vcs
    cdef int32_t best = -1
    cdef int64_t rank
    cdef int64_t least = INT64_MAX
    cdef int32_t turn, pick, stop
    if not s.config.priorities and pointer < count and has_bit(opened, pointer) and can_launch(s, base + pointer):
        return pointer   # usually: continue with the current packet
    if s.config.ordered:
        pick = first_from(opened, pointer, 0, count)
        return pick if pick >= 0 and can_launch(s, base + pick) else -1
    for turn in range(2):
        stop = count if turn == 0 else pointer
        pick = next_bit(opened, pointer if turn == 0 else 0, stop)
        while pick >= 0:
            if can_launch(s, base + pick):
                if not s.config.priorities:
                    return pick
                rank = priority_rank(s, s.vcs.output[base + pick].send_packet)
                if rank < least:
                    best, least = pick, rank
            pick = next_bit(opened, pick + 1, stop)
    return best


cdef void launch_flit(State* s, int32_t link, int32_t number, int64_t t) noexcept nogil:
    cdef int32_t vc = s.links.link[link].base + number
    cdef int32_t packet = s.vcs.output[vc].send_packet
    cdef Packet* p = &s.pools.packets[packet]
    cdef int32_t flit
    if p.launched < 0:
        packet_starts(s, p, t)
    s.in_flight += 1
    s.vcs.output[vc].send_left -= 1
    flit = p.flits - s.vcs.output[vc].send_left - 1
    if s.config.attribution:
        flit_launches(s, link, packet, s.vcs.output[vc].send_left == 0, t)
    consume_credits(s, vc, credits_needed(s, p.flits, flit == 0))
    s.stats.changed = 1
    send_flit(s, vc, link, arrival_event(s, link, flit == 0, s.vcs.output[vc].send_left == 0), packet, flit, t, t, t,
              is_observed(s))
    # Stay with a packet until its tail is launched, then move on to the next VC.
    s.links.link[link].launch_pointer = number if s.vcs.output[vc].send_left else after(number, s.links.link[link].vcs)
    if s.vcs.output[vc].send_left == 0:
        clear_bit(link_vc_mask(s.lanes.opened, s, link), number)
        s.lanes.open_count[(link - s.links.network) * s.config.classes + s.pools.messages[p.message].klass] -= 1
        free_output_vc(s, vc)


cdef void visit_lane(State* s, int32_t link, int64_t t) noexcept nogil:
    """Open at most one packet and launch at most one flit. A lane that did neither sleeps until a credit, a message or
    its link wakes it."""
    cdef int32_t pick = 0
    cdef int32_t klass
    cdef bint idle
    if s.config.shared_limit < 0:
        share_slots(s, link)
    # Lanes open nothing while the network is emptied, which is only where flits may be lost.
    if seldom(s.config.lossy) and (s.paused or s.links.drops[link]):
        klass = NONE
    else:
        klass = class_to_open(s, link, &pick)
    idle = klass == NONE
    if klass != NONE:
        open_packet(s, link, klass, pick, -1, False)
    if link_available(s, link, t):
        if seldom(s.config.retry) and not replay_accepts(s, link, t):
            idle = idle and not any_bit(link_vc_mask(s.lanes.opened, s, link), s.links.link[link].words)
        else:
            pick = next_to_launch(s, link)
            if pick >= 0:
                launch_flit(s, link, pick, t)
                idle = False
    if s.config.attribution:
        lane_visited(s, link, klass, t)
    if idle:
        clear_bit(s.lanes.active, link - s.links.network)


cdef bint sources_hold(State* s) noexcept nogil:
    """Does a lane of this partition hold a message, or a packet that is not sent?"""
    cdef int32_t lane, i
    for lane in range(s.links.injection):
        if s.part.sender != NULL and s.part.sender[s.links.network + lane] != s.part.number:
            continue
        for i in range(lane * s.config.classes, (lane + 1) * s.config.classes):
            if s.lanes.source_head[i] != NONE or s.lanes.open_count[i]:
                return True
    return False


# --- a sink ---------------------------------------------------------------------------------------------------------

cdef void report_loss(State* s, int32_t message) noexcept nogil:
    """With `Links.reports_losses`, end the run with ~message among the deliveries."""
    if s.config.lossy == 2 and s.pools.messages[message].klass < s.config.silent_class:
        report_delivery(s, ~message, s.now)
        s.stats.messages_delivered -= 1


cdef void lose_packet(State* s, int32_t packet) noexcept nogil:
    """A link or a route has failed: its packet is lost, and what is left of it is dropped at its sink."""
    if not s.pools.packets[packet].lost:
        s.pools.packets[packet].lost = 1
        report_loss(s, s.pools.packets[packet].message)


cdef void drop_packet(State* s, int32_t packet) noexcept nogil:
    """The tail of a packet that has lost a flit has arrived: the packet is dropped, so its message stays incomplete."""
    cdef Packet* p = &s.pools.packets[packet]
    report_loss(s, p.message)
    s.stats.packets_lost += 1
    s.stats.flits_lost += p.flits
    s.stats.flits_delivered -= p.flits   # each was counted as it arrived
    s.pools.messages[p.message].lost += 1
    if s.config.attribution:
        forget_packet(s, packet)
    free_packet(s, packet)


cdef void grow_delivered(State* s) noexcept nogil:
    cdef int32_t capacity = s.arrivals.delivered_capacity * 2 + 64
    s.arrivals.delivered = <int32_t*> grow_array(s, s.arrivals.delivered, capacity, sizeof(int32_t))
    s.arrivals.delivered_at = <int64_t*> grow_array(s, s.arrivals.delivered_at, capacity, sizeof(int64_t))
    if not s.failed:
        s.arrivals.delivered_capacity = capacity


cdef void record_arrival(State* s, Message* m, int32_t index) noexcept nogil:
    """Keep the times of a message whose record is reused."""
    cdef Arrival* a
    cdef int32_t i
    if s.arrivals.record_count == s.arrivals.record_capacity:
        s.arrivals.record_capacity = grow_list(
            s, <void**> &s.arrivals.records, s.arrivals.record_capacity, 1024, sizeof(Arrival))
        if s.failed:
            return
    a = &s.arrivals.records[s.arrivals.record_count]
    s.arrivals.record_count += 1
    a.serial, a.klass, a.at, a.first, a.last = m.serial, m.klass, m.at, m.first, m.last
    a.hops, a.packets = m.hops, m.packets
    a.flits = <int64_t> (m.packets - 1) * m.flits + m.last_flits
    for i in range(PARTS):
        a.parts[i] = s.latency.messages[index].parts[i] if s.config.attribution else 0
