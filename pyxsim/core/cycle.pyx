"""The cycle loop: arrivals, sources, interfaces, routers (docs/router.md, "One cycle")."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.fast_forward.period_detector cimport observe_cycle
from pyxsim.core.fast_path.batch_lanes cimport LaneBatch, visit_lane_batches
from pyxsim.core.fast_path.batch_lists cimport RouterBatch
from pyxsim.core.fast_path.batch_path cimport visit_router_batch
from pyxsim.core.fast_path.bitmask_sa cimport visit_router_bitmask
from pyxsim.core.fast_path.vc_masks cimport unblock_output
from pyxsim.core.router.buffer cimport collect_woken, next_filled_word, vc_at_mask_bit, wake_router, write_buffer
from pyxsim.core.router.calendar cimport next_scheduled, schedule
from pyxsim.core.router.credit_return cimport collect_credit, list_link, return_credits
from pyxsim.core.router.crossbar cimport traverse_winners
from pyxsim.core.router.interface cimport consume_packet, join_sources, next_start_cycle, sources_hold, visit_lane
from pyxsim.core.router.link cimport is_observed, launch_queued, receive_credit, steady_queues
from pyxsim.core.router.route_computation cimport route_new_heads
from pyxsim.core.router.retry cimport send_again, steady_replays
from pyxsim.core.router.router_step cimport receive_flit, visit_router
from pyxsim.core.router.stall_counters cimport flush_port_stalls
from pyxsim.core.state.bits cimport lowest, prefetch, seldom, set_bit
from pyxsim.core.state.records cimport (
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
    CalendarSlot,
    Event,
    InputVc,
    OutputVc,
    Router,
)


cdef enum:
    EVENTS_AHEAD = 12
    ROUTERS_AHEAD = 2
    STUCK = -2      # of `next_event`
    FINISHED = -3


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    /* The whole of a router's cycle becomes one function, of which there is a copy for each kind of router. */
    #undef CYTHON_INLINE
    #define CYTHON_INLINE inline __attribute__((always_inline))
    #endif
    """


# --- step 1 ---------------------------------------------------------------------------------------------------------

cdef inline void receive_credits(State* s, int32_t* vcs, int32_t count) noexcept nogil:
    """Add arriving credits to output VCs, and wake their routers."""
    cdef int32_t i
    for i in range(count):
        receive_credit(s, vcs[i])
        wake_router(s, s.vcs.output[vcs[i]].src, 1)


cdef inline void receive_credits_bitmask(State* s, int32_t* vcs, int32_t count) noexcept nogil:
    """The same on bit masks; a router wakes only if the VC had no credit."""
    cdef int32_t i
    cdef bint was_empty
    cdef OutputVc* out
    for i in range(count):
        if s.path.prefetch and i + EVENTS_AHEAD < count:
            prefetch(&s.vcs.output[vcs[i + EVENTS_AHEAD]])
        out = &s.vcs.output[vcs[i]]
        if seldom(s.config.drained):
            was_empty = receive_credit(s, vcs[i])
        else:
            was_empty = out.credit == 0
            out.credit += 1
        s.masks.inputs[out.holder >> 6].credit |= (<uint64_t> 1) << (out.holder & 63)
        wake_router(s, out.src, was_empty)


cdef inline void consume_flits(State* s, int32_t* vcs, int32_t count, bint last) noexcept nogil:
    """Consume flits at sinks and return their credits. A sink is in the same partition as the router before it."""
    cdef int32_t i
    cdef InputVc* v
    for i in range(count):
        v = &s.vcs.input[vcs[i]]
        v.occupancy_max = 1
        if seldom(s.config.credits):
            collect_credit(s, v.link, vcs[i], s.now)
        else:
            schedule(s, s.now + s.links.link[v.link].credit_delay, vcs[i], CREDIT)
        if last:
            consume_packet(s, vcs[i], s.now)
    s.in_flight -= count
    s.stats.flits_delivered += count


cdef inline void receive_flits(State* s, CalendarSlot* slot, Event kind) noexcept nogil:
    cdef int32_t* vcs = slot.events[<int32_t> kind]
    cdef int32_t count = slot.count[<int32_t> kind]
    cdef int32_t i
    for i in range(count):
        if s.path.prefetch and i + EVENTS_AHEAD < count:
            prefetch(&s.vcs.input[vcs[i + EVENTS_AHEAD]])
        receive_flit(s, vcs[i], s.now, kind == HEAD)


