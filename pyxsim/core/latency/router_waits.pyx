"""Attribution in routers: the activity of each VC in every cycle, and the waits of each packet's tail.

docs/attribution.md has every rule. A VC is only visited when its router is; while the router sleeps, its activity
continues. So each VC has an activity and its start, and `set_activity` accumulates the cycles when it changes. A tail
stores these sums at its arrival: the difference when it leaves is its own wait.

A wait for a link becomes a wait for its fault in a cycle that is known in advance (`VcWaitDetail.fault_from`).
`apply_fault` splits the two when the activity changes, or when it is read.
"""

from libc.stdint cimport INT64_MAX, int8_t, int32_t, int64_t

from pyxsim.core.latency.latency_records cimport (
    BEFORE_FAULT,
    BEFORE_QUEUE,
    BY_FAULT,
    CAUSES,
    FAULT,
    FIRST_WAIT,
    HOPS,
    LINK_BUSY,
    LINK_FAULT,
    LINK_WAIT,
    LOST_ARBITRATION,
    MOVING,
    NO_CREDIT,
    NO_TRAFFIC,
    NO_VC,
    QUEUE,
    SERIALISATION,
    WAITS,
    Contender,
    LinkWait,
    PacketWait,
    QueuedMessage,
    Stay,
    VcOwner,
    VcWait,
    VcWaitDetail,
)
from pyxsim.core.latency.link_faults cimport fault_cycles, is_fault, sound_at, tail_is_accepted, tail_is_sent
from pyxsim.core.latency.latency_totals cimport free_queued_message, new_queued_message, new_stay
from pyxsim.core.router.buffer cimport FRONT, next_packet_place, packet_at
from pyxsim.core.router.vc_allocator cimport lowest_free_vc, ring_vc
from pyxsim.core.state.records cimport (
    ACTIVE,
    HOLDING,
    IDLE,
    NONE,
    STALL_ARBITRATION,
    STALL_CREDIT,
    STALL_SERIAL,
    STALL_VC,
    STORE_AND_FORWARD,
    WAITING,
    InputVc,
    Request,
)


cdef inline int64_t message_of(State* s, int32_t packet) noexcept nogil:
    return s.latency.packets[packet].serial


# --- activity of a VC -----------------------------------------------------------------------------------------------

cdef int8_t credit_culprit(State* s, int32_t vc, int64_t begun, int64_t over) noexcept nogil:
    """Who caused a wait for credits of a VC in cycles [begun, over), as known at its end?"""
    cdef VcWait* b = &s.latency.vc[vc]
    cdef int64_t waited = b.waited
    cdef int8_t whom = b.whom
    if s.vcs.input[vc].router == NONE:
        return NO_TRAFFIC
    if s.latency.faulty:
        apply_fault(s, vc, over)
        waited, whom = b.waited, b.whom
    if b.since < over and b.doing != NO_CREDIT and b.by != NO_TRAFFIC:
        return b.by
    if s.latency.margin[vc].noted == over:   # it could move in this cycle, and its router was visited earlier
        waited, whom = s.latency.margin[vc].waited, s.latency.margin[vc].whom
    return whom if waited >= begun - s.latency.link[s.vcs.input[vc].link].credit_delay else <int8_t> NO_TRAFFIC


cdef void end_wait(State* s, int32_t vc, int64_t t) noexcept nogil:
    """The VC waited up to the cycle before `t`."""
    cdef VcWait* b = &s.latency.vc[vc]
    cdef VcWaitDetail* m = &s.latency.margin[vc]
    cdef int8_t whom = b.by
    b.based = 0
    if b.doing == LINK_FAULT:
        m.fault += t - b.since
        b.waited, b.whom = t - 1, BY_FAULT
        return
    if b.doing == NO_CREDIT:
        whom = credit_culprit(s, m.target if m.aimed < t else m.target_before, b.since, t)
        m.waited, m.whom, m.noted = b.waited, b.whom, t
    b.cum[b.doing - NO_VC] += t - b.since
    if whom != NO_TRAFFIC:
        b.culprit[b.doing - NO_VC] = whom
        b.waited, b.whom = t - 1, whom


