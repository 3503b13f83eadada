"""Exact fast-forward (docs/fast_forward.md): the network notices that its state is that of some cycles ago.

What decides, seen from `now`, is compared as a whole with a picture of it: where all is equal, the same will happen
again, as nothing else decides. Pictures are dear, so they are taken when 128, 192, 288, ... cycles have passed without
a message that comes or goes; and comparisons are, so they are only made where a few of the entries of the calendar of
the last 64 cycles were those of 64 cycles before a picture. That is a hint and need not be right. The words written and
compared are bounded by the flits that were sent meanwhile, so that a network which never repeats itself loses nothing
to speak of.

Once a period is known, more pictures are taken on the way through the next one, with a copy of all records: what is
proved then is a loop (known_periods.pyx), which is known again when a later state comes upon it.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from pyxsim.core.state.bits cimport set_bit
from pyxsim.core.fast_forward.snapshot_copy cimport copy_records, copy_cost
from pyxsim.core.router.random_draws cimport GOLDEN
from pyxsim.core.router.interface cimport next_start_cycle
from pyxsim.core.fast_forward.known_periods cimport free_known_periods, free_snapshot, jump_along_known_period, remember_period, periods_kept, record_counts, plan_known_period_jump
from pyxsim.core.fast_path.vc_masks cimport rebuild_masks
from pyxsim.core.fast_forward.detector_state cimport COUNTS, MOST_PERIODS, MOST_SNAPSHOTS, RATES, ArrayBlock, KnownPeriod, PeriodDetector, StateSnapshot, JumpPlan
from pyxsim.core.fast_forward.visit_state cimport visit_state
from pyxsim.core.state.records cimport KINDS, NONE, CalendarSlot
from pyxsim.core.router.stall_counters cimport settle_counters
from pyxsim.core.fast_forward.counter_log cimport logged_bits, log_cycle, start_log, stop_log, log_fits
from pyxsim.core.fast_forward.field_visitors cimport ADVANCE, COMPARE, RECORD, Visitor


cdef enum:
    HASHED = 64              # cycles that the bits of a hash remember
    FIRST_AGE = 2 * HASHED
    WORDS_PER_VC = 12        # about, of a picture
    WORDS_AT_FIRST = 1 << 19
    VISITS_PER_WORD = 8      # a word takes some 3 ns, a visit at least 50
    COPIED_AS_ONE = 8        # words that are copied in the time in which one is met
    ON_THE_WAY = 8           # pictures of a loop
    LATE_SNAPSHOTS = 12           # of all pictures, those that are taken later and later


cdef bint comparison_affordable(State* s, int64_t walks) noexcept nogil:
    """Another comparison with a picture. Who takes one wants to compare it, too."""
    return s.detector.words_spent + walks * s.detector.snapshot_words <= WORDS_AT_FIRST + s.stats.router_visits // VISITS_PER_WORD


cdef uint64_t fingerprint(State* s) noexcept nogil:
    """Of a few of the entries of this cycle."""
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
    """What comes now has nothing to do with what was."""
    cdef PeriodDetector* o = s.detector
    o.age = 0
    o.snapshot_due = FIRST_AGE
    o.snapshot_count = 0
    o.confirming = 0
    o.plan.end = 0
    stop_log(s)


# --- pictures -------------------------------------------------------------------------------------------------------

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
    """A picture that is due."""
    cdef PeriodDetector* o = s.detector
    cdef int64_t step = o.snapshot_due >> 1
    take_snapshot(s)
    if o.period and o.snapshot_count < MOST_SNAPSHOTS - LATE_SNAPSHOTS:   # on the way through a period that is like the last one
        step = min(step, max(o.period // ON_THE_WAY, HASHED))
    o.snapshot_due += step
    if o.snapshot_count == 1:
        begin_log(s)


cdef void begin_log(State* s) noexcept nogil:
    """Where windows end in a period is known only when that is proved, but most are as long as those before. A cycle
    that is noted takes a seventh more: not more of them than were skipped."""
    cdef PeriodDetector* o = s.detector
    if o.period and o.window and o.logged_cycles <= o.skipped:
        start_log(s)


cdef bint compare_with_snapshot(State* s, Visitor* w, StateSnapshot* p, bint any_like) noexcept nogil:
    cdef PeriodDetector* o = s.detector
    settle_counters(s)
    w.mode, w.snapshot = COMPARE, p
    w.differs, w.allow_similar = False, any_like
    w.position = w.counted = 0
    w.deltas, w.deltas_room = o.deltas, o.deltas_room
    w.max_periods, w.latest_fixed, w.earliest_moving = INT64_MAX, -INT64_MAX, INT64_MAX
    w.stuck, w.grows = 0, False
    visit_state(s, w)
    o.deltas, o.deltas_room = w.deltas, w.deltas_room
    o.words_spent += w.position + w.counted
    return not (s.failed or w.differs or w.position != p.same_count or w.counted != p.counts_count)


cdef bint matches_snapshot(State* s, int32_t number) noexcept nogil:
    """Is the state that of a picture since the last disturbance, so that a period is proved, and may it be skipped?"""
    cdef PeriodDetector* o = s.detector
    cdef StateSnapshot* p = &o.snapshot[number]
    cdef Visitor w
    if not compare_with_snapshot(s, &w, p, False) or w.latest_fixed > w.earliest_moving:
        return False
    if w.max_periods == INT64_MAX or w.max_periods < 0 or w.stuck:
        return False   # nothing is sent; or a message ends; or some packets stand still, which is for the watchdog
    o.period = s.now - p.cycle
    o.latency_growth = s.stats.latency_sum - p.sums.latency
    o.packet_growth = s.stats.packets_delivered - p.sums.packets
    return plan_jump(s, number, w.max_periods)


cdef bint matches_known_period(State* s) noexcept nogil:
    """Has the state been met in a loop, and may one go round there?"""
    cdef PeriodDetector* o = s.detector
    cdef KnownPeriod* loop
    cdef Visitor w
    cdef int32_t i, number
    for i in range(MOST_PERIODS):
        loop = &o.known[i]
        for number in range(loop.count):
            if loop.snapshot[number].hash == o.hint and comparison_affordable(s, 1) and compare_with_snapshot(s, &w, &loop.snapshot[number], True):
                return plan_known_period_jump(s, loop, number, jump_limit(s, loop.logged))
    return False


# --- plans ----------------------------------------------------------------------------------------------------------

cdef int64_t jump_limit(State* s, bint taped) noexcept nogil:
    """The cycle that a jump may come to. Where it is not known what each cycle counts, no window ends on the way."""
    cdef PeriodDetector* o = s.detector
    cdef int64_t limit = min(o.until, next_start_cycle(s))
    if o.window and not taped:
        limit = min(limit, (s.now // o.window + 1) * o.window - 1)
    return limit


cdef bint plan_jump(State* s, int32_t number, int64_t most) noexcept nogil:
    """The state is that of a picture, and may be so `most` times more."""
    cdef PeriodDetector* o = s.detector
    cdef JumpPlan* plan = &o.plan
    cdef uint64_t* bits = logged_bits(s, o.snapshot[number].cycle)
    cdef int64_t limit = jump_limit(s, bits != NULL)
    if not o.confirming and limit < min(jump_limit(s, True), s.now + most * o.period) and log_fits(s, o.period):
        # Once more, to note what is counted meanwhile.
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
    """A cycle is about to be visited. True: a period is proved, and some of it may be skipped."""
    cdef PeriodDetector* o = s.detector
    cdef int64_t marks = s.stats.messages_joined + s.stats.messages_delivered + s.routes.draws
    cdef uint64_t found
    cdef int32_t i
    if o.last_visited == s.now:
        return False
    o.plan.end = 0
    log_cycle(s)
    if marks != o.disturbances:
        o.disturbances = marks
        reset_detector(s)
    o.last_visited = s.now
    o.age += 1
    if o.age <= FIRST_AGE - HASHED:
        return False
    found = fingerprint(s)
    if found:   # cycles with nothing to hash may be visited or not
        o.hash = (o.hash << 1) + found + <uint64_t> (s.now - o.hashed) * 0x2545F491
        o.hashed = s.now
    o.hint = o.hash + <uint64_t> (s.now - o.hashed) * <uint64_t> 0x9E3779B1
    if o.age < FIRST_AGE or s.arrivals.delivered_count:
        return False
    if matches_known_period(s):
        return True
    for i in range(o.snapshot_count):
        if o.snapshot[i].hash == o.hint and (o.confirming or comparison_affordable(s, 1)) and matches_snapshot(s, i):
            return True
    # A period that is simulated once more for them has all its pictures: without, a jump ends at its beginning only.
    if o.age >= o.snapshot_due and o.snapshot_count < MOST_SNAPSHOTS and (o.confirming or comparison_affordable(s, 3)):
        take_due_snapshot(s)
    return False


# --- jumps ----------------------------------------------------------------------------------------------------------

cdef int64_t arithmetic_sum(int64_t periods, int64_t first, int64_t step) noexcept nogil:
    """Over so many periods, what was `first` in the one that was proved and grows by `step` in each."""
    return periods * first + step * (periods * (periods + 1) // 2)


cdef void rotate_calendar(State* s, int64_t cycles) noexcept nogil:
    """What the calendar has for the cycles to come comes so many later."""
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
    """Let whole periods pass. Counters grow by the same in each, but latencies of messages that began before it grow
    by its length, too."""
    cdef PeriodDetector* o = s.detector
    cdef Visitor w
    settle_counters(s)
    w.mode, w.snapshot, w.differs = ADVANCE, NULL, False
    w.position = w.counted = 0
    w.deltas, w.deltas_room = o.deltas, o.deltas_room
    w.periods, w.cycles = periods, periods * o.period
    visit_state(s, &w)
    rotate_calendar(s, w.cycles)
    s.stats.latency_sum += arithmetic_sum(periods, o.latency_growth, o.packet_growth * o.period)
    s.now += w.cycles


cdef void perform_jump(State* s) noexcept nogil:
    """What was planned."""
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
        o.snapshot_due = INT64_MAX   # the loop is known
    else:
        take_snapshot(s)


# --- memory ---------------------------------------------------------------------------------------------------------

cdef bint create_detector(State* s, int32_t compared, int32_t blocks) except -1:
    """Begin to look for periods. `blocks`: arrays that are copied; the first ones are compared byte by byte."""
    s.detector = <PeriodDetector*> calloc(1, sizeof(PeriodDetector))
    if s.detector == NULL:
        raise MemoryError
    s.detector.blocks = <ArrayBlock*> calloc(blocks, sizeof(ArrayBlock))
    s.detector.rates = <int64_t*> calloc(s.links.injection * RATES + 1, sizeof(int64_t))
    s.detector.sender_visit = <int64_t*> calloc(s.links.injection + 1, sizeof(int64_t))
    s.detector.totals = <int64_t*> calloc(s.links.network * COUNTS + 1, sizeof(int64_t))
    s.detector.period_totals = <int64_t*> calloc(s.links.network * COUNTS + 1, sizeof(int64_t))
    s.detector.base_totals = <int64_t*> calloc(s.links.network * COUNTS + 1, sizeof(int64_t))
    if s.detector.period_totals == NULL or s.detector.base_totals == NULL:
        raise MemoryError
    if s.detector.blocks == NULL or s.detector.rates == NULL or s.detector.sender_visit == NULL or s.detector.totals == NULL:
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
