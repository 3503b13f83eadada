"""The counter log: what each cycle of a period adds on each network link, and each host link. It yields the totals at
the ends of windows inside a jump.

A counter of a link grows by at most one per cycle, so a cycle is one bit per counter.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.stdlib cimport calloc, free

from pyxsim.core.fast_forward.detector_state cimport COUNTS, CounterLog, PeriodDetector
from pyxsim.core.router.stall_counters cimport (
    ARBITRATION_BITS,
    COUNT_MOST,
    CREDIT_BITS,
    SERIAL_BITS,
    count_sleeping_stalls,
    settle_counters,
)
from pyxsim.core.state.bits cimport lowest
from pyxsim.core.state.blocks cimport clear_block, copy_block
from pyxsim.core.state.network_state cimport grow_array
from pyxsim.core.state.records cimport NONE, Link


cdef enum:
    MOST_WORDS = 1 << 22     # 32 MiB


cdef int64_t words_per_cycle(State* s) noexcept nogil:
    """Words per cycle: each counter starts a new word."""
    return (<int64_t> s.links.logged + 63) // 64 * COUNTS


cdef bint log_row(State* s, uint64_t* bits) noexcept nogil:
    """Log what the counters have grown by. Return whether any grew by more than one."""
    cdef int64_t words = (s.links.logged + 63) // 64
    cdef int64_t* row = s.detector.totals
    cdef int64_t i, flits, credit, vc, arbitration, serial, all_of
    cdef uint64_t small   # recent stalls that are not yet flushed to the link
    cdef uint64_t* at
    cdef Link* link
    cdef int64_t most = 0
    count_sleeping_stalls(s)
    clear_block(bits, words_per_cycle(s) * sizeof(uint64_t))
    for i in range(s.links.logged):
        link = &s.links.link[i]
        small = s.stats.port_stalls[link.outlet] if link.src != NONE else 0
        flits = link.flits - row[0]
        credit = link.stall_credit + <int64_t> (small >> CREDIT_BITS & COUNT_MOST) - row[1]
        vc = link.stall_vc + <int64_t> (small & COUNT_MOST) - row[2]
        arbitration = link.stall_arbitration + <int64_t> (small >> ARBITRATION_BITS) - row[3]
        serial = link.stall_serial + <int64_t> (small >> SERIAL_BITS & COUNT_MOST) - row[4]
        all_of = flits | credit | vc | arbitration | serial
        if all_of:
            most |= all_of
            row[0] += flits
            row[1] += credit
            row[2] += vc
            row[3] += arbitration
            row[4] += serial
            at = &bits[i >> 6]
            at[0] |= <uint64_t> flits << (i & 63)
            at[words] |= <uint64_t> credit << (i & 63)
            at[2 * words] |= <uint64_t> vc << (i & 63)
            at[3 * words] |= <uint64_t> arbitration << (i & 63)
            at[4 * words] |= <uint64_t> serial << (i & 63)
        row += COUNTS
    return most > 1


cdef void stop_log(State* s) noexcept nogil:
    s.detector.log.first = NONE
    s.detector.sample_due = INT64_MAX


cdef void start_log(State* s) noexcept nogil:
    """Log from this cycle on."""
    cdef PeriodDetector* o = s.detector
    if not log_has_capacity(s, 0):
        return
    log_row(s, o.log.bits)
    o.log.first, o.log.count = s.now, 0
    o.sample_due = s.now + 1


cdef bint log_fits(State* s, int64_t cycles) noexcept nogil:
    return (cycles + 1) * words_per_cycle(s) <= MOST_WORDS


cdef bint log_has_capacity(State* s, int64_t cycles) noexcept nogil:
    """Make room for one more cycle."""
    cdef CounterLog* log = &s.detector.log
    cdef int64_t need = (cycles + 1) * words_per_cycle(s)
    cdef int64_t capacity = min(2 * need + 1024, MOST_WORDS)
    if need <= log.capacity:
        return True
    if not log_fits(s, cycles):
        return False
    log.bits = <uint64_t*> grow_array(s, log.bits, capacity, sizeof(uint64_t))
    if s.failed:
        return False
    log.capacity = capacity
    return True


cdef void log_cycle(State* s) noexcept nogil:
    """Before a cycle: log what the previous one counted."""
    cdef PeriodDetector* o = s.detector
    cdef int64_t count = o.log.count
    if o.log.first == NONE or s.now < o.sample_due:
        return
    if s.now > o.sample_due or not log_has_capacity(s, count) or log_row(s, &o.log.bits[count * words_per_cycle(s)]):
        stop_log(s)
        return
    o.log.count += 1
    o.logged_cycles += 1
    o.sample_due += 1


cdef uint64_t* logged_bits(State* s, int64_t cycle) noexcept nogil:
    """The log from a cycle up to now; NULL if incomplete."""
    cdef CounterLog* log = &s.detector.log
    if log.first == NONE or cycle < log.first or log.first + log.count != s.now:
        return NULL
    return &log.bits[(cycle - log.first) * words_per_cycle(s)]


cdef void add_cycle(State* s, uint64_t* bits, int64_t* sums) noexcept nogil:
    cdef int64_t words = (s.links.logged + 63) // 64
    cdef int64_t i, k
    cdef uint64_t rest
    for k in range(COUNTS):
        for i in range(words):
            rest = bits[k * words + i]
            while rest:
                sums[k * s.links.logged + i * 64 + lowest(rest)] += 1
                rest &= rest - 1


cdef void sum_period(State* s, JumpPlan* plan) noexcept nogil:
    """Sum up what a period of the plan counts, and the totals at the beginning of the current one."""
    cdef PeriodDetector* o = s.detector
    cdef int64_t count = s.links.logged
    cdef int64_t i
    clear_block(o.period_totals, COUNTS * count * sizeof(int64_t))
    clear_block(o.base_totals, COUNTS * count * sizeof(int64_t))
    settle_counters(s)
    for i in range(plan.period):
        if i == plan.offset:
            copy_block(o.base_totals, o.period_totals, COUNTS * count * sizeof(int64_t))
        add_cycle(s, &plan.bits[i * words_per_cycle(s)], o.period_totals)
    for i in range(count):
        o.base_totals[i] = s.links.link[i].flits - o.base_totals[i]
        o.base_totals[count + i] = s.links.link[i].stall_credit - o.base_totals[count + i]
        o.base_totals[2 * count + i] = s.links.link[i].stall_vc - o.base_totals[2 * count + i]
        o.base_totals[3 * count + i] = s.links.link[i].stall_arbitration - o.base_totals[3 * count + i]
        o.base_totals[4 * count + i] = s.links.link[i].stall_serial - o.base_totals[4 * count + i]
    plan.summed = True


cdef void totals_at_cycles(
    State* s, JumpPlan* plan, int64_t* cycles, int64_t* order, int64_t count, int64_t* rows
) noexcept nogil:
    """Totals at the beginning of some cycles inside a jump: `rows`, int64[count, COUNTS, logged links].

    `order`: sorts the cycles by their offset in the period. The last one may be the end.
    """
    cdef PeriodDetector* o = s.detector
    cdef int64_t size = COUNTS * <int64_t> s.links.logged
    cdef int64_t* sums = <int64_t*> calloc(size + 1, sizeof(int64_t))   # up to the current offset
    cdef int64_t* row
    cdef int64_t i, k, cycle, rounds
    cdef int64_t at = 0
    if sums == NULL:
        s.failed = 1
        return
    if not plan.summed:
        sum_period(s, plan)
    for k in range(count):
        cycle = plan.offset + cycles[order[k]] - s.now
        rounds = cycle // plan.period
        while at < cycle - rounds * plan.period:
            add_cycle(s, &plan.bits[at * words_per_cycle(s)], sums)
            at += 1
        row = &rows[order[k] * size]
        for i in range(size):
            row[i] = o.base_totals[i] + rounds * o.period_totals[i] + sums[i]
    free(sums)
