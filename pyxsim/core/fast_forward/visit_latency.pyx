"""Attribution over periods: which of its records are equal, move with time, or grow by the same in every period.

The records are sums, and cycles at which something began. Sums that are compared with each other grow by the same: the
wait of a tail is the sum of its VC minus its value at the tail's arrival. A cycle moves with time, or stands still
while a message is sent, as its beginning does; if all that move are later than all that stand still, none overtakes
another.

Two things depend on how long a message has been sent. Packets of a lane count their wait at the source from the start
of their message, which grows by the same in each period. And a tail behind flits of its own message shares that time
among the causes of all their waits: with a single cause the shares stay equal; `uneven` counts the other cases, which
must not occur in a period in which those waits grow.
"""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.fast_forward.detector_state cimport RATES
from pyxsim.core.fast_forward.field_visitors cimport (
    ADVANCE,
    COMPARE,
    last_growth,
    pack,
    visit_clock,
    visit_count,
    visit_count32,
    visit_equal,
    visit_packet_identity,
)
from pyxsim.core.fast_forward.period_detector cimport arithmetic_sum
from pyxsim.core.latency.latency_records cimport (
    CAUSES,
    FIRST_WAIT,
    MOST_TAGS,
    PARTS,
    SERIALISATION,
    SOURCE,
    WAITS,
    LaneWait,
    LinkWait,
    MessageWait,
    PacketWait,
    QueuedMessage,
    Stay,
    VcWait,
    VcWaitDetail,
    WaitEntry,
)
from pyxsim.core.router.buffer cimport FRONT, last_packet, next_packet_place, packet_at
from pyxsim.core.state.records cimport ACTIVE, NONE, FifoNode, Message


cdef inline int32_t lane_rate(int32_t part) noexcept nogil:
    """Index of the lane rate by which a part of a stay at the source grows, or NONE."""
    if part == SOURCE:
        return 0
    if part == SERIALISATION:
        return 1
    return part - FIRST_WAIT + 2 if FIRST_WAIT <= part < FIRST_WAIT + 2 else NONE


# --- sources --------------------------------------------------------------------------------------------------------

cdef void visit_lane_records(State* s, Visitor* w) noexcept nogil:
    cdef int32_t i
    cdef LaneWait* b
    cdef int64_t* rates
    for i in range(s.links.injection):
        b = &s.latency.lane[i]
        rates = &s.detector.rates[i * RATES]
        visit_equal(s, w, pack(b.user, b.target))
        visit_equal(s, w, pack(b.after, b.by))
        visit_equal(s, w, pack(b.vc_by, b.credit_by))
        visit_equal(s, w, b.other_by)
        visit_clock(s, w, &b.since)
        visit_clock(s, w, &b.busy_until)
        visit_clock(s, w, &b.began)
        visit_clock(s, w, &b.credit_over)
        visit_clock(s, w, &b.vc_over)
        visit_count(s, w, &b.no_vc)
        if w.mode == COMPARE:
            rates[2] = last_growth(w)
        visit_count(s, w, &b.no_credit)
        if w.mode == COMPARE:
            rates[3] = last_growth(w)
        if w.differs:
            return


cdef void visit_message_record(State* s, Visitor* w, int32_t message) noexcept nogil:
    cdef MessageWait* b = &s.latency.messages[message]
    cdef Message* m = &s.pools.messages[message]
    cdef int32_t lane = m.lane - s.links.network
    cdef int64_t* rates = &s.detector.rates[lane * RATES]
    visit_equal(s, w, b.before)
    visit_equal(s, w, b.first)
    visit_equal(s, w, b.no_vc)
    visit_equal(s, w, b.no_credit)
    visit_count(s, w, &b.own)
    if w.mode == COMPARE and not w.differs and m.opened:
        # a second sender: entries of the wait table would be ambiguous
        if s.detector.sender_visit[lane] == s.detector.visit_number:
            w.differs = True
        s.detector.sender_visit[lane] = s.detector.visit_number
        rates[1] = last_growth(w)
        rates[0] = s.now - w.snapshot.cycle - rates[1] - rates[2] - rates[3]
    if w.mode == COMPARE and b.first >= 0:
        w.latest_fixed = max(w.latest_fixed, b.first)


