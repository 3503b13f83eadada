"""Exact fast-forward (docs/fast_forward.md): detect that the state of the network repeats, and jump over whole periods.

The deciding state, relative to `now`, is compared as a whole with a snapshot; if they are equal the same follows again,
as nothing else decides. Snapshots and comparisons are expensive. So snapshots are taken 128, 192, 288, ... cycles after
the last message that came or ended, and comparisons are made only where a hash of some calendar entries of the last 64
cycles equals that of the snapshot. The hash is only a hint. Words written and compared are bounded by the flits sent,
so that a network that never repeats loses almost nothing.

Once a period is known, more snapshots are taken on the way through the next one, with a copy of all records. What is
proved then is a known period (known_periods.pyx), which later states may reach again.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from pyxsim.core.fast_forward.counter_log cimport log_cycle, log_fits, logged_bits, start_log, stop_log
from pyxsim.core.fast_forward.detector_state cimport (
    COUNTS,
    MOST_PERIODS,
    MOST_SNAPSHOTS,
    RATES,
    ArrayBlock,
    JumpPlan,
    KnownPeriod,
    PeriodDetector,
    StateSnapshot,
)
from pyxsim.core.fast_forward.field_visitors cimport ADVANCE, COMPARE, RECORD, Visitor
from pyxsim.core.fast_forward.known_periods cimport (
    free_known_periods,
    free_snapshot,
    jump_along_known_period,
    periods_kept,
    plan_known_period_jump,
    record_counts,
    remember_period,
)
from pyxsim.core.fast_forward.snapshot_copy cimport copy_cost, copy_records
from pyxsim.core.fast_forward.visit_state cimport visit_state
from pyxsim.core.fast_path.vc_masks cimport rebuild_masks
from pyxsim.core.router.interface cimport next_start_cycle
from pyxsim.core.router.random_draws cimport GOLDEN
from pyxsim.core.router.stall_counters cimport settle_counters
from pyxsim.core.state.bits cimport set_bit
from pyxsim.core.state.records cimport KINDS, NONE, CalendarSlot
from pyxsim.core.state.sorting cimport sort_numbers


cdef enum:
    HASHED = 64              # cycles that a hash covers
    FIRST_AGE = 2 * HASHED
    WORDS_PER_VC = 12        # of a snapshot, about
    WORDS_AT_FIRST = 1 << 19
    VISITS_PER_WORD = 8      # a word takes some 3 ns, a visit at least 50
    COPIED_AS_ONE = 8        # words copied in the time of one visited
    ON_THE_WAY = 8           # snapshots of a known period
    LATE_SNAPSHOTS = 12           # of all snapshots, those taken at growing distances


cdef bint comparison_affordable(State* s, int64_t walks) noexcept nogil:
    """May `visits` more comparisons be made? A snapshot needs the budget for its comparison, too."""
    return (
        s.detector.words_spent + walks * s.detector.snapshot_words <= WORDS_AT_FIRST
        + s.stats.router_visits // VISITS_PER_WORD
    )


cdef uint64_t fingerprint(State* s) noexcept nogil:
    """A hash of some of this cycle's entries."""
    cdef CalendarSlot* slot = &s.calendar.slots[s.now & s.calendar.slot_mask]
    cdef uint64_t sum = 0
    cdef int32_t* events
    cdef int32_t kind, count
    for kind in range(KINDS):
        count = slot.count[kind]
        if count:
            events = slot.events[kind]
            sum += <uint64_t> count
            sum += <uint64_t> events[0] * <uint64_t> 0x9E3779B1
            sum += <uint64_t> events[count >> 1] * <uint64_t> 0x85EBCA77
            sum += <uint64_t> events[count - 1] * <uint64_t> 0xC2B2AE3D
        sum *= 3
    return GOLDEN * sum


cdef void reset_detector(State* s) noexcept nogil:
    """Forget all snapshots: what comes now is not related to what was."""
    cdef PeriodDetector* o = s.detector
    o.age = 0
    o.snapshot_due = FIRST_AGE
    o.snapshot_count = 0
    o.confirming = 0
    o.plan.end = 0
    stop_log(s)


cdef void forget_periods(State* s) noexcept nogil:
    """Links change: what was proved before does not hold any more."""
    cdef int32_t i
    reset_detector(s)
    s.detector.period = 0
    for i in range(MOST_PERIODS):
        s.detector.known[i].count = 0
        s.detector.known[i].used = 0


# --- snapshots ------------------------------------------------------------------------------------------------------

