"""The cycle loop: arrivals, sources, interfaces, routers (docs/router.md, "One cycle")."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.state.bits cimport lowest, prefetch, seldom, set_bit
from pyxsim.core.router.buffer cimport filled_word, vc_at
from pyxsim.core.router.calendar cimport next_scheduled, schedule
from pyxsim.core.router.interface cimport consume_packet, join_sources, next_start, visit_lane
from pyxsim.core.fast_path.batch_lanes cimport Lanes, visit_lanes
from pyxsim.core.router.link cimport launch_queued, take_credit, told
from pyxsim.core.fast_path.vc_masks cimport unblock
from pyxsim.core.fast_forward.period_detector cimport observe
from pyxsim.core.router.router_step cimport arrive, gather_woken, take_in, visit_router, wake
from pyxsim.core.router.route_computation cimport come_to_fronts
from pyxsim.core.state.network_state cimport (
    BODY,
    CREDIT,
    HEAD,
    IDLE,
    KINDS,
    LANE_CREDIT,
    LAST,
    LAUNCH,
    NONE,
    SINK,
    WAKE,
    Event,
    Out,
    Router,
    Slot,
    Vc,
)
from pyxsim.core.router.stall_counters cimport add_up
from pyxsim.core.fast_path.batch_lists cimport Batch
from pyxsim.core.fast_path.batch_path cimport visit_word
from pyxsim.core.fast_path.bitmask_sa cimport leave, visit_by_masks


cdef enum:
    EVENTS_AHEAD = 12
    ROUTERS_AHEAD = 2


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    /* The whole of a router's cycle becomes one function, of which there is a copy for each kind of router. */
    #undef CYTHON_INLINE
    #define CYTHON_INLINE inline __attribute__((always_inline))
    #endif
    """


# --- step 1 ---------------------------------------------------------------------------------------------------------

cdef inline void credits_come(State* s, int32_t* vcs, int32_t count) noexcept nogil:
    """Credits reach routers."""
    cdef int32_t i
    for i in range(count):
        take_credit(s, vcs[i])
        wake(s, s.out[vcs[i]].src, 1)


cdef inline void credits_come_by_masks(State* s, int32_t* vcs, int32_t count) noexcept nogil:
    """Who could use the VC before is not woken for one more."""
    cdef int32_t i
    cdef bint news
    cdef Out* out
    for i in range(count):
        if s.far and i + EVENTS_AHEAD < count:
            prefetch(&s.out[vcs[i + EVENTS_AHEAD]])
        out = &s.out[vcs[i]]
        if seldom(s.drained):
            news = take_credit(s, vcs[i])
        else:
            news = out.credit == 0
            out.credit += 1
        s.inputs[out.holder >> 6].credit |= (<uint64_t> 1) << (out.holder & 63)
        wake(s, out.src, news)


cdef inline void reach_sinks(State* s, int32_t* vcs, int32_t count, bint last) noexcept nogil:
    """Flits are consumed: their slots are empty again at once. A sink is in the same part as the router before it."""
    cdef int32_t i
    cdef Vc* v
    for i in range(count):
        v = &s.vc[vcs[i]]
        v.occupancy_max = 1
        schedule(s, s.now + s.link[v.link].credit_delay, vcs[i], CREDIT)
        if last:
            consume_packet(s, vcs[i], s.now)
    s.in_flight -= count
    s.flits_delivered += count


cdef inline void reach_routers(State* s, Slot* slot, Event kind) noexcept nogil:
    cdef int32_t* vcs = slot.events[<int32_t> kind]
    cdef int32_t count = slot.count[<int32_t> kind]
    cdef int32_t i
    for i in range(count):
        if s.far and i + EVENTS_AHEAD < count:
            prefetch(&s.vc[vcs[i + EVENTS_AHEAD]])
        arrive(s, vcs[i], s.now, kind == HEAD)