cdef inline int32_t write_buffers(State* s, int32_t* vcs, int32_t count, int32_t heads) noexcept nogil:
    """Write flits into their input VCs and append VCs without a front packet (the flit is a head) to
    `State.scratch.new_heads`, from index `heads` on. Return the new length."""
    cdef int32_t i
    cdef InputVc* v
    for i in range(count):
        if s.path.prefetch and i + EVENTS_AHEAD < count:
            prefetch(&s.vcs.input[vcs[i + EVENTS_AHEAD]])
        v = &s.vcs.input[vcs[i]]
        write_buffer(s, v)
        s.scratch.new_heads[heads] = vcs[i]
        heads += v.state == IDLE
    return heads


cdef inline void receive_flits_batch(State* s, CalendarSlot* slot) noexcept nogil:
    cdef int32_t heads = write_buffers(s, slot.events[<int32_t> HEAD], slot.count[<int32_t> HEAD], 0)
    heads = write_buffers(s, slot.events[<int32_t> BODY], slot.count[<int32_t> BODY], heads)
    route_new_heads(s, s.scratch.new_heads, heads, s.now)


cdef inline void link_became_available(State* s, int32_t outlet) noexcept nogil:
    cdef int32_t router = s.ports.out_router[outlet]
    if s.path.batch_path:
        wake_router(s, router, unblock_output(s, router, outlet, True))
    elif s.links.link[s.ports.out_links[outlet]].queued:
        launch_queued(s, s.ports.out_links[outlet], s.now)
    elif s.config.retry and s.links.replay[s.ports.out_links[outlet]].slots:
        send_again(s, s.ports.out_links[outlet], s.now)
    else:
        wake_router(s, router, unblock_output(s, router, outlet, False))


cdef bint process_arrivals(State* s) noexcept nogil:
    """Step 1 of a cycle: handle all calendar entries. Return False if there are none."""
    cdef int64_t place = s.now & s.calendar.slot_mask
    cdef CalendarSlot* slot = &s.calendar.slots[place]
    cdef uint64_t used = (<uint64_t> 1) << (place & 63)
    cdef int32_t i, number
    if s.now >= s.stats.flush_due:
        flush_port_stalls(s)
    if not s.calendar.used[place >> 6] & used:
        return False
    if s.path.batch_path:
        receive_flits_batch(s, slot)
    else:
        receive_flits(s, slot, HEAD)
        receive_flits(s, slot, BODY)
    consume_flits(s, slot.events[<int32_t> SINK], slot.count[<int32_t> SINK], False)
    consume_flits(s, slot.events[<int32_t> LAST], slot.count[<int32_t> LAST], True)
    if s.path.bitmask_sa:
        receive_credits_bitmask(s, slot.events[<int32_t> CREDIT], slot.count[<int32_t> CREDIT])
    else:
        receive_credits(s, slot.events[<int32_t> CREDIT], slot.count[<int32_t> CREDIT])
    for i in range(slot.count[<int32_t> LANE_CREDIT]):
        number = slot.events[<int32_t> LANE_CREDIT][i]
        if receive_credit(s, number) or not s.path.lane_batch:
            set_bit(s.lanes.active, s.vcs.output[number].link - s.links.network)
    for i in range(slot.count[<int32_t> LAUNCH]):
        link_became_available(s, slot.events[<int32_t> LAUNCH][i])
    for i in range(slot.count[<int32_t> WAKE]):
        number = slot.events[<int32_t> WAKE][i]
        if number < s.routers.count:
            wake_router(s, number, 1)
        else:
            number -= s.routers.count
            if number >= s.links.injection:
                list_link(s, number - s.links.injection)
                continue
            set_bit(s.lanes.active, number)
            if s.config.retry and s.links.replay[s.links.network + number].slots:
                send_again(s, s.links.network + number, s.now)
    collect_woken(s)
    for i in range(KINDS):
        slot.count[i] = 0
    s.calendar.used[place >> 6] &= ~used
    return True


# --- steps 2 to 5 ---------------------------------------------------------------------------------------------------