cdef inline void set_activity(State* s, int32_t vc, int8_t doing, int8_t by, int64_t t) noexcept nogil:
    """From cycle `t` on the VC has this activity and culprit. A later call for the same cycle overrides."""
    cdef VcWait* b = &s.latency.vc[vc]
    if s.latency.faulty:
        apply_fault(s, vc, t)
        s.latency.margin[vc].fault_from = INT64_MAX
    if b.doing == doing and b.by == by:
        return
    if t > b.since:
        if b.doing != MOVING:
            end_wait(s, vc, t)
        b.since = t
    b.doing, b.by = doing, by


cdef void apply_fault(State* s, int32_t vc, int64_t t) noexcept nogil:
    """A wait for the link may have become one for its fault before cycle `t`."""
    cdef VcWait* b = &s.latency.vc[vc]
    cdef VcWaitDetail* m = &s.latency.margin[vc]
    cdef int64_t when = m.fault_from
    if when >= t:
        return
    m.fault_from = INT64_MAX
    if b.doing != MOVING:
        end_wait(s, vc, when)
    b.doing, b.by, b.since = LINK_FAULT, BY_FAULT, when


cdef void set_moving(State* s, int32_t vc, int64_t t) noexcept nogil:
    set_activity(s, vc, MOVING, NO_TRAFFIC, t)


cdef inline void lost_arbitration(State* s, int32_t vc, int64_t serial, int32_t by) noexcept nogil:
    """A flit of this message won instead. Losing to the own message is not a wait."""
    if serial == message_of(s, s.vcs.input[vc].packet):
        set_activity(s, vc, MOVING, NO_TRAFFIC, s.now)
    else:
        set_activity(s, vc, LOST_ARBITRATION, <int8_t> by, s.now)


cdef inline void reset_wait_base(State* s, int32_t vc) noexcept nogil:
    """Waits so far do not affect tails that are still to come."""
    cdef VcWait* b = &s.latency.vc[vc]
    cdef int32_t i
    if not b.based:
        for i in range(CAUSES):
            b.base[i] = b.cum[i]
            b.culprit[i] = NO_TRAFFIC
        s.latency.margin[vc].fault_base = s.latency.margin[vc].fault
        b.based = 1


# --- arrivals -------------------------------------------------------------------------------------------------------

cdef void head_arrives(State* s, int32_t vc, int64_t t) noexcept nogil:
    cdef VcWait* b = &s.latency.vc[vc]
    cdef int32_t packet
    b.place = FRONT if b.place == NONE else next_packet_place(s, vc, b.place)
    packet = packet_at(s, vc, b.place)
    b.coming = s.pools.packets[packet].flits
    if message_of(s, packet) != b.serial:
        b.serial, b.first = message_of(s, packet), t
        b.sequence += 1
    s.latency.packets[packet].sequence = b.sequence


cdef void flit_enters_empty_vc(State* s, int32_t vc, int64_t t) noexcept nogil:
    if s.vcs.input[vc].state == IDLE:
        packet_at_front(s, vc, t)
    s.latency.vc[vc].first = t
    reset_wait_base(s, vc)


