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
from pyxsim.core.fast_forward.snapshot_copy cimport copy_records, copy_words
from pyxsim.core.router.random_draws cimport GOLDEN
from pyxsim.core.router.interface cimport next_start
from pyxsim.core.fast_forward.known_periods cimport free_loops, free_picture, go_round, keep_loop, loops_kept, note_counts, plan_round
from pyxsim.core.fast_path.vc_masks cimport rederive
from pyxsim.core.fast_forward.detector_state cimport COUNTS, LOOPS, PICTURES, RATES, Block, Loop, Orbit, Picture, Plan
from pyxsim.core.fast_forward.visit_state cimport walk
from pyxsim.core.state.network_state cimport KINDS, NONE, Slot
from pyxsim.core.router.stall_counters cimport settle
from pyxsim.core.fast_forward.counter_log cimport bits_from, note_cycle, start_tape, stop_tape, tape_fits
from pyxsim.core.fast_forward.field_visitors cimport ADVANCE, COMPARE, RECORD, Walk


cdef enum:
    HASHED = 64              # cycles that the bits of a hash remember
    FIRST_AGE = 2 * HASHED
    WORDS_PER_VC = 12        # about, of a picture
    WORDS_AT_FIRST = 1 << 19
    VISITS_PER_WORD = 8      # a word takes some 3 ns, a visit at least 50
    COPIED_AS_ONE = 8        # words that are copied in the time in which one is met
    ON_THE_WAY = 8           # pictures of a loop
    FAR_APART = 12           # of all pictures, those that are taken later and later


cdef bint afforded(State* s, int64_t walks) noexcept nogil:
    """Another comparison with a picture. Who takes one wants to compare it, too."""
    return s.orbit.spent + walks * s.orbit.size <= WORDS_AT_FIRST + s.router_visits // VISITS_PER_WORD


cdef uint64_t fingerprint(State* s) noexcept nogil:
    """Of a few of the entries of this cycle."""
    cdef Slot* slot = &s.slots[s.now & s.slot_mask]
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


cdef void forget(State* s) noexcept nogil:
    """What comes now has nothing to do with what was."""
    cdef Orbit* o = s.orbit
    o.age = 0
    o.due = FIRST_AGE
    o.count = 0
    o.again = 0
    o.plan.end = 0
    stop_tape(s)


# --- pictures -------------------------------------------------------------------------------------------------------

cdef void take_picture(State* s) noexcept nogil:
    cdef Orbit* o = s.orbit
    cdef Picture* p = &o.picture[o.count]
    cdef Walk w
    settle(s)
    w.mode, w.picture, w.differs = RECORD, p, False
    w.place = w.counted = 0
    walk(s, &w)
    if s.failed:
        return
    p.same_count, p.counts_count = w.place, w.counted
    p.hash = o.hint
    o.size = w.place + w.counted
    o.spent += o.size
    note_counts(s, p)
    p.copied = o.period > 0 and loops_kept(s) > 0
    if p.copied:
        copy_records(s, p)
        o.spent += copy_words(s) // COPIED_AS_ONE
    if not s.failed:
        o.count += 1