cdef inline int32_t reach_together(State* s, int32_t* vcs, int32_t count, int32_t fronts) noexcept nogil:
    """`reach_routers` where `State.plain`. Who finds no packet at the front is a head, and joins `State.fronts`, behind
    so many others; returns how many there are then."""
    cdef int32_t i
    cdef Vc* v
    for i in range(count):
        if s.far and i + EVENTS_AHEAD < count:
            prefetch(&s.vc[vcs[i + EVENTS_AHEAD]])
        v = &s.vc[vcs[i]]
        take_in(s, v)
        s.fronts[fronts] = vcs[i]
        fronts += v.state == IDLE
    return fronts


cdef inline void reach_in_stages(State* s, Slot* slot) noexcept nogil:
    cdef int32_t fronts = reach_together(s, slot.events[<int32_t> HEAD], slot.count[<int32_t> HEAD], 0)
    fronts = reach_together(s, slot.events[<int32_t> BODY], slot.count[<int32_t> BODY], fronts)
    come_to_fronts(s, s.fronts, fronts, s.now)


cdef inline void link_is_free(State* s, int32_t outlet) noexcept nogil:
    cdef int32_t router = s.out_router[outlet]
    if s.plain:
        wake(s, router, unblock(s, router, outlet, True))
    elif s.link[s.out_links[outlet]].queued:
        launch_queued(s, s.out_links[outlet], s.now)
    else:
        wake(s, router, unblock(s, router, outlet, False))


cdef bint arrivals(State* s) noexcept nogil:
    """Step 1 of a cycle: everything on the calendar. Tells whether there was anything."""
    cdef int64_t place = s.now & s.slot_mask
    cdef Slot* slot = &s.slots[place]
    cdef uint64_t used = (<uint64_t> 1) << (place & 63)
    cdef int32_t i, number
    if s.now >= s.flush:
        add_up(s)
    if not s.slot_used[place >> 6] & used:
        return False
    if s.plain:
        reach_in_stages(s, slot)
    else:
        reach_routers(s, slot, HEAD)
        reach_routers(s, slot, BODY)
    reach_sinks(s, slot.events[<int32_t> SINK], slot.count[<int32_t> SINK], False)
    reach_sinks(s, slot.events[<int32_t> LAST], slot.count[<int32_t> LAST], True)
    if s.masked:
        credits_come_by_masks(s, slot.events[<int32_t> CREDIT], slot.count[<int32_t> CREDIT])
    else:
        credits_come(s, slot.events[<int32_t> CREDIT], slot.count[<int32_t> CREDIT])
    for i in range(slot.count[<int32_t> LANE_CREDIT]):
        number = slot.events[<int32_t> LANE_CREDIT][i]
        if take_credit(s, number) or not s.plain_lanes:
            set_bit(s.lane_active, s.out[number].link - s.network_links)
    for i in range(slot.count[<int32_t> LAUNCH]):
        link_is_free(s, slot.events[<int32_t> LAUNCH][i])
    for i in range(slot.count[<int32_t> WAKE]):
        number = slot.events[<int32_t> WAKE][i]
        if number < s.routers:
            wake(s, number, 1)
        else:
            set_bit(s.lane_active, number - s.routers)
    gather_woken(s)
    for i in range(KINDS):
        slot.count[i] = 0
    s.slot_used[place >> 6] &= ~used
    return True


# --- steps 2 to 4 ---------------------------------------------------------------------------------------------------

cdef void visit_lane_batches(State* s) noexcept nogil:
    cdef Lanes batch
    if s.interleaved and s.unit:
        visit_lanes(s, &batch, True, True)
    elif s.interleaved:
        visit_lanes(s, &batch, True, False)
    elif s.unit:
        visit_lanes(s, &batch, False, True)
    else:
        visit_lanes(s, &batch, False, False)


cdef void visit_lanes_alone(State* s) noexcept nogil:
    cdef int32_t word
    cdef uint64_t bits
    for word in range(s.lane_words):
        bits = s.lane_active[word]
        while bits:
            visit_lane(s, s.network_links + word * 64 + lowest(bits), s.now)
            bits &= bits - 1


cdef void look_at_word(State* s, int32_t router, int64_t t) noexcept nogil:
    visit_by_masks(s, router, t, 1, False)


cdef void look_at_words(State* s, int32_t router, int64_t t) noexcept nogil:
    visit_by_masks(s, router, t, s.router[router].words, False)