cdef void visit_lanes_batched(State* s) noexcept nogil:
    cdef LaneBatch batch
    if s.config.interleaved and s.path.unit_rate:
        visit_lane_batches(s, &batch, True, True)
    elif s.config.interleaved:
        visit_lane_batches(s, &batch, True, False)
    elif s.path.unit_rate:
        visit_lane_batches(s, &batch, False, True)
    else:
        visit_lane_batches(s, &batch, False, False)


cdef void visit_lanes_singly(State* s) noexcept nogil:
    cdef int32_t word
    cdef uint64_t bits
    for word in range(s.lanes.words):
        bits = s.lanes.active[word]
        while bits:
            visit_lane(s, s.links.network + word * 64 + lowest(bits), s.now)
            bits &= bits - 1


cdef void visit_bitmask_word(State* s, int32_t router, int64_t t) noexcept nogil:
    visit_router_bitmask(s, router, t, 1, False)


cdef void visit_bitmask_words(State* s, int32_t router, int64_t t) noexcept nogil:
    visit_router_bitmask(s, router, t, s.routers.router[router].words, False)


cdef void visit_bitmask_words_traced(State* s, int32_t router, int64_t t) noexcept nogil:
    visit_router_bitmask(s, router, t, s.routers.router[router].words, True)


cdef void visit_bitmask_word_traced(State* s, int32_t router, int64_t t) noexcept nogil:
    visit_router_bitmask(s, router, t, 1, True)


cdef inline void visit_one_router(State* s, int32_t router, int64_t t, bint traced) noexcept nogil:
    """Step 4 for one router, by the copy of the code compiled for it."""
    if not s.path.bitmask_sa:
        visit_router(s, router, t)
    elif traced and s.routers.router[router].words == 1:
        visit_bitmask_word_traced(s, router, t)
    elif traced:
        visit_bitmask_words_traced(s, router, t)
    elif s.routers.router[router].words == 1:
        visit_bitmask_word(s, router, t)
    else:
        visit_bitmask_words(s, router, t)


cdef inline void visit_router_batches(State* s, bint unit_rate) noexcept nogil:
    """Step 4 in batches. The compiler specialises this for each value of `unit_rate`."""
    cdef RouterBatch batch
    cdef int32_t word
    for word in range(s.routers.words):
        if s.routers.active[word]:
            visit_router_batch(s, &batch, word, s.now, unit_rate)
    traverse_winners(s, s.now, False, True, unit_rate)


cdef void visit_unit_rate_batches(State* s) noexcept nogil:
    visit_router_batches(s, True)


cdef void visit_slow_link_batches(State* s) noexcept nogil:
    visit_router_batches(s, False)


cdef void visit_routers(State* s, bint traced) noexcept nogil:
    cdef int32_t word
    cdef uint64_t bits
    if s.path.prefetch:
        visit_routers_prefetching(s, traced)
    for word in range(s.routers.words):
        bits = s.routers.active[word] if not s.path.prefetch else 0
        while bits:
            visit_one_router(s, word * 64 + lowest(bits), s.now, traced)
            bits &= bits - 1
    if s.scratch.winner_count:
        traverse_winners(s, s.now, False, False, False)


cdef bint evaluate_cycle(State* s) noexcept nogil:
    """Steps 2 to 5 of a cycle. Return False if no router or lane is active in the next one."""
    cdef int32_t word
    cdef uint64_t still_active = 0
    cdef bint traced = is_observed(s)
    join_sources(s)
    if s.path.lane_batch and not traced:
        visit_lanes_batched(s)
    else:
        visit_lanes_singly(s)
    if s.path.batch_path and not traced:
        if s.path.unit_rate:
            visit_unit_rate_batches(s)
        else:
            visit_slow_link_batches(s)
    else:
        visit_routers(s, traced)
    if seldom(s.config.credits):
        return_credits(s)
    for word in range(s.lanes.words):
        still_active |= s.lanes.active[word]
    for word in range(s.routers.words):
        still_active |= s.routers.active[word]
    return still_active != 0


