"""Attribution over periods: what of its books is the same, goes with time, or grows by the same in every period.

The books are sums and the cycles since which something is so. Sums that are compared with each other grow by the same:
what a tail waited is the sum of its VC less what that was when it came. A cycle goes with time, or stands still as long
as a message is sent, as its beginning does; where all that go are later than all that stand, none will overtake.

Two things depend on how long a message has been sent. The packets of a lane tell what they waited for at the source
since their message began: in each period the same more. And a tail that stands behind flits of its own message shares
that time among the causes of what they have waited for in all. Where that was a single cause the shares stay the same;
`uneven` counts the others: there is none of these in a period in which what was waited for in all becomes more.
"""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.latency.latency_records cimport (
    CAUSES,
    FIRST_WAIT,
    MOST_TAGS,
    PARTS,
    SERIALISATION,
    SOURCE,
    WAITS,
    LaneBook,
    LinkBook,
    MessageBook,
    PacketBook,
    Rider,
    Stay,
    VcBook,
    VcMargin,
    Waited,
)
from pyxsim.core.router.buffer cimport FRONT, last_packet, next_place, packet_at
from pyxsim.core.fast_forward.detector_state cimport RATES
from pyxsim.core.fast_forward.period_detector cimport sum_of
from pyxsim.core.state.network_state cimport ACTIVE, NONE, Message, Node
from pyxsim.core.fast_forward.field_visitors cimport ADVANCE, COMPARE, both, clocks, counts, counts_int, grown_by, name, same


cdef inline int32_t rate_of(int32_t part) noexcept nogil:
    """Which rate of a lane a part of a stay at the source grows by, or NONE."""
    if part == SOURCE:
        return 0
    if part == SERIALISATION:
        return 1
    return part - FIRST_WAIT + 2 if FIRST_WAIT <= part < FIRST_WAIT + 2 else NONE


# --- sources --------------------------------------------------------------------------------------------------------

cdef void meet_lane_books(State* s, Walk* w) noexcept nogil:
    cdef int32_t i
    cdef LaneBook* b
    cdef int64_t* rates
    for i in range(s.injection_links):
        b = &s.books.lane[i]
        rates = &s.orbit.rates[i * RATES]
        same(s, w, both(b.user, b.target))
        same(s, w, both(b.after, b.by))
        same(s, w, both(b.vc_by, b.credit_by))
        same(s, w, b.other_by)
        clocks(s, w, &b.since)
        clocks(s, w, &b.busy_until)
        clocks(s, w, &b.began)
        clocks(s, w, &b.credit_over)
        clocks(s, w, &b.vc_over)
        counts(s, w, &b.no_vc)
        if w.mode == COMPARE:
            rates[2] = grown_by(w)
        counts(s, w, &b.no_credit)
        if w.mode == COMPARE:
            rates[3] = grown_by(w)
        if w.differs:
            return


cdef void meet_message_book(State* s, Walk* w, int32_t message) noexcept nogil:
    cdef MessageBook* b = &s.books.messages[message]
    cdef Message* m = &s.messages[message]
    cdef int32_t lane = m.lane - s.network_links
    cdef int64_t* rates = &s.orbit.rates[lane * RATES]
    same(s, w, b.before)
    same(s, w, b.first)
    same(s, w, b.no_vc)
    same(s, w, b.no_credit)
    counts(s, w, &b.own)
    if w.mode == COMPARE and not w.differs and m.opened:
        if s.orbit.senders[lane] == s.orbit.walks:   # it is not the only one: whose are the entries of the table?
            w.differs = True
        s.orbit.senders[lane] = s.orbit.walks
        rates[1] = grown_by(w)
        rates[0] = s.now - w.picture.cycle - rates[1] - rates[2] - rates[3]
    if w.mode == COMPARE and b.first >= 0:
        w.old = max(w.old, b.first)


cdef void meet_stays(State* s, Walk* w, int32_t packet) noexcept nogil:
    """The stays of a packet that are over. The first is that at its source."""
    cdef PacketBook* p = &s.books.packets[packet]
    cdef int32_t index = p.first
    cdef int32_t i, rate
    cdef int64_t known, step
    cdef Stay* stay
    while index != NONE and not w.differs:
        stay = &s.books.stays[index]
        known = 0
        for i in range(PARTS):
            known = known * 2 + (stay.parts[i] != 0)
        same(s, w, both(stay.link, known))
        same(s, w, (<int64_t*> &stay.culprit[0])[0])
        for i in range(PARTS):
            counts(s, w, &stay.parts[i])
            rate = rate_of(i) if index == p.first else NONE
            if w.mode == COMPARE:
                step = s.orbit.rates[(stay.link - s.network_links) * RATES + rate] if rate >= 0 else 0
                if grown_by(w) != step:
                    w.differs = True
        index = stay.next
    same(s, w, NONE)


# --- links ----------------------------------------------------------------------------------------------------------

cdef Rider* rider_of(State* s, int32_t link, int64_t serial) noexcept nogil:
    cdef int32_t rider = s.books.link[link].riders
    while s.books.riders[rider].serial != serial:
        rider = s.books.riders[rider].next
    return &s.books.riders[rider]