cdef void look_and_tell(State* s, int32_t router, int64_t t) noexcept nogil:
    visit_by_masks(s, router, t, s.router[router].words, True)


cdef void look_at_word_and_tell(State* s, int32_t router, int64_t t) noexcept nogil:
    visit_by_masks(s, router, t, 1, True)


cdef inline void look_at(State* s, int32_t router, int64_t t, bint tell) noexcept nogil:
    """Step 4 for one router, by the copy of the code that is made for it."""
    if not s.masked:
        visit_router(s, router, t)
    elif tell and s.router[router].words == 1:
        look_at_word_and_tell(s, router, t)
    elif tell:
        look_and_tell(s, router, t)
    elif s.router[router].words == 1:
        look_at_word(s, router, t)
    else:
        look_at_words(s, router, t)


cdef inline void visit_words(State* s, bint unit) noexcept nogil:
    """Step 4 in stages. `unit`: the compiler makes a copy of this for either."""
    cdef Batch batch
    cdef int32_t word
    for word in range(s.router_words):
        if s.router_active[word]:
            visit_word(s, &batch, word, s.now, unit)
    leave(s, s.now, False, True, unit)


cdef void visit_batches(State* s) noexcept nogil:
    visit_words(s, True)


cdef void visit_slow_batches(State* s) noexcept nogil:
    visit_words(s, False)


cdef void visit_routers(State* s, bint tell) noexcept nogil:
    cdef int32_t word
    cdef uint64_t bits
    if s.far:
        visit_ahead(s, tell)
    for word in range(s.router_words):
        bits = s.router_active[word] if not s.far else 0
        while bits:
            look_at(s, word * 64 + lowest(bits), s.now, tell)
            bits &= bits - 1
    if s.won_count:
        leave(s, s.now, False, False, False)


cdef bint evaluate(State* s) noexcept nogil:
    """Steps 2 to 4 of a cycle. Tells whether any router or lane has to be looked at in the next one."""
    cdef int32_t word
    cdef uint64_t rest = 0
    cdef bint tell = told(s)
    join_sources(s)
    if s.plain_lanes and not tell:
        visit_lane_batches(s)
    else:
        visit_lanes_alone(s)
    if s.plain and not tell:
        if s.unit:
            visit_batches(s)
        else:
            visit_slow_batches(s)
    else:
        visit_routers(s, tell)
    for word in range(s.lane_words):
        rest |= s.lane_active[word]
    for word in range(s.router_words):
        rest |= s.router_active[word]
    return rest != 0


cdef void visit_ahead(State* s, bint tell) noexcept nogil:
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
        look_at(s, s.active[i], s.now, tell)


cdef inline void fetch_inputs(State* s, int32_t router, bint outputs) noexcept nogil:
    """The input VCs of a router that hold flits, or (`outputs`) the output VCs and links that these want."""
    cdef Router* r = &s.router[router]
    cdef int32_t word
    cdef uint64_t bits
    cdef Vc* v
    word = 0 if s.masked else filled_word(r, 0)
    while word < r.words:
        bits = s.inputs[r.word + word].occupied
        while bits:
            v = &s.vc[vc_at(s, r, word * 64 + lowest(bits))]
            bits &= bits - 1
            if not outputs:
                prefetch(v)
            elif v.want >= 0:
                prefetch(&s.link[v.want])
                if v.hold >= 0:
                    prefetch(&s.out[v.hold])
        word = word + 1 if s.masked else filled_word(r, word + 1)


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
            following = next_scheduled(s)
            if following == NONE:
                if s.in_flight:   # flits inside, and nothing that could move them: new messages cannot, either
                    s.now += 1
                    s.arrived = 0
                    return DEADLOCK
                following = INT64_MAX
            following = min(following, next_start(s))
            if following == INT64_MAX:
                s.now += 1
                s.arrived = 0
                return NOTHING_LEFT
            if following > stop:
                following = stop
            if following > boundary and (s.in_flight or s.changed):
                following = boundary   # everything is counted in the window in which it happens
            if s.orbit != NULL and s.now < s.orbit.sample_due < following:
                following = s.orbit.sample_due
        s.now = following
        s.arrived = 0