cdef void visit_routers_prefetching(State* s, bint traced) noexcept nogil:
    """Visit the active routers of a large network, and prefetch the records of the next ones."""
    cdef int32_t count = 0
    cdef int32_t word, i
    cdef uint64_t bits
    for word in range(s.routers.words):
        bits = s.routers.active[word]
        while bits:
            s.routers.visit_list[count] = word * 64 + lowest(bits)
            count += 1
            bits &= bits - 1
    for i in range(count):
        if i + 3 * ROUTERS_AHEAD < count:
            prefetch(&s.routers.router[s.routers.visit_list[i + 3 * ROUTERS_AHEAD]])
        if i + 2 * ROUTERS_AHEAD < count:
            prefetch_vcs(s, s.routers.visit_list[i + 2 * ROUTERS_AHEAD], False)
        if i + ROUTERS_AHEAD < count:
            prefetch_vcs(s, s.routers.visit_list[i + ROUTERS_AHEAD], True)
        visit_one_router(s, s.routers.visit_list[i], s.now, traced)


cdef inline void prefetch_vcs(State* s, int32_t router, bint outputs) noexcept nogil:
    """Prefetch the occupied input VCs of a router or, with `outputs`, the output VCs and links that they request."""
    cdef Router* r = &s.routers.router[router]
    cdef int32_t word
    cdef uint64_t bits
    cdef InputVc* v
    word = 0 if s.path.bitmask_sa else next_filled_word(r, 0)
    while word < r.words:
        bits = s.masks.inputs[r.word + word].occupied
        while bits:
            v = &s.vcs.input[vc_at_mask_bit(s, r, word * 64 + lowest(bits))]
            bits &= bits - 1
            if not outputs:
                prefetch(v)
            elif v.out_link >= 0:
                prefetch(&s.links.link[v.out_link])
                if v.out_vc >= 0:
                    prefetch(&s.vcs.output[v.out_vc])
        word = word + 1 if s.path.bitmask_sa else next_filled_word(r, word + 1)


cdef int64_t next_event(State* s) noexcept nogil:
    """Nothing is active: the cycle of the next arrival, timer or message; INT64_MAX: links have to change first.

    STUCK: flits are inside and nothing can move them; new messages cannot, either. FINISHED: nothing is left to do.
    """
    cdef int64_t following = next_scheduled(s)
    if following == NONE:
        if s.in_flight and not s.patient:
            return STUCK
        following = INT64_MAX
    following = min(following, next_start_cycle(s))
    if following == INT64_MAX and not (s.patient and (s.in_flight or sources_hold(s))):
        return FINISHED
    return following


cdef int64_t still_until(State* s) noexcept nogil:
    """The cycle before which no state changes but for counters, which grow by the same in each cycle; `now`: unknown.

    `now` also if the run ends by itself.
    """
    cdef int32_t i
    cdef int64_t following
    if s.failed or s.matching.fault or s.arrivals.delivered_count or s.scratch.credit_link_count:
        return s.now
    for i in range(s.lanes.words):
        if s.lanes.active[i]:
            return s.now
    for i in range(s.routers.words):
        if s.routers.active[i]:
            return s.now
    following = next_event(s)
    if following <= s.now or not (steady_queues(s) and steady_replays(s)):
        return s.now
    return following


cdef Reason run_cycles(State* s, int64_t until, int64_t slack, int64_t window) noexcept nogil:
    cdef int64_t stop = until
    cdef int64_t boundary = next_window_end(s, window)
    cdef int64_t following
    while True:
        if not s.arrived:
            if s.now >= boundary:
                # A window without counts ends silently. Replay buffers count the time that flits wait for answers.
                s.stats.window_reported = s.now
                if s.stats.changed or s.in_flight:
                    s.stats.changed = s.config.retry
                    return WINDOW
                boundary = (s.now // window + 1) * window
            if s.detector != NULL and s.detector.until > s.now and observe_cycle(s):
                return REPEATS
            process_arrivals(s)
            s.arrived = 1
        if s.failed or s.matching.fault:
            return NO_MEMORY
        if s.arrivals.delivered_count and s.arrivals.delivered_at[0] + slack < stop:
            stop = s.arrivals.delivered_at[0] + slack
        if s.now >= stop:
            return DELIVERED if s.arrivals.delivered_count else UNTIL
        following = s.now + 1
        if not evaluate_cycle(s):
            following = next_event(s)
            if following < 0:
                s.now += 1
                s.arrived = 0
                return DEADLOCK if following == STUCK else NOTHING_LEFT
            if following > stop:
                following = stop
            if following > boundary and (s.in_flight or s.stats.changed):
                following = boundary   # counts belong to the window in which they occur
            if s.detector != NULL and s.now < s.detector.sample_due < following:
                following = s.detector.sample_due
        s.now = following
        s.arrived = 0
