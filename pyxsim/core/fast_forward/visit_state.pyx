"""One walk through all that decides, which is at once its picture, the comparison with one, and the jump.

Every field is met once, by what it means:

same        the very number must come again: places, counts of flits, pointers, states
moves       a cycle: it is seen from `now`, and what is past is past
shifts      a cycle whose distance matters, also in the past
counts      it may differ, and grows by the same in every period
clocks      a cycle of the books that goes with time, or stands still (visit_latency.pyx)

What a walk does not meet is fixed, scratch, or follows from what it meets. Records of pools are met where they are
used, so that it does not matter which record of the pool it is: a packet is its message and its number there, reckoned
from the packet that the message opens next.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcmp, memcpy

from pyxsim.core.state.bits cimport has_bit
from pyxsim.core.router.buffer cimport FRONT, first_place, next_place, packet_at
from pyxsim.core.router.random_draws cimport packet_key
from pyxsim.core.fast_forward.detector_state cimport Member, Orbit
from pyxsim.core.state.sorting cimport sort_numbers
from pyxsim.core.fast_forward.visit_latency cimport (
    meet_lane_books,
    meet_link_book,
    meet_message_book,
    meet_stays,
    meet_table,
    meet_vc_book,
)
from pyxsim.core.state.network_state cimport (
    ACTIVE,
    HOLDING,
    IDLE,
    KINDS,
    NONE,
    Link,
    Message,
    Out,
    Packet,
    Queued,
    Router,
    Slot,
    Vc,
    grown,
)
from pyxsim.core.router.stall_counters cimport is_stalled
from pyxsim.core.fast_forward.field_visitors cimport (
    ADVANCE,
    COMPARE,
    RECORD,
    both,
    counts,
    counts_int,
    grown_by,
    has_room,
    moves,
    name,
    same,
    same_bytes,
    shifts,
)


# --- packets and messages -------------------------------------------------------------------------------------------

cdef bint alike(State* s, int32_t one, int32_t other) noexcept nogil:
    """Are two messages the same but for their times, and for how many packets they have?"""
    cdef Message* a = &s.messages[one]
    cdef Message* b = &s.messages[other]
    return (a.lane == b.lane and a.eject == b.eject and a.dst == b.dst and a.plane == b.plane and a.flits == b.flits
            and a.last_flits == b.last_flits and a.klass == b.klass)


cdef void number(State* s, Walk* w, int32_t message) noexcept nogil:
    """Messages are numbered in the order in which a walk comes across them."""
    cdef Orbit* o = s.orbit
    cdef int32_t order = o.who_count
    cdef int32_t like
    if o.met[message] == o.walks:
        return
    if order == o.who_room:
        o.who = <Member*> grown(s, o.who, 2 * order + 64, sizeof(Member))
        if s.failed:
            return
        o.who_room = 2 * order + 64
    o.met[message], o.order[message] = o.walks, order
    o.who[order].message, o.who[order].rest = message, s.messages[message].packets - s.messages[message].opened
    o.who_count += 1
    if w.mode == COMPARE:
        like = w.picture.who[order].message if order < w.picture.who_count else NONE
        if like != message and (like == NONE or not w.any_like or not alike(s, message, like)):
            w.differs = True


cdef void number_messages(State* s, Walk* w) noexcept nogil:
    """Those at the heads of their source queues and behind them, and those with packets inside."""
    cdef int32_t i, _turn, message, place
    s.orbit.walks += 1
    s.orbit.who_count = 0
    for i in range(s.injection_links * s.classes):
        message = s.source_head[i]
        for _turn in range(2):
            same(s, w, message != NONE)
            if message != NONE:
                number(s, w, message)
                message = s.messages[message].next
        same(s, w, message != NONE)
    for i in range(s.vcs):
        place = first_place(s, i)
        while place != NONE and not (w.differs or s.failed):
            number(s, w, s.packets[packet_at(s, i, place)].message)
            place = next_place(s, i, place)


cdef void meet_message(State* s, Walk* w, int32_t index) noexcept nogil:
    """A message with packets inside, or in its source queue."""
    cdef Message* m = &s.messages[index]
    cdef int64_t opened
    same(s, w, both(m.opened - m.delivered, m.first < 0))
    if w.differs:
        return
    if s.attribution:
        meet_message_book(s, w, index)
    counts_int(s, w, &m.opened)
    if w.mode == COMPARE and not w.differs:
        opened = grown_by(w)
        if opened > 0:   # its last packet may be another one, and is not part of a period, nor next to be opened in it
            w.most = min(w.most, (m.packets - 2 - m.opened) // opened if m.packets - 2 >= m.opened else -1)
        elif m.opened > m.delivered:
            w.stuck = True
    counts_int(s, w, &m.delivered)
    counts(s, w, &m.hops)


cdef void meet_packet(State* s, Walk* w, int32_t packet) noexcept nogil:
    cdef Packet* p = &s.packets[packet]
    same(s, w, both(p.flits, p.plane))
    same(s, w, both(p.via, p.last))
    same(s, w, both(p.hops, p.launched < 0))
    if p.launched >= 0:
        shifts(s, w, &p.launched, 1)
    if s.attribution:
        meet_stays(s, w, packet)
    counts_int(s, w, &p.number)
    if w.mode == ADVANCE:
        p.key = 0 if not s.keyed else packet_key(s.seed, s.messages[p.message].serial, p.number)


# --- hardware -------------------------------------------------------------------------------------------------------

cdef void meet_vc(State* s, Walk* w, int32_t vc) noexcept nogil:
    cdef Vc* v = &s.vc[vc]
    cdef Out* out = &s.out[vc]
    cdef Link* link = &s.link[v.link]
    cdef int32_t place = first_place(s, vc)
    same(s, w, both(out.credit, v.occupancy))
    same(s, w, both(s.ranges[vc].next, s.ranges[vc].requester))
    if s.attribution:
        meet_vc_book(s, w, vc)
    if out.src == NONE and link.dst != NONE:   # a lane
        same(s, w, out.send_left)
        if has_bit(&s.opened[link.word], vc - link.base):
            name(s, w, out.send_packet)
    if place == NONE:
        same(s, w, NONE)
        return
    same(s, w, both(v.left, v.state | v.many << 8))
    if v.state != IDLE:
        same(s, w, both(v.want, v.hold))
        same(s, w, v.row)
        if s.plain:
            shifts(s, w, &v.ready, s.ticks)
        else:
            moves(s, w, &v.ready, s.ticks)
            shifts(s, w, &s.front[vc], s.ticks)
    while place != NONE and not w.differs:
        name(s, w, packet_at(s, vc, place))
        # A packet stands in several VCs. It is met where its head is.
        if not (place == FRONT and v.router != NONE and v.state & (HOLDING | ACTIVE)):
            meet_packet(s, w, packet_at(s, vc, place))
        place = next_place(s, vc, place)
    same(s, w, NONE)


cdef void meet_link(State* s, Walk* w, int32_t number) noexcept nogil:
    cdef Link* link = &s.link[number]
    cdef int32_t index = link.queue_head
    cdef Queued* queued
    moves(s, w, &link.free, link.den)
    if s.attribution:
        meet_link_book(s, w, number)
    same(s, w, link.launch_pointer)
    same(s, w, both(link.pool_left, link.stalled))
    if index != NONE:
        shifts(s, w, &link.queued_since, 1)
    while index != NONE and not w.differs:
        queued = &s.queued_pool[index]
        name(s, w, s.nodes_pool[index].packet)
        same(s, w, both(queued.vc, queued.kind))
        shifts(s, w, &queued.at, 1)
        index = s.nodes_pool[index].next
    same(s, w, NONE)
    counts(s, w, &link.flits)
    counts(s, w, &link.stall_vc)
    counts(s, w, &link.stall_credit)
    counts(s, w, &link.stall_serial)
    counts(s, w, &link.stall_arbitration)


cdef void meet_router(State* s, Walk* w, int32_t number) noexcept nogil:
    cdef Router* r = &s.router[number]
    same(s, w, r.unrouted)
    if is_stalled(s, r):   # at which ports is met as an array
        shifts(s, w, &r.looked, 1)


# --- the calendar ---------------------------------------------------------------------------------------------------

cdef void meet_entries(State* s, Walk* w, int32_t* entries, int64_t count) noexcept nogil:
    """Entries of one cycle, in whatever order: sorted only where the order is not the same, either."""
    cdef int64_t words = (count * sizeof(int32_t) + 7) >> 3
    cdef int64_t place = w.place
    cdef int64_t size = count * sizeof(int32_t)
    same(s, w, count)
    if w.mode == ADVANCE or w.differs or not has_room(s, w, words):
        return
    place = w.place
    w.place += words
    if w.mode == RECORD:
        memcpy(&w.picture.same[place], entries, size)
    elif memcmp(&w.picture.same[place], entries, size):
        sort_numbers(<int32_t*> &w.picture.same[place], count)
        sort_numbers(entries, count)
        w.differs = memcmp(&w.picture.same[place], entries, size) != 0


cdef void meet_calendar(State* s, Walk* w) noexcept nogil:
    cdef int64_t offset, place
    cdef int32_t kind
    cdef Slot* slot
    for offset in range(s.slot_mask + 1):
        place = (s.now + offset) & s.slot_mask
        slot = &s.slots[place]
        for kind in range(KINDS):
            if slot.count[kind] and not w.differs:
                same(s, w, both(offset, kind))
                meet_entries(s, w, slot.events[kind], slot.count[kind])


# --- all of it ------------------------------------------------------------------------------------------------------

cdef void walk(State* s, Walk* w) noexcept nogil:
    """The counters have to be settled. `s.now` is the cycle before the jump."""
    cdef int32_t i
    if s.orbit.met_room < s.message_room:
        s.orbit.met = <int64_t*> grown(s, s.orbit.met, s.message_room, sizeof(int64_t))
        s.orbit.order = <int32_t*> grown(s, s.orbit.order, s.message_room, sizeof(int32_t))
        if s.failed:
            return
        for i in range(s.orbit.met_room, s.message_room):
            s.orbit.met[i] = s.orbit.order[i] = 0
        s.orbit.met_room = s.message_room
    same(s, w, s.in_flight)
    for i in range(s.orbit.compared):
        same_bytes(s, w, s.orbit.blocks[i].begin, s.orbit.blocks[i].size)
    if s.attribution:
        meet_lane_books(s, w)
    number_messages(s, w)
    for i in range(s.orbit.who_count):
        if w.differs or s.failed:
            return
        meet_message(s, w, s.orbit.who[i].message)
    for i in range(s.routers):
        meet_router(s, w, i)
        if w.differs:
            return
    for i in range(s.links):
        meet_link(s, w, i)
        if w.differs:
            return
    for i in range(s.vcs):
        meet_vc(s, w, i)
        if w.differs or s.failed:
            return
    meet_calendar(s, w)
    counts(s, w, &s.router_visits)
    counts(s, w, &s.packets_delivered)
    counts(s, w, &s.flits_delivered)
    counts(s, w, &s.network_latency_sum)
    counts(s, w, &s.hops_sum)
    if s.attribution:
        meet_table(s, w)
