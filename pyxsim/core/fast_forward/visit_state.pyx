"""The state visitor: one traversal of the deciding state that records a snapshot, compares with one, or advances in
time.

Every field is visited once, by its kind:

visit_equal     must be equal: places, counts of flits, pointers, states
visit_deadline  a cycle relative to `now`; all past ones are equal
visit_time      a cycle relative to `now`, also in the past
visit_count     may differ, and grows by the same in every period
visit_clock     a cycle of attribution that moves with time, or stands still (visit_latency.pyx)

Fields that are not visited are constant, scratch, or follow from visited ones. Records of pools are visited where they
are used, so their indices do not matter: a packet is identified by its message and its number there, relative to the
packet that the message opens next.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.string cimport memcmp, memcpy

from pyxsim.core.fast_forward.detector_state cimport MessageEntry, PeriodDetector
from pyxsim.core.fast_forward.field_visitors cimport (
    ADVANCE,
    COMPARE,
    RECORD,
    last_growth,
    pack,
    visit_count,
    visit_count32,
    visit_deadline,
    visit_equal,
    visit_equal_bytes,
    visit_packet_identity,
    visit_time,
    word_capacity,
)
from pyxsim.core.fast_forward.visit_latency cimport (
    visit_lane_records,
    visit_link_record,
    visit_message_record,
    visit_stays,
    visit_vc_record,
    visit_wait_table,
)
from pyxsim.core.router.buffer cimport FRONT, first_packet_place, next_packet_place, packet_at
from pyxsim.core.router.random_draws cimport packet_key
from pyxsim.core.router.stall_counters cimport is_stalled
from pyxsim.core.state.bits cimport has_bit
from pyxsim.core.state.network_state cimport grow_array
from pyxsim.core.state.records cimport (
    ACTIVE,
    HOLDING,
    IDLE,
    KINDS,
    NONE,
    CalendarSlot,
    InputVc,
    Link,
    Message,
    OutputVc,
    Packet,
    QueuedFlit,
    Router,
)
from pyxsim.core.state.sorting cimport sort_numbers


# --- packets and messages -------------------------------------------------------------------------------------------

cdef bint interchangeable(State* s, int32_t one, int32_t other) noexcept nogil:
    """Are two messages the same except for their times and their numbers of packets?"""
    cdef Message* a = &s.pools.messages[one]
    cdef Message* b = &s.pools.messages[other]
    return (a.lane == b.lane and a.eject == b.eject and a.dst == b.dst and a.plane == b.plane and a.flits == b.flits
            and a.last_flits == b.last_flits and a.klass == b.klass)


cdef void number_message(State* s, Visitor* w, int32_t message) noexcept nogil:
    """Messages are numbered in the order of the visit."""
    cdef PeriodDetector* o = s.detector
    cdef int32_t order = o.message_count
    cdef int32_t like
    if o.visited_in[message] == o.visit_number:
        return
    if order == o.message_capacity:
        o.messages = <MessageEntry*> grow_array(s, o.messages, 2 * order + 64, sizeof(MessageEntry))
        if s.failed:
            return
        o.message_capacity = 2 * order + 64
    o.visited_in[message], o.order[message] = o.visit_number, order
    o.messages[order].message = message
    o.messages[order].unopened = s.pools.messages[message].packets - s.pools.messages[message].opened
    o.message_count += 1
    if w.mode == COMPARE:
        like = w.snapshot.messages[order].message if order < w.snapshot.message_count else NONE
        if like != message and (like == NONE or not w.allow_similar or not interchangeable(s, message, like)):
            w.differs = True


cdef void number_messages(State* s, Visitor* w) noexcept nogil:
    """Number the first two messages of each source queue, and those with packets inside."""
    cdef int32_t i, _turn, message, place
    s.detector.visit_number += 1
    s.detector.message_count = 0
    for i in range(s.links.injection * s.config.classes):
        message = s.lanes.source_head[i]
        for _turn in range(2):
            visit_equal(s, w, message != NONE)
            if message != NONE:
                number_message(s, w, message)
                message = s.pools.messages[message].next
        visit_equal(s, w, message != NONE)
    for i in range(s.vcs.count):
        place = first_packet_place(s, i)
        while place != NONE and not (w.differs or s.failed):
            number_message(s, w, s.pools.packets[packet_at(s, i, place)].message)
            place = next_packet_place(s, i, place)


cdef void visit_message(State* s, Visitor* w, int32_t index) noexcept nogil:
    """A message with packets inside, or in its source queue."""
    cdef Message* m = &s.pools.messages[index]
    cdef int64_t opened
    visit_equal(s, w, pack(m.opened - m.delivered, m.first < 0))
    if w.differs:
        return
    if s.config.attribution:
        visit_message_record(s, w, index)
    visit_count32(s, w, &m.opened)
    if w.mode == COMPARE and not w.differs:
        opened = last_growth(w)
        # its last packet may have another length: it is not part of a period, nor the next to be opened in one
        if opened > 0:
            w.max_periods = min(w.max_periods,
                                (m.packets - 2 - m.opened) // opened if m.packets - 2 >= m.opened else -1)
        elif m.opened > m.delivered:
            w.stuck = True
    visit_count32(s, w, &m.delivered)
    visit_count(s, w, &m.hops)


cdef void visit_packet(State* s, Visitor* w, int32_t packet) noexcept nogil:
    cdef Packet* p = &s.pools.packets[packet]
    visit_equal(s, w, pack(p.flits, p.plane))
    visit_equal(s, w, pack(p.via, p.last))
    visit_equal(s, w, pack(p.hops, p.launched < 0))
    if p.launched >= 0:
        visit_time(s, w, &p.launched, 1)
    if s.config.shared_classes:
        visit_equal(s, w, p.granted_class)
    if s.config.attribution:
        visit_stays(s, w, packet)
    visit_count32(s, w, &p.number)
    if w.mode == ADVANCE:
        p.key = 0 if not s.routes.uses_draws else packet_key(s.config.seed, s.pools.messages[p.message].serial,
                                                             p.number)


# --- hardware -------------------------------------------------------------------------------------------------------

cdef void visit_vc(State* s, Visitor* w, int32_t vc) noexcept nogil:
    cdef InputVc* v = &s.vcs.input[vc]
    cdef OutputVc* out = &s.vcs.output[vc]
    cdef Link* link = &s.links.link[v.link]
    cdef int32_t place = first_packet_place(s, vc)
    visit_equal(s, w, pack(out.credit, v.occupancy))
    visit_equal(s, w, pack(s.vcs.ranges[vc].next, s.vcs.ranges[vc].requester))
    if s.config.attribution:
        visit_vc_record(s, w, vc)
    if out.src == NONE and link.dst != NONE:   # a lane
        visit_equal(s, w, out.send_left)
        if has_bit(&s.lanes.opened[link.word], vc - link.base):
            visit_packet_identity(s, w, out.send_packet)
    if place == NONE:
        visit_equal(s, w, NONE)
        return
    visit_equal(s, w, pack(v.left, v.state | v.multi << 8))
    if v.state != IDLE:
        visit_equal(s, w, pack(v.out_link, v.out_vc))
        visit_equal(s, w, v.range_row)
        if s.path.batch_path:
            visit_time(s, w, &v.ready, s.config.ticks)
        else:
            visit_deadline(s, w, &v.ready, s.config.ticks)
            visit_time(s, w, &s.vcs.front_time[vc], s.config.ticks)
    while place != NONE and not w.differs:
        visit_packet_identity(s, w, packet_at(s, vc, place))
        # A packet is listed in several VCs; it is visited where its head is.
        if not (place == FRONT and v.router != NONE and v.state & (HOLDING | ACTIVE)):
            visit_packet(s, w, packet_at(s, vc, place))
        place = next_packet_place(s, vc, place)
    visit_equal(s, w, NONE)


cdef void visit_link(State* s, Visitor* w, int32_t number) noexcept nogil:
    cdef Link* link = &s.links.link[number]
    cdef int32_t index = link.queue_head
    cdef QueuedFlit* queued
    visit_equal(s, w, link.free == INT64_MAX)
    if link.free != INT64_MAX:   # a link that is down stays so
        visit_deadline(s, w, &link.free, link.den)
    if s.config.attribution:
        visit_link_record(s, w, number)
    visit_equal(s, w, link.launch_pointer)
    visit_equal(s, w, pack(link.pool_left, link.stalled))
    if s.config.queue_limit:
        visit_deadline(s, w, &s.links.left_cycle[number], 1)
        visit_deadline(s, w, &s.links.left_tick[number], s.config.ticks)
    if index != NONE:
        visit_time(s, w, &link.queued_since, 1)
    while index != NONE and not w.differs:
        queued = &s.pools.queued[index]
        visit_packet_identity(s, w, s.pools.nodes[index].packet)
        visit_equal(s, w, pack(queued.vc, queued.kind))
        visit_time(s, w, &queued.at, 1)
        if s.config.queue_limit:
            visit_time(s, w, &queued.tick, s.config.ticks)
        index = s.pools.nodes[index].next
    visit_equal(s, w, NONE)
    visit_count(s, w, &link.flits)
    visit_count(s, w, &link.stall_vc)
    visit_count(s, w, &link.stall_credit)
    visit_count(s, w, &link.stall_serial)
    visit_count(s, w, &link.stall_arbitration)


cdef void visit_router_record(State* s, Visitor* w, int32_t number) noexcept nogil:
    cdef Router* r = &s.routers.router[number]
    visit_equal(s, w, r.unrouted)
    if is_stalled(s, r):   # the ports are compared as an array
        visit_time(s, w, &r.looked, 1)


# --- the calendar ---------------------------------------------------------------------------------------------------

cdef void visit_calendar_entries(State* s, Visitor* w, int32_t* entries, int64_t count) noexcept nogil:
    """Visit the entries of one cycle, in any order; sorted only if the order differs."""
    cdef int64_t words = (count * sizeof(int32_t) + 7) >> 3
    cdef int64_t place = w.position
    cdef int64_t size = count * sizeof(int32_t)
    visit_equal(s, w, count)
    if w.mode == ADVANCE or w.differs or not word_capacity(s, w, words):
        return
    place = w.position
    w.position += words
    if w.mode == RECORD:
        memcpy(&w.snapshot.same[place], entries, size)
    elif memcmp(&w.snapshot.same[place], entries, size):
        sort_numbers(<int32_t*> &w.snapshot.same[place], count)
        sort_numbers(entries, count)
        w.differs = memcmp(&w.snapshot.same[place], entries, size) != 0


cdef void visit_calendar(State* s, Visitor* w) noexcept nogil:
    cdef int64_t offset, place
    cdef int32_t kind
    cdef CalendarSlot* slot
    for offset in range(s.calendar.slot_mask + 1):
        place = (s.now + offset) & s.calendar.slot_mask
        slot = &s.calendar.slots[place]
        for kind in range(KINDS):
            if slot.count[kind] and not w.differs:
                visit_equal(s, w, pack(offset, kind))
                visit_calendar_entries(s, w, slot.events[kind], slot.count[kind])


# --- the whole state ------------------------------------------------------------------------------------------------

cdef void visit_state(State* s, Visitor* w) noexcept nogil:
    """Visit everything. The counters must be settled. `s.now` is the cycle before the jump."""
    cdef int32_t i
    if s.detector.visited_capacity < s.pools.message_capacity:
        s.detector.visited_in = <int64_t*> grow_array(
            s, s.detector.visited_in, s.pools.message_capacity, sizeof(int64_t))
        s.detector.order = <int32_t*> grow_array(s, s.detector.order, s.pools.message_capacity, sizeof(int32_t))
        if s.failed:
            return
        for i in range(s.detector.visited_capacity, s.pools.message_capacity):
            s.detector.visited_in[i] = s.detector.order[i] = 0
        s.detector.visited_capacity = s.pools.message_capacity
    visit_equal(s, w, s.in_flight)
    for i in range(s.detector.compared):
        visit_equal_bytes(s, w, s.detector.blocks[i].begin, s.detector.blocks[i].size)
    if s.config.attribution:
        visit_lane_records(s, w)
    number_messages(s, w)
    for i in range(s.detector.message_count):
        if w.differs or s.failed:
            return
        visit_message(s, w, s.detector.messages[i].message)
    for i in range(s.routers.count):
        visit_router_record(s, w, i)
        if w.differs:
            return
    for i in range(s.links.count):
        visit_link(s, w, i)
        if w.differs:
            return
    for i in range(s.vcs.count):
        visit_vc(s, w, i)
        if w.differs or s.failed:
            return
    visit_calendar(s, w)
    visit_count(s, w, &s.stats.router_visits)
    visit_count(s, w, &s.stats.packets_delivered)
    visit_count(s, w, &s.stats.flits_delivered)
    visit_count(s, w, &s.stats.network_latency_sum)
    visit_count(s, w, &s.stats.hops_sum)
    if s.config.attribution:
        visit_wait_table(s, w)