cdef void tail_arrives(State* s, int32_t vc, int64_t t) noexcept nogil:
    """Store the waits of the VC so far, and which of them the flits before the tail share."""
    cdef VcWait* b = &s.latency.vc[vc]
    cdef PacketWait* p = &s.latency.packets[packet_at(s, vc, b.place)]
    cdef int64_t until = t
    cdef int32_t i
    p.arrived = t
    for i in range(CAUSES):
        p.cum[i] = b.cum[i]
    if s.latency.faulty:
        if p.sound_arrival != NONE:
            tail_is_accepted(s, packet_at(s, vc, b.place), t)
        apply_fault(s, vc, t)
        p.fault = s.latency.margin[vc].fault + (t - b.since if b.doing == LINK_FAULT else 0)
    if b.doing != MOVING and b.doing != LINK_FAULT:
        p.cum[b.doing - NO_VC] += t - b.since
    for i in range(WAITS):
        p.before[i] = 0
    if s.config.flow == STORE_AND_FORWARD:
        return
    if b.run == b.sequence and b.begun < t:
        until = b.begun
        for i in range(CAUSES):
            p.before[i] = p.cum[i] - b.base[i]
        if s.latency.faulty:
            p.before[BEFORE_FAULT] = p.fault - s.latency.margin[vc].fault_base
    if until > b.first:
        p.before[BEFORE_QUEUE] = until - b.first


cdef void packet_at_front(State* s, int32_t vc, int64_t t) noexcept nogil:
    """From cycle `t` on the next packet is the first of its VC."""
    cdef VcWait* b = &s.latency.vc[vc]
    cdef VcWaitDetail* m = &s.latency.margin[vc]
    cdef int32_t packet = s.vcs.input[vc].packet
    if s.latency.packets[packet].sequence != b.run:
        b.run = s.latency.packets[packet].sequence
        b.begun = t
        m.queue_by = m.front_by
        m.front_by = traffic_class_of(s, packet)
        reset_wait_base(s, vc)


# --- VC allocation --------------------------------------------------------------------------------------------------

cdef inline void waits_for_credit(State* s, int32_t vc, int32_t target) noexcept nogil:
    """The front flit waits for credits of an output VC."""
    cdef VcWaitDetail* m = &s.latency.margin[vc]
    set_activity(s, vc, NO_CREDIT, NO_TRAFFIC, s.now)
    if target != m.target:
        if m.aimed < s.now:
            m.target_before = m.target
        m.target, m.aimed = target, s.now