cdef void take_snapshot(State* s) noexcept nogil:
    cdef PeriodDetector* o = s.detector
    cdef StateSnapshot* p = &o.snapshot[o.snapshot_count]
    cdef Visitor w
    settle_counters(s)
    w.mode, w.snapshot, w.differs = RECORD, p, False
    w.position = w.counted = 0
    visit_state(s, &w)
    if s.failed:
        return
    p.same_count, p.counts_count = w.position, w.counted
    p.hash = o.hint
    o.snapshot_words = w.position + w.counted
    o.words_spent += o.snapshot_words
    record_counts(s, p)
    p.copied = o.period > 0 and periods_kept(s) > 0
    if p.copied:
        copy_records(s, p)
        o.words_spent += copy_cost(s) // COPIED_AS_ONE
    if not s.failed:
        o.snapshot_count += 1


cdef void take_due_snapshot(State* s) noexcept nogil:
    """Take a snapshot that is due."""
    cdef PeriodDetector* o = s.detector
    cdef int64_t step = o.snapshot_due >> 1
    take_snapshot(s)
    # on the way through a period similar to the last one
    if o.period and o.snapshot_count < MOST_SNAPSHOTS - LATE_SNAPSHOTS:
        step = min(step, max(o.period // ON_THE_WAY, HASHED))
    o.snapshot_due += step
    if o.snapshot_count == 1:
        begin_log(s)


cdef void begin_log(State* s) noexcept nogil:
    """Which windows end in a period is known only once it is proved, but most periods are as long as the last one. A
    logged cycle costs a seventh more: log at most as many as were skipped."""
    cdef PeriodDetector* o = s.detector
    if o.period and o.window and o.logged_cycles <= o.skipped:
        start_log(s)


cdef bint compare_with_snapshot(State* s, Visitor* w, StateSnapshot* p, bint any_like) noexcept nogil:
    cdef PeriodDetector* o = s.detector
    settle_counters(s)
    w.mode, w.snapshot = COMPARE, p
    w.differs, w.allow_similar = False, any_like
    w.position = w.counted = 0
    w.deltas, w.deltas_capacity = o.deltas, o.deltas_capacity
    w.max_periods, w.latest_fixed, w.earliest_moving = INT64_MAX, -INT64_MAX, INT64_MAX
    w.stuck, w.grows = 0, False
    visit_state(s, w)
    o.deltas, o.deltas_capacity = w.deltas, w.deltas_capacity
    o.words_spent += w.position + w.counted
    return not (s.failed or w.differs or w.position != p.same_count or w.counted != p.counts_count)


cdef bint matches_snapshot(State* s, int32_t number) noexcept nogil:
    """Does the state equal a snapshot since the last disturbance, which proves a period, and can it be skipped?"""
    cdef PeriodDetector* o = s.detector
    cdef StateSnapshot* p = &o.snapshot[number]
    cdef Visitor w
    if not compare_with_snapshot(s, &w, p, False) or w.latest_fixed > w.earliest_moving:
        return False
    if w.max_periods == INT64_MAX or w.max_periods < 0 or w.stuck:
        return False   # nothing is sent; or a message ends; or some packets are stuck, which is for the watchdog
    o.period = s.now - p.cycle
    o.latency_growth = s.stats.latency_sum - p.sums.latency
    o.packet_growth = s.stats.packets_delivered - p.sums.packets
    return plan_jump(s, number, w.max_periods)


cdef bint matches_known_period(State* s) noexcept nogil:
    """Does the state equal a snapshot of a known period, and can a jump start there?"""
    cdef PeriodDetector* o = s.detector
    cdef KnownPeriod* loop
    cdef Visitor w
    cdef int32_t i, number
    for i in range(MOST_PERIODS):
        loop = &o.known[i]
        for number in range(loop.count):
            if (
                loop.snapshot[number].hash == o.hint and comparison_affordable(s, 1)
                and compare_with_snapshot(s, &w, &loop.snapshot[number], True)
            ):
                return plan_known_period_jump(s, loop, number, jump_limit(s, loop.logged))
    return False


# --- plans ----------------------------------------------------------------------------------------------------------

cdef int64_t jump_limit(State* s, bint logged) noexcept nogil:
    """The cycle that a jump may reach. Without a log it must not pass the end of a window."""
    cdef PeriodDetector* o = s.detector
    cdef int64_t limit = min(o.until, next_start_cycle(s))
    if o.window and not logged:
        limit = min(limit, (s.now // o.window + 1) * o.window - 1)
    return limit


cdef bint plan_jump(State* s, int32_t number, int64_t most) noexcept nogil:
    """The state equals a snapshot, and may do so `max_periods` more times: plan a jump."""
    cdef PeriodDetector* o = s.detector
    cdef JumpPlan* plan = &o.plan
    cdef uint64_t* bits = logged_bits(s, o.snapshot[number].cycle)
    cdef int64_t limit = jump_limit(s, bits != NULL)
    if not o.confirming and limit < min(jump_limit(s, True), s.now + most * o.period) and log_fits(s, o.period):
        # Simulate the period once more, with a log.
        o.confirming = 1
        o.snapshot_count = 0
        o.snapshot_due = o.age + max(o.period // ON_THE_WAY, HASHED)
        take_snapshot(s)
        start_log(s)
        return False
    if o.snapshot[number].copied:
        return plan_known_period_jump(s, remember_period(s, number, bits), 0, limit)
    plan.rounds = min(most, max(limit - s.now, 0) // o.period)
    plan.end = s.now + plan.rounds * o.period if plan.rounds else 0
    plan.period, plan.offset, plan.bits, plan.summed, plan.loop = o.period, 0, bits, False, NULL
    return plan.rounds > 0


cdef bint observe_cycle(State* s) noexcept nogil:
    """Called before a cycle. Return True if a period is proved and part of it can be skipped."""
    cdef PeriodDetector* o = s.detector
    cdef int64_t disturbances = s.stats.messages_joined + s.stats.messages_delivered + s.routes.draws
    cdef uint64_t entry_hash
    cdef int32_t i
    if o.last_visited == s.now:
        return False
    o.plan.end = 0
    log_cycle(s)
    if disturbances != o.disturbances:
        o.disturbances = disturbances
        reset_detector(s)
    o.last_visited = s.now
    o.age += 1
    if o.age <= FIRST_AGE - HASHED:
        return False
    entry_hash = fingerprint(s)
    if entry_hash:   # empty cycles may or may not be visited, so they are not hashed
        o.hash = (o.hash << 1) + entry_hash + <uint64_t> (s.now - o.hashed) * 0x2545F491
        o.hashed = s.now
    o.hint = o.hash + <uint64_t> (s.now - o.hashed) * <uint64_t> 0x9E3779B1
    if o.age < FIRST_AGE or s.arrivals.delivered_count:
        return False
    if matches_known_period(s):
        return True
    for i in range(o.snapshot_count):
        if o.snapshot[i].hash == o.hint and (o.confirming or comparison_affordable(s, 1)) and matches_snapshot(s, i):
            return True
    # A period simulated once more gets all its snapshots; otherwise a jump can end at its beginning only.
    if o.age >= o.snapshot_due and o.snapshot_count < MOST_SNAPSHOTS and (o.confirming or comparison_affordable(s, 3)):
        take_due_snapshot(s)
    return False


# --- jumps ----------------------------------------------------------------------------------------------------------

cdef int64_t arithmetic_sum(int64_t periods, int64_t first, int64_t step) noexcept nogil:
    """The sum over `periods` periods of what was `first` in the proved one and grows by `step` in each."""
    return periods * first + step * (periods * (periods + 1) // 2)


cdef void rotate_calendar(State* s, int64_t cycles) noexcept nogil:
    """Move all calendar entries by `cycles` cycles."""
    cdef int64_t size = s.calendar.slot_mask + 1
    cdef int64_t place
    cdef int32_t kind
    cdef CalendarSlot* turned = <CalendarSlot*> malloc(size * sizeof(CalendarSlot))
    if turned == NULL:
        s.failed = 1
        return
    for place in range(size):
        turned[(place + cycles) & s.calendar.slot_mask] = s.calendar.slots[place]
    memcpy(s.calendar.slots, turned, size * sizeof(CalendarSlot))
    free(turned)
    for place in range(s.calendar.words):
        s.calendar.used[place] = 0
    for place in range(size):
        for kind in range(KINDS):
            if s.calendar.slots[place].count[kind]:
                set_bit(s.calendar.used, <int32_t> place)


cdef void pass_whole_periods(State* s, int64_t periods) noexcept nogil:
    """Skip whole periods. Each adds the same to every counter; latencies of messages that began before also grow by its
    length."""
    cdef PeriodDetector* o = s.detector
    cdef Visitor w
    settle_counters(s)
    w.mode, w.snapshot, w.differs = ADVANCE, NULL, False
    w.position = w.counted = 0
    w.deltas, w.deltas_capacity = o.deltas, o.deltas_capacity
    w.periods, w.cycles = periods, periods * o.period
    visit_state(s, &w)
    rotate_calendar(s, w.cycles)
    s.stats.latency_sum += arithmetic_sum(periods, o.latency_growth, o.packet_growth * o.period)
    s.now += w.cycles


cdef void perform_jump(State* s) noexcept nogil:
    """Perform the planned jump."""
    cdef PeriodDetector* o = s.detector
    cdef int64_t begin = s.now
    cdef bint round = o.plan.loop != NULL
    if round:
        jump_along_known_period(s)
    else:
        pass_whole_periods(s, o.plan.rounds)
    if s.failed:
        return
    rebuild_masks(s)
    s.stats.window_reported = s.now
    s.stats.changed = 1
    o.last_visited = o.hashed = s.now
    o.skipped += s.now - begin
    o.plan.end = 0
    o.snapshot_count = 0
    stop_log(s)
    if round:
        o.snapshot_due = INT64_MAX   # the period is known
    else:
        take_snapshot(s)


# --- states at rest --------------------------------------------------------------------------------------------------

cdef object deciding_state(State* s):
    """The deciding state relative to the current cycle, as bytes. No message may be under way."""
    cdef StateSnapshot p
    cdef Visitor w
    cdef int32_t _turn, kind
    cdef int64_t place
    cdef CalendarSlot* slot
    memset(&p, 0, sizeof(StateSnapshot))
    settle_counters(s)
    for place in range(s.calendar.slot_mask + 1):   # the order within a cycle does not matter
        slot = &s.calendar.slots[place]
        for kind in range(KINDS):
            sort_numbers(slot.events[kind], slot.count[kind])
    w.mode, w.snapshot, w.differs = RECORD, &p, False
    for _turn in range(2):   # the first one makes room, for words that are zero where entries do not fill them
        if p.same != NULL:
            memset(p.same, 0, p.same_capacity * sizeof(int64_t))
        w.position = w.counted = 0
        visit_state(s, &w)
    try:
        if s.failed:
            raise MemoryError("the network's state does not fit into memory")
        return (<char*> p.same)[: w.position * <int64_t> sizeof(int64_t)]
    finally:
        free_snapshot(&p)


cdef void shift_time(State* s, int64_t cycles) noexcept nogil:
    """Let the current state be that of a cycle `cycles` later, or earlier. No message may be under way."""
    cdef Visitor w
    settle_counters(s)
    w.mode, w.snapshot, w.differs = ADVANCE, NULL, False
    w.position = w.counted = 0
    w.deltas, w.deltas_capacity = NULL, 0
    w.periods, w.cycles = 0, cycles
    visit_state(s, &w)
    rotate_calendar(s, cycles)
    s.now += cycles
    rebuild_masks(s)
    s.stats.window_reported = s.now
    s.stats.changed = 1
    s.detector.last_visited = s.detector.hashed = s.now
    reset_detector(s)


# --- memory ---------------------------------------------------------------------------------------------------------

cdef bint create_detector(State* s, int32_t compared, int32_t blocks) except -1:
    """Start the search. `blocks`: arrays that are copied; the first `compared` ones are compared byte by byte."""
    s.detector = <PeriodDetector*> calloc(1, sizeof(PeriodDetector))
    if s.detector == NULL:
        raise MemoryError
    s.detector.blocks = <ArrayBlock*> calloc(blocks, sizeof(ArrayBlock))
    s.detector.rates = <int64_t*> calloc(s.links.injection * RATES + 1, sizeof(int64_t))
    s.detector.sender_visit = <int64_t*> calloc(s.links.injection + 1, sizeof(int64_t))
    s.detector.totals = <int64_t*> calloc(s.links.logged * COUNTS + 1, sizeof(int64_t))
    s.detector.period_totals = <int64_t*> calloc(s.links.logged * COUNTS + 1, sizeof(int64_t))
    s.detector.base_totals = <int64_t*> calloc(s.links.logged * COUNTS + 1, sizeof(int64_t))
    if s.detector.period_totals == NULL or s.detector.base_totals == NULL:
        raise MemoryError
    if (
        s.detector.blocks == NULL or s.detector.rates == NULL or s.detector.sender_visit == NULL
        or s.detector.totals == NULL
    ):
        raise MemoryError
    s.detector.compared, s.detector.block_count = compared, blocks
    s.detector.snapshot_words = WORDS_PER_VC * s.vcs.count
    s.detector.last_visited = NONE
    s.detector.disturbances = NONE
    reset_detector(s)
    return True


cdef void free_detector(State* s) noexcept:
    cdef int32_t i
    if s.detector == NULL:
        return
    for i in range(MOST_SNAPSHOTS):
        free_snapshot(&s.detector.snapshot[i])
    free_known_periods(s)
    free(s.detector.log.bits)
    free(s.detector.totals)
    free(s.detector.period_totals)
    free(s.detector.base_totals)
    free(s.detector.blocks)
    free(s.detector.visited_in)
    free(s.detector.order)
    free(s.detector.messages)
    free(s.detector.deltas)
    free(s.detector.rates)
    free(s.detector.sender_visit)
    free(s.detector)