cdef void meet_link_book(State* s, Walk* w, int32_t number) noexcept nogil:
    cdef LinkBook* b = &s.books.link[number]
    cdef int32_t rider = b.riders
    cdef int32_t node = s.link[number].queue_head
    cdef bint seen = True
    cdef Rider* r
    cdef Node* n
    cdef PacketBook* p
    same(s, w, b.serial)
    same(s, w, both(b.by, sending(s, number, b.packet)))
    clocks(s, w, &b.at)
    while rider != NONE and not w.differs:
        r = &s.books.riders[rider]
        same(s, w, r.serial)
        same(s, w, both(r.flits, r.inside))
        same(s, w, r.other_by)
        if r.inside:
            if w.mode != ADVANCE:   # what the next tail has waited in the queue
                same(s, w, r.own + r.begun - r.base - s.now)
            clocks(s, w, &r.begun)
            counts(s, w, &r.base)
        counts(s, w, &r.own)
        rider = r.next
    same(s, w, NONE)
    while node != NONE and not w.differs:
        n = &s.nodes_pool[node]
        seen = seen and node != b.unseen
        same(s, w, seen)
        if s.queued_pool[node].flit == s.packets[n.packet].flits - 1:
            p = &s.books.packets[n.packet]
            clocks(s, w, &p.left)
            same(s, w, p.spare)
            if seen:
                same(s, w, rider_of(s, number, p.serial).own - p.own)
                same(s, w, p.queued)
                counts(s, w, &p.own)
        node = n.next


cdef int32_t sending(State* s, int32_t number, int32_t packet) noexcept nogil:
    """On which VC of a link the packet is being sent, or NONE: then another may have its record by now."""
    cdef int32_t vc
    for vc in range(s.link[number].base, s.link[number].base + s.link[number].vcs):
        if last_packet(s, vc) == packet:
            return vc
    return NONE


# --- VCs ------------------------------------------------------------------------------------------------------------

cdef void meet_vc_book(State* s, Walk* w, int32_t vc) noexcept nogil:
    cdef VcBook* b = &s.books.vc[vc]
    cdef VcMargin* m = &s.books.margin[vc]
    cdef bint grows = False
    cdef int64_t grown
    cdef int32_t i, place
    same(s, w, s.books.owner[vc].serial)
    same(s, w, both(s.books.owner[vc].by, b.sequence != 0))
    if b.sequence == 0:   # nothing ever came
        return
    same(s, w, both(b.coming, b.sequence - b.run))
    same(s, w, both(b.doing, b.by))
    same(s, w, both(b.whom, b.based))
    same(s, w, b.serial)
    same(s, w, both(m.target, m.target_before))
    same(s, w, both(m.whom, m.front_by))
    same(s, w, m.queue_by)
    for i in range(CAUSES):
        same(s, w, both(b.culprit[i], b.cum[i] > b.base[i]))
        counts(s, w, &b.cum[i])
        grown = grown_by(w) if w.mode == COMPARE else 0
        counts(s, w, &b.base[i])
        if w.mode == COMPARE and grown_by(w) != grown:
            grows = True
            if grown_by(w):
                w.differs = True
    clocks(s, w, &b.begun)
    if w.mode == COMPARE:
        grown = grown_by(w)
        if grows and grown:
            w.differs = True   # the base is of a run that is over
    clocks(s, w, &b.first)
    if w.mode == COMPARE and (grows or grown_by(w) != grown):
        w.grows = True
    clocks(s, w, &b.since)
    clocks(s, w, &b.waited)
    clocks(s, w, &m.noted)
    clocks(s, w, &m.waited)
    clocks(s, w, &m.aimed)
    place = FRONT if b.place != NONE else NONE
    while place != NONE and not w.differs:
        meet_arrived(s, w, vc, place)
        place = next_place(s, vc, place) if place != b.place else NONE
    same(s, w, NONE)
    counts_int(s, w, &b.sequence)
    counts_int(s, w, &b.run)


cdef void meet_arrived(State* s, Walk* w, int32_t vc, int32_t place) noexcept nogil:
    """A packet whose head has come, and perhaps its tail."""
    cdef VcBook* b = &s.books.vc[vc]
    cdef int32_t packet = packet_at(s, vc, place)
    cdef PacketBook* p = &s.books.packets[packet]
    cdef int32_t i
    name(s, w, packet)
    if place != FRONT or s.vc[vc].state != ACTIVE:   # else it has a number in the next VC, or needs none
        same(s, w, b.sequence - p.sequence)
        counts_int(s, w, &p.sequence)
    if place == b.place and b.coming:
        return
    clocks(s, w, &p.arrived)
    for i in range(CAUSES):
        same(s, w, b.cum[i] - p.cum[i])
        counts(s, w, &p.cum[i])
    for i in range(WAITS):
        same(s, w, p.before[i] > 0)
        counts(s, w, &p.before[i])


# --- the table ------------------------------------------------------------------------------------------------------

cdef void meet_table(State* s, Walk* w) noexcept nogil:
    """What is told of a source grows from packet to packet, and so the sum of it by more in every period."""
    cdef int64_t i, link, first
    cdef int32_t part, rate
    cdef int64_t step
    cdef Waited* entry
    same(s, w, s.books.table_count)
    same(s, w, s.books.unexplained)
    counts(s, w, &s.books.uneven)
    if w.mode == COMPARE and w.grows and grown_by(w):
        w.differs = True
    for i in range(s.books.table_room):
        entry = &s.books.table[i]
        if entry.key == 0 or w.differs:
            continue
        link = (entry.key - 1) // (MOST_TAGS + 1) // MOST_TAGS - s.network_links
        first = w.counted
        for part in range(PARTS):
            counts(s, w, &entry.packets[part])
        for part in range(PARTS):
            rate = rate_of(part) if 0 <= link < s.injection_links else NONE
            if w.mode == ADVANCE and rate >= 0:
                step = w.deltas[first + part] * s.orbit.rates[link * RATES + rate]
                entry.cycles[part] += sum_of(w.periods, w.deltas[w.counted], step)
                w.counted += 1
            else:
                counts(s, w, &entry.cycles[part])