cdef void take_next(State* s) noexcept nogil:
    """A picture that is due."""
    cdef Orbit* o = s.orbit
    cdef int64_t step = o.due >> 1
    take_picture(s)
    if o.period and o.count < PICTURES - FAR_APART:   # on the way through a period that is like the last one
        step = min(step, max(o.period // ON_THE_WAY, HASHED))
    o.due += step
    if o.count == 1:
        begin_tape(s)


cdef void begin_tape(State* s) noexcept nogil:
    """Where windows end in a period is known only when that is proved, but most are as long as those before. A cycle
    that is noted takes a seventh more: not more of them than were skipped."""
    cdef Orbit* o = s.orbit
    if o.period and o.window and o.noted <= o.skipped:
        start_tape(s)


cdef bint compare(State* s, Walk* w, Picture* p, bint any_like) noexcept nogil:
    cdef Orbit* o = s.orbit
    settle(s)
    w.mode, w.picture = COMPARE, p
    w.differs, w.any_like = False, any_like
    w.place = w.counted = 0
    w.deltas, w.deltas_room = o.deltas, o.deltas_room
    w.most, w.old, w.young = INT64_MAX, -INT64_MAX, INT64_MAX
    w.stuck, w.grows = 0, False
    walk(s, w)
    o.deltas, o.deltas_room = w.deltas, w.deltas_room
    o.spent += w.place + w.counted
    return not (s.failed or w.differs or w.place != p.same_count or w.counted != p.counts_count)


cdef bint is_again(State* s, int32_t number) noexcept nogil:
    """Is the state that of a picture since the last disturbance, so that a period is proved, and may it be skipped?"""
    cdef Orbit* o = s.orbit
    cdef Picture* p = &o.picture[number]
    cdef Walk w
    if not compare(s, &w, p, False) or w.old > w.young:
        return False
    if w.most == INT64_MAX or w.most < 0 or w.stuck:
        return False   # nothing is sent; or a message ends; or some packets stand still, which is for the watchdog
    o.period = s.now - p.cycle
    o.latency = s.latency_sum - p.sums.latency
    o.packets = s.packets_delivered - p.sums.packets
    return plan_jump(s, number, w.most)


cdef bint is_known(State* s) noexcept nogil:
    """Has the state been met in a loop, and may one go round there?"""
    cdef Orbit* o = s.orbit
    cdef Loop* loop
    cdef Walk w
    cdef int32_t i, number
    for i in range(LOOPS):
        loop = &o.loop[i]
        for number in range(loop.count):
            if loop.picture[number].hash == o.hint and afforded(s, 1) and compare(s, &w, &loop.picture[number], True):
                return plan_round(s, loop, number, limit_of(s, loop.taped))
    return False


# --- plans ----------------------------------------------------------------------------------------------------------

cdef int64_t limit_of(State* s, bint taped) noexcept nogil:
    """The cycle that a jump may come to. Where it is not known what each cycle counts, no window ends on the way."""
    cdef Orbit* o = s.orbit
    cdef int64_t limit = min(o.until, next_start(s))
    if o.window and not taped:
        limit = min(limit, (s.now // o.window + 1) * o.window - 1)
    return limit


cdef bint plan_jump(State* s, int32_t number, int64_t most) noexcept nogil:
    """The state is that of a picture, and may be so `most` times more."""
    cdef Orbit* o = s.orbit
    cdef Plan* plan = &o.plan
    cdef uint64_t* bits = bits_from(s, o.picture[number].cycle)
    cdef int64_t limit = limit_of(s, bits != NULL)
    if not o.again and limit < min(limit_of(s, True), s.now + most * o.period) and tape_fits(s, o.period):
        # Once more, to note what is counted meanwhile.
        o.again = 1
        o.count = 0
        o.due = o.age + max(o.period // ON_THE_WAY, HASHED)
        take_picture(s)
        start_tape(s)
        return False
    if o.picture[number].copied:
        return plan_round(s, keep_loop(s, number, bits), 0, limit)
    plan.rounds = min(most, max(limit - s.now, 0) // o.period)
    plan.end = s.now + plan.rounds * o.period if plan.rounds else 0
    plan.period, plan.place, plan.bits, plan.summed, plan.loop = o.period, 0, bits, False, NULL
    return plan.rounds > 0


cdef bint observe(State* s) noexcept nogil:
    """A cycle is about to be visited. True: a period is proved, and some of it may be skipped."""
    cdef Orbit* o = s.orbit
    cdef int64_t marks = s.joined + s.messages_delivered + s.draws
    cdef uint64_t found
    cdef int32_t i
    if o.seen == s.now:
        return False
    o.plan.end = 0
    note_cycle(s)
    if marks != o.marks:
        o.marks = marks
        forget(s)
    o.seen = s.now
    o.age += 1
    if o.age <= FIRST_AGE - HASHED:
        return False
    found = fingerprint(s)
    if found:   # cycles with nothing to hash may be visited or not
        o.hash = (o.hash << 1) + found + <uint64_t> (s.now - o.hashed) * 0x2545F491
        o.hashed = s.now
    o.hint = o.hash + <uint64_t> (s.now - o.hashed) * <uint64_t> 0x9E3779B1
    if o.age < FIRST_AGE or s.delivered_count:
        return False
    if is_known(s):
        return True
    for i in range(o.count):
        if o.picture[i].hash == o.hint and (o.again or afforded(s, 1)) and is_again(s, i):
            return True
    # A period that is simulated once more for them has all its pictures: without, a jump ends at its beginning only.
    if o.age >= o.due and o.count < PICTURES and (o.again or afforded(s, 3)):
        take_next(s)
    return False


# --- jumps ----------------------------------------------------------------------------------------------------------

cdef int64_t sum_of(int64_t periods, int64_t first, int64_t step) noexcept nogil:
    """Over so many periods, what was `first` in the one that was proved and grows by `step` in each."""
    return periods * first + step * (periods * (periods + 1) // 2)


cdef void turn_wheel(State* s, int64_t cycles) noexcept nogil:
    """What the calendar has for the cycles to come comes so many later."""
    cdef int64_t size = s.slot_mask + 1
    cdef int64_t place
    cdef int32_t kind
    cdef Slot* turned = <Slot*> malloc(size * sizeof(Slot))
    if turned == NULL:
        s.failed = 1
        return
    for place in range(size):
        turned[(place + cycles) & s.slot_mask] = s.slots[place]
    memcpy(s.slots, turned, size * sizeof(Slot))
    free(turned)
    for place in range(s.slot_words):
        s.slot_used[place] = 0
    for place in range(size):
        for kind in range(KINDS):
            if s.slots[place].count[kind]:
                set_bit(s.slot_used, <int32_t> place)


cdef void pass_periods(State* s, int64_t periods) noexcept nogil:
    """Let whole periods pass. Counters grow by the same in each, but latencies of messages that began before it grow
    by its length, too."""
    cdef Orbit* o = s.orbit
    cdef Walk w
    settle(s)
    w.mode, w.picture, w.differs = ADVANCE, NULL, False
    w.place = w.counted = 0
    w.deltas, w.deltas_room = o.deltas, o.deltas_room
    w.periods, w.cycles = periods, periods * o.period
    walk(s, &w)
    turn_wheel(s, w.cycles)
    s.latency_sum += sum_of(periods, o.latency, o.packets * o.period)
    s.now += w.cycles


cdef void jump(State* s) noexcept nogil:
    """What was planned."""
    cdef Orbit* o = s.orbit
    cdef int64_t begin = s.now
    cdef bint round = o.plan.loop != NULL
    if round:
        go_round(s)
    else:
        pass_periods(s, o.plan.rounds)
    if s.failed:
        return
    rederive(s)
    s.reported = s.now
    s.changed = 1
    o.seen = o.hashed = s.now
    o.skipped += s.now - begin
    o.plan.end = 0
    o.count = 0
    stop_tape(s)
    if round:
        o.due = INT64_MAX   # the loop is known
    else:
        take_picture(s)


# --- memory ---------------------------------------------------------------------------------------------------------

cdef bint make_orbit(State* s, int32_t compared, int32_t blocks) except -1:
    """Begin to look for periods. `blocks`: arrays that are copied; the first ones are compared byte by byte."""
    s.orbit = <Orbit*> calloc(1, sizeof(Orbit))
    if s.orbit == NULL:
        raise MemoryError
    s.orbit.blocks = <Block*> calloc(blocks, sizeof(Block))
    s.orbit.rates = <int64_t*> calloc(s.injection_links * RATES + 1, sizeof(int64_t))
    s.orbit.senders = <int64_t*> calloc(s.injection_links + 1, sizeof(int64_t))
    s.orbit.row = <int64_t*> calloc(s.network_links * COUNTS + 1, sizeof(int64_t))
    s.orbit.whole = <int64_t*> calloc(s.network_links * COUNTS + 1, sizeof(int64_t))
    s.orbit.begun = <int64_t*> calloc(s.network_links * COUNTS + 1, sizeof(int64_t))
    if s.orbit.whole == NULL or s.orbit.begun == NULL:
        raise MemoryError
    if s.orbit.blocks == NULL or s.orbit.rates == NULL or s.orbit.senders == NULL or s.orbit.row == NULL:
        raise MemoryError
    s.orbit.compared, s.orbit.block_count = compared, blocks
    s.orbit.size = WORDS_PER_VC * s.vcs
    s.orbit.seen = NONE
    s.orbit.marks = NONE
    forget(s)
    return True


cdef void free_orbit(State* s) noexcept:
    cdef int32_t i
    if s.orbit == NULL:
        return
    for i in range(PICTURES):
        free_picture(&s.orbit.picture[i])
    free_loops(s)
    free(s.orbit.tape.bits)
    free(s.orbit.row)
    free(s.orbit.whole)
    free(s.orbit.begun)
    free(s.orbit.blocks)
    free(s.orbit.met)
    free(s.orbit.order)
    free(s.orbit.who)
    free(s.orbit.deltas)
    free(s.orbit.rates)
    free(s.orbit.senders)
    free(s.orbit)