cdef void visit_stays(State* s, Visitor* w, int32_t packet) noexcept nogil:
    """Visit the completed stays of a packet. The first one is at its source."""
    cdef PacketWait* p = &s.latency.packets[packet]
    cdef int32_t index = p.first
    cdef int32_t i, rate
    cdef int64_t known, step
    cdef Stay* stay
    while index != NONE and not w.differs:
        stay = &s.latency.stays[index]
        known = 0
        for i in range(PARTS):
            known = known * 2 + (stay.parts[i] != 0)
        visit_equal(s, w, pack(stay.link, known))
        visit_equal(s, w, (<int64_t*> &stay.culprit[0])[0])
        for i in range(PARTS):
            visit_count(s, w, &stay.parts[i])
            rate = lane_rate(i) if index == p.first else NONE
            if w.mode == COMPARE:
                step = s.detector.rates[(stay.link - s.links.network) * RATES + rate] if rate >= 0 else 0
                if last_growth(w) != step:
                    w.differs = True
        index = stay.next
    visit_equal(s, w, NONE)


# --- links ----------------------------------------------------------------------------------------------------------

cdef QueuedMessage* queued_message_of(State* s, int32_t link, int64_t serial) noexcept nogil:
    cdef int32_t rider = s.latency.link[link].riders
    while s.latency.riders[rider].serial != serial:
        rider = s.latency.riders[rider].next
    return &s.latency.riders[rider]


cdef void visit_link_record(State* s, Visitor* w, int32_t number) noexcept nogil:
    cdef LinkWait* b = &s.latency.link[number]
    cdef int32_t rider = b.riders
    cdef int32_t node = s.links.link[number].queue_head
    cdef bint seen = True
    cdef QueuedMessage* r
    cdef FifoNode* n
    cdef PacketWait* p
    visit_equal(s, w, b.serial)
    visit_equal(s, w, pack(b.by, sending_vc(s, number, b.packet)))
    visit_clock(s, w, &b.at)
    while rider != NONE and not w.differs:
        r = &s.latency.riders[rider]
        visit_equal(s, w, r.serial)
        visit_equal(s, w, pack(r.flits, r.inside))
        visit_equal(s, w, r.other_by)
        if r.inside:
            if w.mode != ADVANCE:   # what the next tail has waited in the queue
                visit_equal(s, w, r.own + r.begun - r.base - s.now)
            visit_clock(s, w, &r.begun)
            visit_count(s, w, &r.base)
        visit_count(s, w, &r.own)
        rider = r.next
    visit_equal(s, w, NONE)
    while node != NONE and not w.differs:
        n = &s.pools.nodes[node]
        seen = seen and node != b.unseen
        visit_equal(s, w, seen)
        if s.pools.queued[node].flit == s.pools.packets[n.packet].flits - 1:
            p = &s.latency.packets[n.packet]
            visit_clock(s, w, &p.left)
            visit_equal(s, w, p.spare)
            if seen:
                visit_equal(s, w, queued_message_of(s, number, p.serial).own - p.own)
                visit_equal(s, w, p.queued)
                visit_count(s, w, &p.own)
        node = n.next


cdef int32_t sending_vc(State* s, int32_t number, int32_t packet) noexcept nogil:
    """The VC of a link on which the packet is being sent, or NONE: its record may be reused by then."""
    cdef int32_t vc
    for vc in range(s.links.link[number].base, s.links.link[number].base + s.links.link[number].vcs):
        if last_packet(s, vc) == packet:
            return vc
    return NONE


# --- VCs ------------------------------------------------------------------------------------------------------------

