"""The cycle loop: arrivals, sources, interfaces, routers (docs/router.md, "One cycle")."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.bits cimport lowest, set_bit
from pyxsim.core.calendar cimport next_scheduled
from pyxsim.core.interface cimport consume, join_sources, visit_lane
from pyxsim.core.link cimport launch_queued, take_credit
from pyxsim.core.repeat cimport observe
from pyxsim.core.router cimport arrive, visit_router
from pyxsim.core.state cimport CREDIT, FLIT, LAUNCH, NONE, Router, Slot, Vc


cdef enum:
    EVENTS_AHEAD = 12
    ROUTERS_AHEAD = 2


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define pyxsim_prefetch(x) __builtin_prefetch(x)
    #else
    #define pyxsim_prefetch(x) ((void) (x))
    #endif
    """
    void prefetch "pyxsim_prefetch" (void* x) noexcept nogil


cdef void arrivals(State* s) noexcept nogil:
    """Step 1 of a cycle: everything on the calendar."""
    cdef int64_t place = s.now & s.slot_mask
    cdef Slot* slot = &s.slots[place]
    cdef int32_t i, index, kind
    cdef int32_t count = slot.count
    if count == 0:
        return
    for i in range(count):
        if s.far and i + EVENTS_AHEAD < count:
            index = slot.events[i + EVENTS_AHEAD] >> 2
            kind = slot.events[i + EVENTS_AHEAD] & 3
            if kind == FLIT:
                prefetch(&s.vc[index])
            elif kind == CREDIT:
                prefetch(&s.out[index])
        index = slot.events[i] >> 2
        kind = slot.events[i] & 3
        if kind == FLIT:
            if s.vc[index].router == NONE:
                consume(s, index, s.now)
            else:
                arrive(s, index, s.now)
        elif kind == CREDIT:
            take_credit(s, index)
        elif kind == LAUNCH:
            launch_queued(s, index, s.now)
        elif index < s.routers:
            set_bit(s.router_active, index)
        else:
            set_bit(s.lane_active, index - s.routers)
    slot.count = 0
    s.scheduled -= count
    s.slot_used[place >> 6] &= ~((<uint64_t> 1) << (place & 63))


cdef bint evaluate(State* s) noexcept nogil:
    """Steps 2 to 4 of a cycle. Tells whether any router or lane has to be looked at in the next one."""
    cdef int32_t word
    cdef uint64_t bits
    cdef uint64_t rest = 0
    join_sources(s)
    for word in range(s.lane_words):
        bits = s.lane_active[word]
        while bits:
            visit_lane(s, s.network_links + word * 64 + lowest(bits), s.now)
            bits &= bits - 1
        rest |= s.lane_active[word]
    if s.far:
        visit_ahead(s)
    for word in range(s.router_words):
        bits = s.router_active[word] if not s.far else 0
        while bits:
            visit_router(s, word * 64 + lowest(bits), s.now)
            bits &= bits - 1
        rest |= s.router_active[word]
    return rest != 0


cdef void visit_ahead(State* s) noexcept nogil:
    """Visit the active routers of a large network, and meanwhile bring what the next ones need into the cache."""
    cdef int32_t count = 0
    cdef int32_t word, i
    cdef uint64_t bits
    for word in range(s.router_words):
        bits = s.router_active[word]
        while bits:
            s.active[count] = word * 64 + lowest(bits)
            count += 1
            bits &= bits - 1
    for i in range(count):
        if i + 3 * ROUTERS_AHEAD < count:
            prefetch(&s.router[s.active[i + 3 * ROUTERS_AHEAD]])
        if i + 2 * ROUTERS_AHEAD < count:
            fetch_inputs(s, s.active[i + 2 * ROUTERS_AHEAD], False)
        if i + ROUTERS_AHEAD < count:
            fetch_inputs(s, s.active[i + ROUTERS_AHEAD], True)
        visit_router(s, s.active[i], s.now)


cdef inline void fetch_inputs(State* s, int32_t router, bint outputs) noexcept nogil:
    """The input VCs of a router that hold flits, or (`outputs`) the output VCs and links that these want."""
    cdef Router* r = &s.router[router]
    cdef int32_t word
    cdef uint64_t bits
    cdef Vc* v
    for word in range(r.words):
        bits = s.occupied[r.word + word]
        while bits:
            v = &s.vc[r.base + word * 64 + lowest(bits)]
            bits &= bits - 1
            if not outputs:
                prefetch(v)
            elif v.want >= 0:
                prefetch(&s.link[v.want])
                if v.hold >= 0:
                    prefetch(&s.out[v.hold])


cdef Reason run_cycles(State* s, int64_t until, int64_t slack, int64_t window) noexcept nogil:
    cdef int64_t stop = until
    cdef int64_t boundary = (s.reported // window + 1) * window if window else INT64_MAX
    cdef int64_t following
    while True:
        if not s.arrived:
            if s.now >= boundary:
                # A window in which nothing was counted is passed over without a word.
                s.reported = s.now
                if s.changed or s.in_flight:
                    s.changed = 0
                    return WINDOW
                boundary = (s.now // window + 1) * window
            if s.orbit != NULL and s.orbit.until > s.now and observe(s):
                return REPEATS
            arrivals(s)
            s.arrived = 1
        if s.failed:
            return NO_MEMORY
        if s.delivered_count and s.delivered_at[0] + slack < stop:
            stop = s.delivered_at[0] + slack
        if s.now >= stop:
            return DELIVERED if s.delivered_count else UNTIL
        following = s.now + 1
        if not evaluate(s):
            # Nothing to look at in the next cycle: on to the next one with an arrival, a timer or a new message.
            following = INT64_MAX
            if s.scheduled:
                following = next_scheduled(s)
            elif s.in_flight:   # flits inside, and nothing that could move them: new messages cannot, either
                s.now += 1
                s.arrived = 0
                return DEADLOCK
            if s.pending_count and s.messages[s.pending[0]].at < following:
                following = s.messages[s.pending[0]].at
            if following == INT64_MAX:
                s.now += 1
                s.arrived = 0
                return NOTHING_LEFT
            if following > stop:
                following = stop
            if following > boundary and (s.in_flight or s.changed):
                following = boundary   # everything is counted in the window in which it happens
        s.now = following
        s.arrived = 0
