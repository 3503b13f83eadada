"""Periods that were proved, remembered as loops: pictures of the state on the way, and what is counted between them.

A state that is that of a picture will go through those after it, round and round, until a message comes or ends. That
need not be the stretch of a run in which the loop was found, nor have the same messages: only ones that are like them,
each in the place of one. So a later step of a collective that comes upon a known loop has its period proved already,
and a jump may end at any picture: the records are put back as they were copied there, times and messages exchanged.

Places in a loop are cycles from its beginning. What is counted up to a place in its `rounds`-th round is that of the
whole rounds, and that up to the place in the first. The latency of a packet is the time from the start of its message,
so what is remembered are the sums of places at which packets were delivered.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from pyxsim.core.fast_forward.snapshot_copy cimport copy_words, put_back
from pyxsim.core.fast_forward.detector_state cimport COUNTS, LOOPS, PICTURES, Member, Orbit, Plan, Sums
from pyxsim.core.fast_forward.visit_state cimport walk
from pyxsim.core.state.network_state cimport Link, Message, Packet, grown
from pyxsim.core.router.stall_counters cimport settle
from pyxsim.core.fast_forward.counter_log cimport row_words
from pyxsim.core.fast_forward.field_visitors cimport ADVANCE, Walk


cdef enum:
    MOST_KEPT = 1 << 23      # words of all loops: 64 MiB
    ON_THE_WAY = 12          # pictures of a loop, about


cdef int32_t loops_kept(State* s) noexcept nogil:
    """How many loops fit into the memory that is for them. None with attribution: its books go on without an end."""
    cdef int64_t words = (s.orbit.size + copy_words(s)) * ON_THE_WAY
    return <int32_t> min(MOST_KEPT // words, LOOPS) if not s.attribution else 0


# --- what is counted ------------------------------------------------------------------------------------------------

cdef void note_counts(State* s, Picture* p) noexcept nogil:
    """Whose messages the last walk met, and what was counted so far. The counters are settled."""
    cdef Orbit* o = s.orbit
    cdef Message* m
    cdef int64_t* row
    cdef int32_t i
    if o.who_count > p.who_room:
        p.who = <Member*> grown(s, p.who, o.who_room, sizeof(Member))
        if s.failed:
            return
        p.who_room = o.who_room
    if p.links == NULL:
        p.links = <int64_t*> grown(s, p.links, COUNTS * <int64_t> s.links + 1, sizeof(int64_t))
        if s.failed:
            return
    p.who_count = o.who_count
    for i in range(o.who_count):
        p.who[i] = o.who[i]
        m = &s.messages[p.who[i].message]
        p.who[i].opened, p.who[i].delivered, p.who[i].hops = m.opened, m.delivered, m.hops
    for i in range(s.links):
        row = &p.links[i * COUNTS]
        row[0], row[1], row[2] = s.link[i].flits, s.link[i].stall_credit, s.link[i].stall_vc
        row[3], row[4] = s.link[i].stall_arbitration, s.link[i].stall_serial
    p.cycle = s.now
    p.sums.visits, p.sums.packets, p.sums.flits = s.router_visits, s.packets_delivered, s.flits_delivered
    p.sums.latency, p.sums.network_latency, p.sums.hops = s.latency_sum, s.network_latency_sum, s.hops_sum


cdef int64_t delivered_at(State* s, Picture* p) noexcept nogil:
    """The cycles in which packets of its messages were delivered, summed, but for a constant."""
    cdef int64_t found = p.sums.latency
    cdef int32_t i
    for i in range(p.who_count):
        found += p.who[i].delivered * s.messages[p.who[i].message].at
    return found


cdef inline int64_t over(int64_t rounds, int64_t begin, int64_t end, int64_t start, int64_t goal) noexcept nogil:
    """What a counter becomes more from one place to another, so many rounds later."""
    return rounds * (end - begin) + goal - start


# --- loops ----------------------------------------------------------------------------------------------------------

cdef Loop* keep_loop(State* s, int32_t base, uint64_t* bits) noexcept nogil:
    """The state is that of a picture again, and the pictures since then are taken over into a loop."""
    cdef Orbit* o = s.orbit
    cdef Loop* loop = &o.loop[0]
    cdef Picture* p
    cdef Picture other
    cdef int64_t words, known
    cdef int32_t i
    for i in range(1, min(loops_kept(s), LOOPS)):
        if o.loop[i].used < loop.used:
            loop = &o.loop[i]
    loop.begin, loop.period = o.picture[base].cycle, s.now - o.picture[base].cycle
    loop.count = 0
    for i in range(base, o.count):
        other = loop.picture[loop.count]
        loop.picture[loop.count] = o.picture[i]
        o.picture[i] = other
        loop.count += 1
    o.count = 0
    note_counts(s, &loop.end)
    if s.failed:
        loop.count = 0
        return loop
    known = delivered_at(s, &loop.picture[0])
    for i in range(loop.count):
        p = &loop.picture[i]
        p.when = delivered_at(s, p) - known - loop.begin * (p.sums.packets - loop.picture[0].sums.packets)
    loop.packets = loop.end.sums.packets - loop.picture[0].sums.packets
    loop.end.when = delivered_at(s, &loop.end) - known - loop.begin * loop.packets
    words = loop.period * row_words(s) if bits != NULL else 0
    if words > loop.bits_room:
        loop.bits = <uint64_t*> grown(s, loop.bits, words, sizeof(uint64_t))
        if s.failed:
            loop.count = 0
            return loop
        loop.bits_room = words
    loop.taped = bits != NULL
    memcpy(loop.bits, bits, words * sizeof(uint64_t))
    return loop


cdef void number_members(State* s, Loop* loop) noexcept nogil:
    """The messages of its pictures, by their numbers in the first."""
    cdef int32_t i
    for i in range(loop.picture[0].who_count):
        s.orbit.order[loop.picture[0].who[i].message] = i


cdef bint plan_round(State* s, Loop* loop, int32_t start, int64_t limit) noexcept nogil:
    """The state is that of a picture: how far may it go, at most to cycle `limit`? The last walk met its messages."""
    cdef Orbit* o = s.orbit
    cdef Plan* plan = &o.plan
    cdef Picture* first = &loop.picture[0]
    cdef Picture* begin = &loop.picture[start]
    cdef Picture* p
    cdef int64_t place = begin.cycle - loop.begin
    cdef int64_t rounds, opens, left, end
    cdef int32_t goal, i, member
    # Packets that each message may open from the beginning of the loop on: its last two stay outside.
    cdef int64_t* most = <int64_t*> malloc((first.who_count + 1) * sizeof(int64_t))
    plan.end = 0
    if most == NULL:
        s.failed = 1
        return False
    number_members(s, loop)
    for i in range(begin.who_count):
        member = o.order[begin.who[i].message]
        most[member] = o.who[i].rest - 2 + begin.who[i].opened - first.who[member].opened
    for goal in range(loop.count):
        p = &loop.picture[goal]
        end = limit - s.now + place - (p.cycle - loop.begin)
        rounds = end // loop.period if end >= 0 else -1
        for i in range(p.who_count):
            member = o.order[p.who[i].message]
            opens = loop.end.who[member].opened - first.who[member].opened
            left = most[member] - (p.who[i].opened - first.who[member].opened)
            if opens:
                rounds = min(rounds, left // opens if left >= 0 else -1)
        end = s.now + rounds * loop.period + (p.cycle - loop.begin) - place
        if rounds >= 0 and end > max(s.now, plan.end):
            plan.end, plan.rounds, plan.goal = end, rounds, goal
    free(most)
    plan.loop, plan.start, plan.place, plan.period = loop, start, place, loop.period
    plan.bits, plan.summed = loop.bits if loop.taped else NULL, False
    o.used += 1
    loop.used = o.used
    return plan.end > 0


cdef void go_round(State* s) noexcept nogil:
    """Carry out the plan: time passes, and everything is as it is at the goal."""
    cdef Orbit* o = s.orbit
    cdef Plan* plan = &o.plan
    cdef Loop* loop = plan.loop
    cdef Picture* goal = &loop.picture[plan.goal]
    cdef Walk w
    settle(s)
    count_links(s, plan)
    count_sums(s, plan)
    s.latency_sum += places_of(plan)
    if not give_packets(s, plan):
        return
    s.now = plan.end
    put_back(s, goal)
    if s.failed:
        return
    rename(s, goal)
    w.mode, w.picture, w.differs = ADVANCE, NULL, False
    w.place = w.counted = w.periods = 0
    w.deltas = NULL
    w.cycles = s.now - goal.cycle
    walk(s, &w)
    o.hash = goal.hash


cdef void count_links(State* s, Plan* plan) noexcept nogil:
    cdef Loop* loop = plan.loop
    cdef int64_t* begin = loop.picture[0].links
    cdef int64_t* end = loop.end.links
    cdef int64_t* start = loop.picture[plan.start].links
    cdef int64_t* goal = loop.picture[plan.goal].links
    cdef int64_t n = plan.rounds
    cdef int64_t k
    cdef int32_t i
    cdef Link* link
    for i in range(s.links):
        link = &s.link[i]
        k = i * COUNTS
        link.flits += over(n, begin[k], end[k], start[k], goal[k])
        link.stall_credit += over(n, begin[k + 1], end[k + 1], start[k + 1], goal[k + 1])
        link.stall_vc += over(n, begin[k + 2], end[k + 2], start[k + 2], goal[k + 2])
        link.stall_arbitration += over(n, begin[k + 3], end[k + 3], start[k + 3], goal[k + 3])
        link.stall_serial += over(n, begin[k + 4], end[k + 4], start[k + 4], goal[k + 4])


cdef void count_sums(State* s, Plan* plan) noexcept nogil:
    cdef Loop* loop = plan.loop
    cdef Sums* a = &loop.picture[0].sums
    cdef Sums* b = &loop.end.sums
    cdef Sums* c = &loop.picture[plan.start].sums
    cdef Sums* d = &loop.picture[plan.goal].sums
    cdef int64_t n = plan.rounds
    s.router_visits += over(n, a.visits, b.visits, c.visits, d.visits)
    s.packets_delivered += over(n, a.packets, b.packets, c.packets, d.packets)
    s.flits_delivered += over(n, a.flits, b.flits, c.flits, d.flits)
    s.network_latency_sum += over(n, a.network_latency, b.network_latency, c.network_latency, d.network_latency)
    s.hops_sum += over(n, a.hops, b.hops, c.hops, d.hops)


cdef int64_t places_of(Plan* plan) noexcept nogil:
    """The cycles from now on after which packets are delivered, summed."""
    cdef Loop* loop = plan.loop
    cdef Picture* start = &loop.picture[plan.start]
    cdef Picture* goal = &loop.picture[plan.goal]
    cdef int64_t n = plan.rounds
    cdef int64_t before = start.sums.packets - loop.picture[0].sums.packets
    cdef int64_t last = goal.sums.packets - loop.picture[0].sums.packets
    cdef int64_t places = n * loop.end.when + loop.period * loop.packets * (n * (n - 1) // 2)
    places += goal.when + n * loop.period * last
    return places - start.when - plan.place * (n * loop.packets + last - before)


cdef bint give_packets(State* s, Plan* plan) noexcept nogil:
    """The messages at hand have opened and delivered what those of the loop have; these tell how many they are behind.

    `heir` of a member is the message in its place, and `ahead` by how much its packets have higher numbers.
    """
    cdef Orbit* o = s.orbit
    cdef Loop* loop = plan.loop
    cdef Picture* start = &loop.picture[plan.start]
    cdef Picture* goal = &loop.picture[plan.goal]
    cdef Member* first = loop.picture[0].who
    cdef Member* last = loop.end.who
    cdef Member* was
    cdef Member* will
    cdef Message* m
    cdef int64_t n = plan.rounds
    cdef int64_t delivered
    cdef int32_t i, member
    cdef int32_t* place = <int32_t*> malloc((start.who_count + 1) * sizeof(int32_t))
    if place == NULL:
        s.failed = 1
        return False
    number_members(s, loop)
    for i in range(start.who_count):
        place[o.order[start.who[i].message]] = i
    for i in range(goal.who_count):
        will = &goal.who[i]
        member = o.order[will.message]
        was = &start.who[place[member]]
        m = &s.messages[o.who[place[member]].message]
        delivered = over(n, first[member].delivered, last[member].delivered, was.delivered, will.delivered)
        s.latency_sum += delivered * (s.now - m.at)
        m.delivered += <int32_t> delivered
        m.opened += <int32_t> over(n, first[member].opened, last[member].opened, was.opened, will.opened)
        m.hops += over(n, first[member].hops, last[member].hops, was.hops, will.hops)
        will.heir = o.who[place[member]].message
        will.ahead = m.opened - will.opened
        o.order[will.message] = i    # from now on: in the goal
    free(place)
    return True


cdef void rename(State* s, Picture* goal) noexcept nogil:
    """Packets become those of the messages at hand; unused records, too, which does no harm."""
    cdef Orbit* o = s.orbit
    cdef Packet* p
    cdef Member* was
    cdef int32_t i, order
    for i in range(s.packet_room):
        p = &s.packets[i]
        order = o.order[p.message] if 0 <= p.message < o.met_room else goal.who_count
        if 0 <= order < goal.who_count and goal.who[order].message == p.message:
            was = &goal.who[order]
            p.message = was.heir
            p.number += was.ahead


cdef void free_picture(Picture* p) noexcept:
    free(p.same)
    free(p.counts)
    free(p.who)
    free(p.links)
    free(p.copy)


cdef void free_loops(State* s) noexcept:
    cdef int32_t i, k
    for i in range(LOOPS):
        for k in range(PICTURES):
            free_picture(&s.orbit.loop[i].picture[k])
        free_picture(&s.orbit.loop[i].end)
        free(s.orbit.loop[i].bits)