cdef void waits_for_vc(State* s, int32_t vc) noexcept nogil:
    """No VC of its range counts as free for a head: all are held, or a free one has no room."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t unheld = lowest_free_vc(s, vc)
    cdef int32_t kept = ring_vc(s, vc)
    cdef int32_t low = s.links.low[v.range_row] if kept == NONE else kept
    cdef int32_t high = s.links.high[v.range_row] if kept == NONE else kept + 1
    if s.latency.faulty and v.multi and s.links.link[v.out_link].free == INT64_MAX:   # the link is down
        set_activity(s, vc, LINK_FAULT, BY_FAULT, s.now)
    elif unheld < 0:
        set_activity(s, vc, NO_VC, range_holder(s, v.out_link, low, high), s.now)
    else:
        waits_for_credit(s, vc, s.links.link[v.out_link].base + unheld)


cdef void record_va_losers(State* s) noexcept nogil:
    """Heads that lost a VC of their range to another one; the pointer is behind the granted VC."""
    cdef int32_t i, base
    cdef InputVc* v
    cdef VcOwner* owner
    for i in range(s.latency.rival_count):
        v = &s.vcs.input[s.latency.rivals[i].vc]
        if v.state == WAITING:
            base = s.links.link[v.out_link].base
            owner = &s.latency.owner[base + s.vcs.ranges[base + s.links.low[v.range_row]].next - 1]
            lost_arbitration(s, s.latency.rivals[i].vc, owner.serial, owner.by)
    s.latency.rival_count = 0


cdef void record_va_losers_matrix(State* s, int32_t asked) noexcept nogil:
    """Heads that requested several VCs and got none: the culprit has the lowest of them that was granted."""
    cdef int32_t i, found
    cdef int32_t* lost_to = s.latency.lost_to
    cdef Request* r
    cdef VcOwner* owner
    for i in range(asked):
        lost_to[s.matching.requests[i].vc] = NONE
    for i in range(asked):
        r = &s.matching.requests[i]
        if s.matching.match_out[r.o] != NONE and (lost_to[r.vc] == NONE or r.o < s.matching.requests[lost_to[r.vc]].o):
            lost_to[r.vc] = i
    for i in range(asked):
        r = &s.matching.requests[i]
        found = lost_to[r.vc]
        if s.vcs.input[r.vc].state == WAITING:
            if found == NONE:
                set_activity(s, r.vc, LOST_ARBITRATION, NO_TRAFFIC, s.now)
            else:
                owner = &s.latency.owner[s.matching.requests[found].target]
                lost_arbitration(s, r.vc, owner.serial, owner.by)


# --- the switch -----------------------------------------------------------------------------------------------------

cdef void record_stall(State* s, int32_t vc, int32_t cause) noexcept nogil:
    """A front flit cannot request the switch."""
    cdef InputVc* v = &s.vcs.input[vc]
    if cause == STALL_CREDIT:
        if v.state & (HOLDING | ACTIVE):
            waits_for_credit(s, vc, v.out_vc)
        else:
            waits_for_credit(s, vc, s.links.link[v.out_link].base + s.links.low[v.range_row])
    elif cause == STALL_SERIAL:
        if s.latency.faulty and is_fault(s, v.out_link, s.now):
            set_activity(s, vc, LINK_FAULT, BY_FAULT, s.now)
            return
        if s.latency.link[v.out_link].serial == message_of(s, v.packet):
            set_activity(s, vc, MOVING, NO_TRAFFIC, s.now)
        else:
            set_activity(s, vc, LINK_BUSY, <int8_t> s.latency.link[v.out_link].by, s.now)
        if s.latency.faulty and not s.links.link[v.out_link].queued:
            s.latency.margin[vc].fault_from = sound_at(s, v.out_link)
    elif cause == STALL_VC:
        waits_for_vc(s, vc)
    elif cause == STALL_ARBITRATION:   # ordered: behind an older packet
        waits_behind(s, vc, s.scratch.oldest[v.out_link])


cdef void waits_behind(State* s, int32_t vc, int32_t other) noexcept nogil:
    """Ordered: the packet of another VC goes first."""
    cdef int32_t older = s.vcs.input[other].packet
    lost_arbitration(s, vc, message_of(s, older), traffic_class_of(s, older))


cdef void record_sa_losers(State* s) noexcept nogil:
    """Flits that lost the switch: the culprit won the output, or else the input."""
    cdef int32_t i, place, packet
    cdef Contender* rival
    cdef Contender* winner
    for i in range(s.latency.rival_count):
        rival = &s.latency.rivals[i]
        place = s.latency.link[rival.link].won
        winner = &s.latency.winners[place]
        if place < s.latency.winner_count and winner.link == rival.link:
            if winner.vc == rival.vc:
                continue
            packet = winner.packet
        else:
            packet = winner_at_input(s, rival.vc)
        if packet == NONE:
            set_activity(s, rival.vc, LOST_ARBITRATION, NO_TRAFFIC, s.now)
        else:
            lost_arbitration(s, rival.vc, message_of(s, packet), traffic_class_of(s, packet))


cdef int32_t winner_at_input(State* s, int32_t vc) noexcept nogil:
    """The packet that won the switch at the input of a VC, or NONE."""
    cdef int32_t i, other
    for i in range(s.latency.winner_count):
        other = s.latency.winners[i].vc
        if s.vcs.input[other].port == s.vcs.input[vc].port and (other - vc) % s.config.input_speedup == 0:
            return s.latency.winners[i].packet
    return NONE


cdef void tail_wins_switch(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """Its stay is complete except for the output queue: split it into parts."""
    cdef VcWait* b = &s.latency.vc[vc]
    cdef int32_t packet = s.vcs.input[vc].packet
    cdef Stay* stay = new_stay(s, packet, s.vcs.input[vc].out_link)
    cdef PacketWait* p = &s.latency.packets[packet]
    cdef int64_t* before = p.cum
    cdef int64_t came = p.arrived
    cdef int64_t switching = cycle_of(s, u + s.config.st) - t if s.config.queue_after_st else 0
    cdef int64_t moved, alone
    cdef int32_t i
    if s.failed:
        return
    if b.begun > came:
        before, came = b.base, b.begun
        stay.parts[QUEUE] = came - p.arrived
    moved = t - came
    for i in range(CAUSES):
        stay.parts[FIRST_WAIT + i] = b.cum[i] - before[i]
        stay.culprit[FIRST_WAIT + i] = b.culprit[i]
        moved -= stay.parts[FIRST_WAIT + i]
    if s.latency.faulty:
        stay.parts[FAULT] = s.latency.margin[vc].fault - (
            s.latency.margin[vc].fault_base if b.begun > p.arrived else p.fault)
        moved -= stay.parts[FAULT]
    stay.culprit[QUEUE] = s.latency.margin[vc].queue_by
    alone = s.latency.pipeline - min(switching, s.latency.pipeline)
    stay.parts[HOPS] = min(moved, alone)
    p.spare = alone - stay.parts[HOPS]
    if moved > alone:
        s.latency.uneven += share_wait(stay, p.before, moved - alone)
    # Switch traversal may take longer than without waits. A wait in the output queue may follow.
    stay.parts[SERIALISATION] += max(switching - s.latency.pipeline, 0)
    stay.parts[HOPS] += min(switching, s.latency.pipeline)
    p.left = t + switching
    if b.place == FRONT:
        b.place = NONE
    elif b.place == s.vcs.input[vc].head:   # it will be the first
        b.place = FRONT


cdef bint share_wait(Stay* stay, int64_t* before, int64_t rest) noexcept nogil:
    """Share the cycles that the tail stood behind flits of its own message, up to what these had waited before it came.

    Return False if any multiple of `before` gives the same shares.
    """
    cdef int64_t whole = 0
    cdef int64_t given = 0
    cdef int64_t part
    cdef int32_t most = 0
    cdef int32_t i
    cdef bint uneven
    for i in range(WAITS):
        whole += before[i]
        if before[i] > before[most]:
            most = i
    uneven = before[most] != whole or 0 < whole < rest
    if rest >= whole:
        stay.parts[SERIALISATION] = rest - whole
        rest = whole
    if rest == 0:
        return uneven
    for i in range(WAITS):
        part = rest * before[i] // whole
        stay.parts[FIRST_WAIT + i] += part
        given += part
    stay.parts[FIRST_WAIT + most] += rest - given
    return uneven


# --- links ----------------------------------------------------------------------------------------------------------

cdef QueuedMessage* queued_message_of(State* s, int32_t link, int64_t serial) noexcept nogil:
    """The entry of a message with flits in the output queue, or NULL."""
    cdef int32_t rider = s.latency.link[link].riders
    while rider != NONE:
        if s.latency.riders[rider].serial == serial:
            return &s.latency.riders[rider]
        rider = s.latency.riders[rider].next
    return NULL


cdef void flit_queued(State* s, int32_t link, int32_t node) noexcept nogil:
    """A flit enters an output queue."""
    cdef LinkWait* book = &s.latency.link[link]
    cdef int32_t packet = s.pools.nodes[node].packet
    cdef int64_t serial = message_of(s, packet)
    cdef QueuedMessage* rider = queued_message_of(s, link, serial)
    cdef int32_t index
    if rider == NULL:
        index = new_queued_message(s)
        if s.failed:
            return
        rider = &s.latency.riders[index]
        rider.serial, rider.own, rider.flits, rider.inside, rider.other_by = serial, 0, 0, 0, NO_TRAFFIC
        rider.next = book.riders
        book.riders = index
    rider.flits += 1
    if book.unseen == NONE:
        book.unseen = node


cdef void note_queue_arrivals(State* s, int32_t link, int64_t t) noexcept nogil:
    """Before a launch from the queue: arrived tails store how long their message had used the link."""
    cdef LinkWait* book = &s.latency.link[link]
    cdef int32_t packet
    cdef int64_t serial, at, own, fault
    cdef QueuedMessage* rider
    while book.unseen != NONE and s.pools.queued[book.unseen].at <= t:
        packet = s.pools.nodes[book.unseen].packet
        at = s.pools.queued[book.unseen].at
        serial = message_of(s, packet)
        rider = queued_message_of(s, link, serial)
        fault = fault_cycles(s, link, at) if s.latency.faulty else 0
        own = rider.own + (at - book.at - (fault - book.fault_at) if serial == book.serial else 0)
        if rider.inside == 0:
            rider.begun, rider.base, rider.fault_base = at, own, fault
        rider.inside += 1
        if s.pools.queued[book.unseen].flit == s.pools.packets[packet].flits - 1:
            s.latency.packets[packet].own = own
            s.latency.packets[packet].fault = fault
            s.latency.packets[packet].queued_fault = fault - rider.fault_base
            s.latency.packets[packet].queued = at - rider.begun - (own - rider.base) - (fault - rider.fault_base)
        book.unseen = s.pools.nodes[book.unseen].next


cdef void packet_takes_link(State* s, int32_t link, int32_t packet, int64_t t) noexcept nogil:
    """A flit of another packet starts on a link or, with an output queue, any flit."""
    cdef LinkWait* book = &s.latency.link[link]
    cdef int64_t serial = message_of(s, packet)
    cdef QueuedMessage* rider
    if s.latency.faulty:
        book.fault = fault_cycles(s, link, t)
    if book.riders != NONE:
        rider = queued_message_of(s, link, book.serial)
        if rider != NULL:
            rider.own += t - book.at - (book.fault - book.fault_at)
        if book.serial != serial:
            queued_message_of(s, link, serial).other_by = book.by
    book.serial, book.packet, book.at, book.by = serial, packet, t, traffic_class_of(s, packet)
    book.fault_at = book.fault


cdef void tail_starts(State* s, int32_t link, int32_t packet, int64_t t, int64_t arrival) noexcept nogil:
    """The tail of a packet starts: its stay ends in the cycle of its arrival."""
    cdef PacketWait* p = &s.latency.packets[packet]
    cdef Stay* stay
    cdef QueuedMessage* rider
    cdef int64_t own, others, fault
    if s.failed:
        return
    stay = &s.latency.stays[p.last]
    if s.latency.faulty:
        tail_is_sent(s, link, packet, t, arrival)
    else:
        stay.parts[HOPS] += arrival - t
    if t > p.left:   # it was in an output queue
        rider = queued_message_of(s, link, message_of(s, packet))
        own = rider.own - p.own
        fault = s.latency.link[link].fault - p.fault if s.latency.faulty else 0
        others = t - p.left - own - fault
        stay.parts[HOPS] += min(own, p.spare)
        own -= min(own, p.spare)
        if s.latency.faulty:
            stay.parts[FAULT] += fault + min(own, p.queued_fault)
            own -= min(own, p.queued_fault)
        others += min(own, p.queued)
        stay.parts[LINK_WAIT] += others
        stay.parts[SERIALISATION] += own - min(own, p.queued)
        if others:
            stay.culprit[LINK_WAIT] = <int8_t> rider.other_by


cdef void flit_leaves_queue(State* s, int32_t link, int32_t packet) noexcept nogil:
    """A flit has started from an output queue. Remove messages without flits there."""
    cdef int32_t* place = &s.latency.link[link].riders
    cdef int32_t rider
    cdef int64_t serial = message_of(s, packet)
    while s.latency.riders[place[0]].serial != serial:
        place = &s.latency.riders[place[0]].next
    rider = place[0]
    s.latency.riders[rider].inside -= 1
    s.latency.riders[rider].flits -= 1
    if s.latency.riders[rider].flits == 0:
        place[0] = s.latency.riders[rider].next
        free_queued_message(s, rider)
