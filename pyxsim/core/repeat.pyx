"""Exact fast-forward (docs/fast_forward.md): the network notices that its state is that of some cycles ago.

What decides, seen from `now`, is compared as a whole with a picture of it: where all is equal, the same will happen
again, as nothing else decides. Pictures are dear, so they are taken when 128, 192, 288, ... cycles have passed without
a message that comes or goes; and comparisons are, so they are only made where a few of the entries of the calendar of
the last 64 cycles were those of 64 cycles before a picture. That is a hint and need not be right. The words written and
compared are bounded by the flits that were sent meanwhile, so that a network which never repeats itself loses nothing
to speak of.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from pyxsim.core.bits cimport set_bit
from pyxsim.core.draw cimport GOLDEN
from pyxsim.core.interface cimport next_start
from pyxsim.core.masks cimport rederive
from pyxsim.core.orbit cimport PICTURES, RATES, SAMPLED, Block, Orbit, Picture
from pyxsim.core.repeat_walk cimport walk
from pyxsim.core.state cimport KINDS, NONE, Slot, grown
from pyxsim.core.stats cimport settle
from pyxsim.core.walking cimport ADVANCE, COMPARE, RECORD, Mode, Walk


cdef enum:
    HASHED = 64              # cycles that the bits of a hash remember
    FIRST_AGE = 2 * HASHED
    WORDS_PER_VC = 12        # about, of a picture
    WORDS_AT_FIRST = 1 << 18
    VISITS_PER_WORD = 8      # a word takes some 2 ns, a visit at least 20
    MOST_SAMPLED = 1 << 22   # words: 32 MiB


cdef bint afforded(State* s) noexcept nogil:
    """Another picture, or a comparison with one."""
    return s.orbit.spent + s.orbit.size <= WORDS_AT_FIRST + s.router_visits // VISITS_PER_WORD


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
    o.proved = 0
    stop_sampling(s)


# --- samples --------------------------------------------------------------------------------------------------------

cdef void stop_sampling(State* s) noexcept nogil:
    s.orbit.sample_first = NONE
    s.orbit.sample_due = INT64_MAX


cdef void start_sampling(State* s) noexcept nogil:
    """Where windows end in a period is known only when that is proved, but most are as long as those before."""
    cdef Orbit* o = s.orbit
    cdef int64_t step = o.window
    cdef int64_t rest = o.period
    if not o.period or not o.window:
        return
    while rest:
        step, rest = rest, step % rest
    # A word for a visit: less than the period that would have to be simulated else.
    if o.sampled + o.period // step * SAMPLED * s.network_links > s.router_visits:
        return
    o.sample_step = step
    o.sample_first = o.sample_due = (s.now + step - 1) // step * step
    note_sample(s)


cdef void note_totals(State* s, int64_t* row) noexcept nogil:
    cdef int32_t i
    cdef int32_t count = s.network_links
    settle(s)
    for i in range(count):
        row[i] = s.link[i].flits
        row[count + i] = s.link[i].stall_credit
        row[2 * count + i] = s.link[i].stall_vc
        row[3 * count + i] = s.link[i].stall_arbitration
        row[4 * count + i] = s.link[i].stall_serial


cdef void note_sample(State* s) noexcept nogil:
    """If one is due in this cycle. One that was missed makes the others useless."""
    cdef Orbit* o = s.orbit
    cdef int64_t size = SAMPLED * <int64_t> s.network_links
    cdef int64_t begin = (o.sample_due - o.sample_first) // o.sample_step * size if o.sample_first >= 0 else 0
    cdef int64_t room
    if o.sample_due < s.now or begin + size > MOST_SAMPLED:
        stop_sampling(s)
    elif o.sample_due == s.now:
        if begin + size > o.samples_room:
            room = min(2 * (begin + size), MOST_SAMPLED)
            o.samples = <int64_t*> grown(s, o.samples, room, sizeof(int64_t))
            if s.failed:
                return
            o.samples_room = room
        note_totals(s, &o.samples[begin])
        o.sampled += size
        o.sample_due += o.sample_step


cdef int64_t* sample_at(State* s, int64_t rest) noexcept nogil:
    """The totals so many cycles after the beginning of the period that has just been proved; NULL: nobody noted."""
    cdef Orbit* o = s.orbit
    cdef int64_t cycle = s.now - o.period + rest
    if rest == 0:
        return o.begun
    if o.sample_first < 0 or cycle < o.sample_first or cycle % o.sample_step or cycle >= o.sample_due:
        return NULL
    return &o.samples[(cycle - o.sample_first) // o.sample_step * SAMPLED * s.network_links]


# --- pictures -------------------------------------------------------------------------------------------------------

cdef void walk_with(State* s, Walk* w, Mode mode, Picture* picture) noexcept nogil:
    """Go through the state from its beginning, with every counter brought up to now."""
    settle(s)
    w.mode, w.picture = mode, picture
    w.differs = False
    w.place = w.counted = 0
    walk(s, w)


cdef void take_picture(State* s) noexcept nogil:
    cdef Orbit* o = s.orbit
    cdef Picture* p = &o.pictures[o.count]
    cdef Walk w
    walk_with(s, &w, RECORD, p)
    if s.failed:
        return
    p.cycle, p.same_count, p.counts_count = s.now, w.place, w.counted
    p.latency_sum, p.packets = s.latency_sum, s.packets_delivered
    if p.totals == NULL:
        p.totals = <int64_t*> grown(s, p.totals, SAMPLED * <int64_t> s.network_links + 1, sizeof(int64_t))
        if s.failed:
            return
    note_totals(s, p.totals)
    o.hashes[o.count] = o.hash
    o.count += 1
    o.size = w.place + w.counted
    o.spent += o.size


cdef bint is_again(State* s, int32_t number) noexcept nogil:
    """Is the state that of a picture? If so, a period is proved."""
    cdef Orbit* o = s.orbit
    cdef Picture* p = &o.pictures[number]
    cdef Walk w
    w.deltas, w.deltas_room = o.deltas, o.deltas_room
    w.most = INT64_MAX
    w.stuck = 0
    w.grows = False
    w.old, w.young = -INT64_MAX, INT64_MAX
    walk_with(s, &w, COMPARE, p)
    o.deltas, o.deltas_room = w.deltas, w.deltas_room
    o.spent += w.place + w.counted
    if s.failed or w.differs or w.old > w.young or w.place != p.same_count or w.counted != p.counts_count:
        return False
    if w.most == INT64_MAX or w.stuck:   # nothing is sent; or some packets stand still, which is for the watchdog
        return False
    if o.period != s.now - p.cycle:
        stop_sampling(s)
    o.proved = 1
    o.period = s.now - p.cycle
    o.begun = p.totals
    o.most = w.most
    o.late = 0
    o.latency = s.latency_sum - p.latency_sum
    o.packets = s.packets_delivered - p.packets
    return periods_until(s, o.until) > 0


cdef bint observe(State* s) noexcept nogil:
    """A cycle is about to be visited. True: a period is proved, and whole ones may be skipped."""
    cdef Orbit* o = s.orbit
    cdef int64_t marks = s.joined + s.messages_delivered + s.draws
    cdef int32_t i
    if o.seen == s.now:
        return False
    note_sample(s)
    if marks != o.marks:
        o.marks = marks
        forget(s)
    o.proved = 0
    if o.age >= FIRST_AGE - HASHED:   # of what came before, nothing is left in the hash of the first picture
        o.hash = (o.hash << 1) + fingerprint(s) + <uint64_t> (s.now - o.seen) * 0x2545F491
    o.seen = s.now
    o.age += 1
    if o.age < FIRST_AGE or s.delivered_count:
        return False
    for i in range(o.count):
        if o.hashes[i] == o.hash and afforded(s) and is_again(s, i):
            return True
    if o.age >= o.due and o.count < PICTURES:
        o.due += o.due >> 1
        if afforded(s):
            take_picture(s)
            if o.count == 1:
                start_sampling(s)
    return False


cdef int64_t periods_until(State* s, int64_t until) noexcept nogil:
    """How many periods may be skipped from now on, up to cycle `until` at most."""
    cdef Orbit* o = s.orbit
    if not o.proved or o.seen != s.now:
        return 0
    until = min(until, next_start(s))
    return min(o.most, max(until - s.now, 0) // o.period)


cdef void pass_period(State* s) noexcept nogil:
    """One period of the proved ones has been simulated after all."""
    cdef Orbit* o = s.orbit
    o.seen = s.now
    o.most -= 1
    o.late += 1


cdef int64_t sum_of(int64_t periods, int64_t late, int64_t first, int64_t step) noexcept nogil:
    """Over so many periods, what was `first` in the one that was proved and grows by `step` in each; so many passed."""
    return periods * (first + late * step) + step * (periods * (periods + 1) // 2)


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


cdef void jump(State* s, int64_t periods) noexcept nogil:
    """Let whole periods pass at once. Counters grow by the same in each, but latencies of messages that began before
    it grow by its length, too."""
    cdef Orbit* o = s.orbit
    cdef Walk w
    w.deltas, w.deltas_room = o.deltas, o.deltas_room
    w.periods, w.cycles, w.late = periods, periods * o.period, o.late
    walk_with(s, &w, ADVANCE, NULL)
    turn_wheel(s, w.cycles)
    s.latency_sum += sum_of(periods, o.late, o.latency, o.packets * o.period)
    s.now += w.cycles
    rederive(s)
    s.reported = s.now
    s.changed = 1
    o.seen = s.now
    o.skipped += w.cycles
    o.count = 0
    o.proved = 0
    stop_sampling(s)
    take_picture(s)


cdef bint make_orbit(State* s, int32_t blocks) except -1:
    """Begin to look for periods. `blocks`: arrays that are compared byte by byte."""
    s.orbit = <Orbit*> calloc(1, sizeof(Orbit))
    if s.orbit == NULL:
        raise MemoryError
    s.orbit.blocks = <Block*> calloc(blocks, sizeof(Block))
    s.orbit.rates = <int64_t*> calloc(s.injection_links * RATES + 1, sizeof(int64_t))
    s.orbit.senders = <int64_t*> calloc(s.injection_links + 1, sizeof(int64_t))
    if s.orbit.blocks == NULL or s.orbit.rates == NULL or s.orbit.senders == NULL:
        raise MemoryError
    s.orbit.block_count = blocks
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
        free(s.orbit.pictures[i].same)
        free(s.orbit.pictures[i].counts)
        free(s.orbit.pictures[i].totals)
    free(s.orbit.blocks)
    free(s.orbit.met)
    free(s.orbit.deltas)
    free(s.orbit.samples)
    free(s.orbit.rates)
    free(s.orbit.senders)
    free(s.orbit)
