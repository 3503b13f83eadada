"""Known periods: proved periods, with snapshots on the way and what is counted between them.

A state that equals one of these snapshots passes through the later ones, again and again, until a message comes or
ends. That may be a later stretch of the run with other messages, if they are interchangeable one by one. So a later
step of a collective that reaches a known period needs no new proof, and a jump may end at any snapshot: the records are
restored from their copy, with today's times and messages.

Offsets are cycles from the beginning of the period. Counts up to an offset in round `rounds` are those of the whole
rounds plus those up to the offset in the first one. The latency of a packet counts from the start of its message, so
sums of the offsets of deliveries are kept.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc

from pyxsim.core.fast_forward.counter_log cimport words_per_cycle
from pyxsim.core.fast_forward.detector_state cimport (
    COUNTS,
    MOST_PERIODS,
    MOST_SNAPSHOTS,
    JumpPlan,
    MessageEntry,
    NetworkTotals,
    PeriodDetector,
)
from pyxsim.core.fast_forward.field_visitors cimport ADVANCE, Visitor
from pyxsim.core.fast_forward.snapshot_copy cimport copy_cost, restore_records
from pyxsim.core.fast_forward.visit_state cimport visit_state
from pyxsim.core.router.stall_counters cimport settle_counters
from pyxsim.core.state.blocks cimport copy_block
from pyxsim.core.state.network_state cimport grow_array
from pyxsim.core.state.records cimport Link, Message, Packet


cdef enum:
    MOST_KEPT = 1 << 23      # words of all known periods: 64 MiB
    ON_THE_WAY = 12          # snapshots of a known period, about


cdef int32_t periods_kept(State* s) noexcept nogil:
    """The number of known periods that fit into their memory. None with attribution, whose records grow without bound.
    """
    cdef int64_t words = (s.detector.snapshot_words + copy_cost(s)) * ON_THE_WAY
    return <int32_t> min(MOST_KEPT // words, MOST_PERIODS) if not s.config.attribution else 0


# --- counters -------------------------------------------------------------------------------------------------------

cdef void record_counts(State* s, StateSnapshot* p) noexcept nogil:
    """Record the messages of the last visit and all counters, which must be settled."""
    cdef PeriodDetector* o = s.detector
    cdef Message* m
    cdef int64_t* row
    cdef int32_t i
    if o.message_count > p.message_capacity:
        p.messages = <MessageEntry*> grow_array(s, p.messages, o.message_capacity, sizeof(MessageEntry))
        if s.failed:
            return
        p.message_capacity = o.message_capacity
    if p.links == NULL:
        p.links = <int64_t*> grow_array(s, p.links, COUNTS * <int64_t> s.links.count + 1, sizeof(int64_t))
        if s.failed:
            return
    p.message_count = o.message_count
    for i in range(o.message_count):
        p.messages[i] = o.messages[i]
        m = &s.pools.messages[p.messages[i].message]
        p.messages[i].opened, p.messages[i].delivered, p.messages[i].hops = m.opened, m.delivered, m.hops
    for i in range(s.links.count):
        row = &p.links[i * COUNTS]
        row[0], row[1], row[2] = s.links.link[i].flits, s.links.link[i].stall_credit, s.links.link[i].stall_vc
        row[3], row[4] = s.links.link[i].stall_arbitration, s.links.link[i].stall_serial
    p.cycle = s.now
    p.sums.visits = s.stats.router_visits
    p.sums.packets = s.stats.packets_delivered
    p.sums.flits = s.stats.flits_delivered
    p.sums.latency = s.stats.latency_sum
    p.sums.network_latency = s.stats.network_latency_sum
    p.sums.hops = s.stats.hops_sum


cdef int64_t delivery_cycle_sum(State* s, StateSnapshot* p) noexcept nogil:
    """The sum of the cycles in which packets of these messages were delivered, up to a constant."""
    cdef int64_t total = p.sums.latency
    cdef int32_t i
    for i in range(p.message_count):
        total += p.messages[i].delivered * s.pools.messages[p.messages[i].message].at
    return total


cdef inline int64_t counted_over(
    int64_t rounds, int64_t begin, int64_t end, int64_t start, int64_t goal
) noexcept nogil:
    """Growth of a counter from one offset to another, `rounds` rounds later."""
    return rounds * (end - begin) + goal - start


# --- known periods --------------------------------------------------------------------------------------------------

cdef KnownPeriod* remember_period(State* s, int32_t base, uint64_t* bits) noexcept nogil:
    """The state equals a snapshot again: keep the snapshots since then as a known period."""
    cdef PeriodDetector* o = s.detector
    cdef KnownPeriod* loop = &o.known[0]
    cdef StateSnapshot* p
    cdef StateSnapshot other
    cdef int64_t words, base_sum
    cdef int32_t i
    for i in range(1, min(periods_kept(s), MOST_PERIODS)):
        if o.known[i].used < loop.used:
            loop = &o.known[i]
    loop.begin, loop.period = o.snapshot[base].cycle, s.now - o.snapshot[base].cycle
    loop.count = 0
    for i in range(base, o.snapshot_count):
        other = loop.snapshot[loop.count]
        loop.snapshot[loop.count] = o.snapshot[i]
        o.snapshot[i] = other
        loop.count += 1
    o.snapshot_count = 0
    record_counts(s, &loop.end)
    if s.failed:
        loop.count = 0
        return loop
    base_sum = delivery_cycle_sum(s, &loop.snapshot[0])
    for i in range(loop.count):
        p = &loop.snapshot[i]
        p.delivery_offsets = (
            delivery_cycle_sum(s, p) - base_sum - loop.begin * (p.sums.packets - loop.snapshot[0].sums.packets)
        )
    loop.packets = loop.end.sums.packets - loop.snapshot[0].sums.packets
    loop.end.delivery_offsets = delivery_cycle_sum(s, &loop.end) - base_sum - loop.begin * loop.packets
    words = loop.period * words_per_cycle(s) if bits != NULL else 0
    if words > loop.bits_capacity:
        loop.bits = <uint64_t*> grow_array(s, loop.bits, words, sizeof(uint64_t))
        if s.failed:
            loop.count = 0
            return loop
        loop.bits_capacity = words
    loop.logged = bits != NULL
    copy_block(loop.bits, bits, words * sizeof(uint64_t))
    return loop


cdef void number_messages(State* s, KnownPeriod* loop) noexcept nogil:
    """Number the messages by their position in the first snapshot."""
    cdef int32_t i
    for i in range(loop.snapshot[0].message_count):
        s.detector.order[loop.snapshot[0].messages[i].message] = i


cdef bint plan_known_period_jump(State* s, KnownPeriod* loop, int32_t start, int64_t limit) noexcept nogil:
    """The state equals a snapshot: plan the longest jump, at most to cycle `limit`. Uses the messages of the last
    visit."""
    cdef PeriodDetector* o = s.detector
    cdef JumpPlan* plan = &o.plan
    cdef StateSnapshot* first = &loop.snapshot[0]
    cdef StateSnapshot* begin = &loop.snapshot[start]
    cdef StateSnapshot* p
    cdef int64_t place = begin.cycle - loop.begin
    cdef int64_t rounds, opens, left, end
    cdef int32_t goal, i, member
    # Packets that each message may open from the beginning of the period on; its last two are excluded.
    cdef int64_t* most = <int64_t*> malloc((first.message_count + 1) * sizeof(int64_t))
    plan.end = 0
    if most == NULL:
        s.failed = 1
        return False
    number_messages(s, loop)
    for i in range(begin.message_count):
        member = o.order[begin.messages[i].message]
        most[member] = o.messages[i].unopened - 2 + begin.messages[i].opened - first.messages[member].opened
    for goal in range(loop.count):
        p = &loop.snapshot[goal]
        end = limit - s.now + place - (p.cycle - loop.begin)
        rounds = end // loop.period if end >= 0 else -1
        for i in range(p.message_count):
            member = o.order[p.messages[i].message]
            opens = loop.end.messages[member].opened - first.messages[member].opened
            left = most[member] - (p.messages[i].opened - first.messages[member].opened)
            if opens:
                rounds = min(rounds, left // opens if left >= 0 else -1)
        end = s.now + rounds * loop.period + (p.cycle - loop.begin) - place
        if rounds >= 0 and end > max(s.now, plan.end):
            plan.end, plan.rounds, plan.goal = end, rounds, goal
    free(most)
    plan.loop, plan.start, plan.offset, plan.period = loop, start, place, loop.period
    plan.bits, plan.summed = loop.bits if loop.logged else NULL, False
    o.use_number += 1
    loop.used = o.use_number
    return plan.end > 0


cdef void jump_along_known_period(State* s) noexcept nogil:
    """Perform the planned jump: advance time, restore the goal snapshot, exchange messages."""
    cdef PeriodDetector* o = s.detector
    cdef JumpPlan* plan = &o.plan
    cdef KnownPeriod* loop = plan.loop
    cdef StateSnapshot* goal = &loop.snapshot[plan.goal]
    cdef Visitor w
    settle_counters(s)
    add_link_counts(s, plan)
    add_totals(s, plan)
    s.stats.latency_sum += delivery_offset_sum(plan)
    if not transfer_packets(s, plan):
        return
    s.now = plan.end
    restore_records(s, goal)
    if s.failed:
        return
    rename_packets(s, goal)
    w.mode, w.snapshot, w.differs = ADVANCE, NULL, False
    w.position = w.counted = w.periods = 0
    w.deltas = NULL
    w.cycles = s.now - goal.cycle
    visit_state(s, &w)
    o.hash = goal.hash


cdef void add_link_counts(State* s, JumpPlan* plan) noexcept nogil:
    cdef KnownPeriod* loop = plan.loop
    cdef int64_t* begin = loop.snapshot[0].links
    cdef int64_t* end = loop.end.links
    cdef int64_t* start = loop.snapshot[plan.start].links
    cdef int64_t* goal = loop.snapshot[plan.goal].links
    cdef int64_t n = plan.rounds
    cdef int64_t k
    cdef int32_t i
    cdef Link* link
    for i in range(s.links.count):
        link = &s.links.link[i]
        k = i * COUNTS
        link.flits += counted_over(n, begin[k], end[k], start[k], goal[k])
        link.stall_credit += counted_over(n, begin[k + 1], end[k + 1], start[k + 1], goal[k + 1])
        link.stall_vc += counted_over(n, begin[k + 2], end[k + 2], start[k + 2], goal[k + 2])
        link.stall_arbitration += counted_over(n, begin[k + 3], end[k + 3], start[k + 3], goal[k + 3])
        link.stall_serial += counted_over(n, begin[k + 4], end[k + 4], start[k + 4], goal[k + 4])


cdef void add_totals(State* s, JumpPlan* plan) noexcept nogil:
    cdef KnownPeriod* loop = plan.loop
    cdef NetworkTotals* a = &loop.snapshot[0].sums
    cdef NetworkTotals* b = &loop.end.sums
    cdef NetworkTotals* c = &loop.snapshot[plan.start].sums
    cdef NetworkTotals* d = &loop.snapshot[plan.goal].sums
    cdef int64_t n = plan.rounds
    s.stats.router_visits += counted_over(n, a.visits, b.visits, c.visits, d.visits)
    s.stats.packets_delivered += counted_over(n, a.packets, b.packets, c.packets, d.packets)
    s.stats.flits_delivered += counted_over(n, a.flits, b.flits, c.flits, d.flits)
    s.stats.network_latency_sum += counted_over(n, a.network_latency, b.network_latency, c.network_latency,
                                                d.network_latency)
    s.stats.hops_sum += counted_over(n, a.hops, b.hops, c.hops, d.hops)


cdef int64_t delivery_offset_sum(JumpPlan* plan) noexcept nogil:
    """The sum of the cycles from now on after which packets are delivered."""
    cdef KnownPeriod* loop = plan.loop
    cdef StateSnapshot* start = &loop.snapshot[plan.start]
    cdef StateSnapshot* goal = &loop.snapshot[plan.goal]
    cdef int64_t n = plan.rounds
    cdef int64_t before = start.sums.packets - loop.snapshot[0].sums.packets
    cdef int64_t last = goal.sums.packets - loop.snapshot[0].sums.packets
    cdef int64_t places = n * loop.end.delivery_offsets + loop.period * loop.packets * (n * (n - 1) // 2)
    places += goal.delivery_offsets + n * loop.period * last
    return places - start.delivery_offsets - plan.offset * (n * loop.packets + last - before)


cdef bint transfer_packets(State* s, JumpPlan* plan) noexcept nogil:
    """Advance the messages by what those of the period open and deliver.

    `successor` of an entry is the message in its place, `number_offset` what to add to the numbers of its packets.
    """
    cdef PeriodDetector* o = s.detector
    cdef KnownPeriod* loop = plan.loop
    cdef StateSnapshot* start = &loop.snapshot[plan.start]
    cdef StateSnapshot* goal = &loop.snapshot[plan.goal]
    cdef MessageEntry* first = loop.snapshot[0].messages
    cdef MessageEntry* last = loop.end.messages
    cdef MessageEntry* was
    cdef MessageEntry* will
    cdef Message* m
    cdef int64_t n = plan.rounds
    cdef int64_t delivered
    cdef int32_t i, member
    cdef int32_t* place = <int32_t*> malloc((start.message_count + 1) * sizeof(int32_t))
    if place == NULL:
        s.failed = 1
        return False
    number_messages(s, loop)
    for i in range(start.message_count):
        place[o.order[start.messages[i].message]] = i
    for i in range(goal.message_count):
        will = &goal.messages[i]
        member = o.order[will.message]
        was = &start.messages[place[member]]
        m = &s.pools.messages[o.messages[place[member]].message]
        delivered = counted_over(n, first[member].delivered, last[member].delivered, was.delivered, will.delivered)
        s.stats.latency_sum += delivered * (s.now - m.at)
        m.delivered += <int32_t> delivered
        m.opened += <int32_t> counted_over(n, first[member].opened, last[member].opened, was.opened, will.opened)
        m.hops += counted_over(n, first[member].hops, last[member].hops, was.hops, will.hops)
        will.successor = o.messages[place[member]].message
        will.number_offset = m.opened - will.opened
        o.order[will.message] = i    # from now on: position in the goal snapshot
    free(place)
    return True


cdef void rename_packets(State* s, StateSnapshot* goal) noexcept nogil:
    """Assign packets to today's messages; unused records, too, which is harmless."""
    cdef PeriodDetector* o = s.detector
    cdef Packet* p
    cdef MessageEntry* was
    cdef int32_t i, order
    for i in range(s.pools.packet_capacity):
        p = &s.pools.packets[i]
        order = o.order[p.message] if 0 <= p.message < o.visited_capacity else goal.message_count
        if 0 <= order < goal.message_count and goal.messages[order].message == p.message:
            was = &goal.messages[order]
            p.message = was.successor
            p.number += was.number_offset


cdef void free_snapshot(StateSnapshot* p) noexcept:
    free(p.same)
    free(p.counts)
    free(p.messages)
    free(p.links)
    free(p.copy)


cdef void free_known_periods(State* s) noexcept:
    cdef int32_t i, k
    for i in range(MOST_PERIODS):
        for k in range(MOST_SNAPSHOTS):
            free_snapshot(&s.detector.known[i].snapshot[k])
        free_snapshot(&s.detector.known[i].end)
        free(s.detector.known[i].bits)