cdef void visit_vc_record(State* s, Visitor* w, int32_t vc) noexcept nogil:
    cdef VcWait* b = &s.latency.vc[vc]
    cdef VcWaitDetail* m = &s.latency.margin[vc]
    cdef bint grows = False
    cdef int64_t grown
    cdef int32_t i, place
    visit_equal(s, w, s.latency.owner[vc].serial)
    visit_equal(s, w, pack(s.latency.owner[vc].by, b.sequence != 0))
    if b.sequence == 0:   # nothing ever arrived
        return
    visit_equal(s, w, pack(b.coming, b.sequence - b.run))
    visit_equal(s, w, pack(b.doing, b.by))
    visit_equal(s, w, pack(b.whom, b.based))
    visit_equal(s, w, b.serial)
    visit_equal(s, w, pack(m.target, m.target_before))
    visit_equal(s, w, pack(m.whom, m.front_by))
    visit_equal(s, w, m.queue_by)
    for i in range(CAUSES):
        visit_equal(s, w, pack(b.culprit[i], b.cum[i] > b.base[i]))
        visit_count(s, w, &b.cum[i])
        grown = last_growth(w) if w.mode == COMPARE else 0
        visit_count(s, w, &b.base[i])
        if w.mode == COMPARE and last_growth(w) != grown:
            grows = True
            if last_growth(w):
                w.differs = True
    visit_clock(s, w, &b.begun)
    if w.mode == COMPARE:
        grown = last_growth(w)
        if grows and grown:
            w.differs = True   # the base belongs to a completed run
    visit_clock(s, w, &b.first)
    if w.mode == COMPARE and (grows or last_growth(w) != grown):
        w.grows = True
    visit_clock(s, w, &b.since)
    visit_clock(s, w, &b.waited)
    visit_clock(s, w, &m.noted)
    visit_clock(s, w, &m.waited)
    visit_clock(s, w, &m.aimed)
    place = FRONT if b.place != NONE else NONE
    while place != NONE and not w.differs:
        visit_arrived_packet(s, w, vc, place)
        place = next_packet_place(s, vc, place) if place != b.place else NONE
    visit_equal(s, w, NONE)
    visit_count32(s, w, &b.sequence)
    visit_count32(s, w, &b.run)


cdef void visit_arrived_packet(State* s, Visitor* w, int32_t vc, int32_t place) noexcept nogil:
    """A packet whose head has arrived, and perhaps its tail."""
    cdef VcWait* b = &s.latency.vc[vc]
    cdef int32_t packet = packet_at(s, vc, place)
    cdef PacketWait* p = &s.latency.packets[packet]
    cdef int32_t i
    visit_packet_identity(s, w, packet)
    if place != FRONT or s.vcs.input[vc].state != ACTIVE:   # otherwise it has a number in the next VC, or needs none
        visit_equal(s, w, b.sequence - p.sequence)
        visit_count32(s, w, &p.sequence)
    if place == b.place and b.coming:
        return
    visit_clock(s, w, &p.arrived)
    for i in range(CAUSES):
        visit_equal(s, w, b.cum[i] - p.cum[i])
        visit_count(s, w, &p.cum[i])
    for i in range(WAITS):
        visit_equal(s, w, p.before[i] > 0)
        visit_count(s, w, &p.before[i])


# --- the table ------------------------------------------------------------------------------------------------------

cdef void visit_wait_table(State* s, Visitor* w) noexcept nogil:
    """Waits at the source grow from packet to packet, so their sums grow quadratically."""
    cdef int64_t i, link, first
    cdef int32_t part, rate
    cdef int64_t step
    cdef WaitEntry* entry
    visit_equal(s, w, s.latency.table_count)
    visit_equal(s, w, s.latency.unexplained)
    visit_count(s, w, &s.latency.uneven)
    if w.mode == COMPARE and w.grows and last_growth(w):
        w.differs = True
    for i in range(s.latency.table_capacity):
        entry = &s.latency.table[i]
        if entry.key == 0 or w.differs:
            continue
        link = (entry.key - 1) // (MOST_TAGS + 2) // MOST_TAGS - s.links.network
        first = w.counted
        for part in range(PARTS):
            visit_count(s, w, &entry.packets[part])
        for part in range(PARTS):
            rate = lane_rate(part) if 0 <= link < s.links.injection else NONE
            if w.mode == ADVANCE and rate >= 0:
                step = w.deltas[first + part] * s.detector.rates[link * RATES + rate]
                entry.cycles[part] += arithmetic_sum(w.periods, w.deltas[w.counted], step)
                w.counted += 1
            else:
                visit_count(s, w, &entry.cycles[part])
