"""The router on bit masks: SA separable, input first (Dally and Towles, section 19.3), with two round robins.

Each input VC is a bit in the masks of its router (`VcMasks`), and each output has a mask of the input VCs that hold one
of its VCs (`State.masks.requests`). A few operations then find all eligible flits of 64 VCs and all that lack a credit;
all input ports arbitrate at once, and each output arbitrates among its requests. Mispredictions depend on the number of
winners only, not on every VC and stall.

switch_allocator.pyx has all other options (router_choice.py says which): priorities, speculation, input speed-up,
pools.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.fast_path.bit_arbiter cimport advance_pointers, arbitrate_inputs, bits_from_place, step_pointers
from pyxsim.core.latency.router_waits cimport record_contender, record_sa_losers, record_stall, waits_for_vc
from pyxsim.core.router.arbiter cimport after
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.router.crossbar cimport traverse_winners
from pyxsim.core.router.route_computation cimport compute_pending_routes
from pyxsim.core.router.stall_counters cimport (
    ARBITRATION_BITS,
    CREDIT_BITS,
    SERIAL_BITS,
    begin_visit,
    count_stall,
    fall_asleep,
    is_stalled,
)
from pyxsim.core.router.vc_allocator cimport allocate_vcs, free_vc, grant_ranges, grant_vc, request_range
from pyxsim.core.state.bits cimport clear_bit, lowest, seldom
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport (
    NONE,
    STALL_ARBITRATION,
    STALL_CREDIT,
    STALL_SERIAL,
    STALL_VC,
    WAKE,
    InputVc,
    Link,
    Router,
    VcMasks,
    VcRange,
)


cdef struct RouterMasks:
    # Sets of input VCs of one router, as masks.
    uint64_t eligible[64]    # can request the switch
    uint64_t no_credit[64]   # lack a credit
    uint64_t link_busy[64]   # lack the link
    uint64_t pick[64]        # one eligible VC per input port
    uint64_t granted[64]
    uint64_t lost[64]
    uint64_t heads[64]       # may try VA


cdef inline int32_t vc_at_place(State* s, Router* r, int32_t place) noexcept nogil:
    """The input VC at a mask bit."""
    return r.base + s.masks.vc_at_bit[(64 * r.word & s.masks.per_router) + place]


cdef inline void request_switch_without_va(
    State* s, Router* r, RouterMasks* masks, int32_t word, uint64_t heads
) noexcept nogil:
    """va = 0: heads request the switch directly if there is a free VC for them."""
    cdef int32_t vc, pick, cause
    cdef InputVc* v
    while heads:
        vc = vc_at_place(s, r, word * 64 + lowest(heads))
        v = &s.vcs.input[vc]
        if v.out_link != NONE:
            pick = free_vc(s, vc, s.links.low[v.range_row], s.links.high[v.range_row])
            if pick >= 0:
                masks.eligible[word] |= heads & (~heads + 1)
            else:
                cause = STALL_VC if pick == -1 else STALL_CREDIT
                count_stall(s, v.out_link, cause)
                if s.config.attribution:
                    record_stall(s, vc, cause)
        heads &= heads - 1


cdef inline bint grant_single_head(State* s, Router* r, int32_t router, int32_t vc, int64_t t) noexcept nogil:
    """VA, rotating, for a single head, which wins. Return False if there is no free VC."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef Link* link = &s.links.link[v.out_link]
    cdef VcRange* vc_range = &s.vcs.ranges[link.base + s.links.low[v.range_row]]
    cdef uint64_t in_range = bits_from_place(s.links.low[v.range_row]) & ~bits_from_place(s.links.high[v.range_row])
    cdef uint64_t unheld = s.vcs.unheld[link.word] & in_range
    cdef uint64_t later = unheld & bits_from_place(vc_range.next)
    cdef int32_t pick
    if not unheld:
        count_stall(s, v.out_link, STALL_VC)
        if s.config.attribution:
            waits_for_vc(s, vc)
        return False
    pick = lowest(later if later else unheld)
    grant_vc(s, router, vc, link.base + pick, t)
    vc_range.next = pick + 1
    vc_range.requester = after(vc - r.base, r.input_vcs)
    return True


cdef inline bint allocate_vc_ranges(
    State* s, Router* r, int32_t router, uint64_t* heads, int64_t t, int32_t words
) noexcept nogil:
    """VA, rotating. Return whether any head requested a VC."""
    cdef int32_t word, vc
    cdef int32_t requested = 0
    cdef uint64_t bits
    if words == 1 and not heads[0] & (heads[0] - 1):
        if not heads[0]:
            return False
        vc = vc_at_place(s, r, lowest(heads[0]))
        if not s.vcs.input[vc].multi and s.vcs.input[vc].out_link != NONE:
            return grant_single_head(s, r, router, vc, t)
    for word in range(words):
        bits = heads[word]
        while bits:
            requested = request_range(s, router, vc_at_place(s, r, word * 64 + lowest(bits)), t, requested)
            bits &= bits - 1
    if requested:
        grant_ranges(s, router, t, requested)
    return requested != 0


cdef inline void record_requests(State* s, Router* r, RouterMasks* masks, int32_t words) noexcept nogil:
    """Attribution: record which VCs request the switch, and why others cannot."""
    cdef int32_t word, vc
    cdef uint64_t bits
    for word in range(words):
        bits = masks.eligible[word] | masks.no_credit[word] | masks.link_busy[word]
        while bits:
            vc = vc_at_place(s, r, word * 64 + lowest(bits))
            if bits & (~bits + 1) & masks.eligible[word]:
                record_contender(s, vc)
            else:
                record_stall(s, vc, STALL_CREDIT if bits & (~bits + 1) & masks.no_credit[word] else STALL_SERIAL)
            bits &= bits - 1


cdef inline int32_t arbitrate_output(
    uint64_t* requests, uint64_t* pick, int32_t place, int32_t words, uint64_t* bit
) noexcept nogil:
    """Round-robin arbitration at one output, from mask bit `place` on. Return the word, and in `bit` the winner."""
    cdef uint64_t candidates, later
    cdef int32_t word
    cdef int32_t first = 0
    if words == 1:
        candidates = requests[0] & pick[0]
        later = candidates >> place << place
        candidates = later if later else candidates
        bit[0] = candidates & (~candidates + 1)
        return 0
    bit[0] = 0
    for word in range(words):
        candidates = requests[word] & pick[word]
        if candidates:
            later = candidates & bits_from_place(place - 64 * word)
            if later:
                bit[0] = later & (~later + 1)
                return word
            if not bit[0]:
                bit[0] = candidates & (~candidates + 1)
                first = word
    return first


cdef inline int32_t following_port(Router* r, int32_t number) noexcept nogil:
    """The next input port, cyclically, without a branch."""
    return (number + 1) & -<int32_t> (number + 1 < r.in_end - r.in_start)


cdef inline void grant_output(State* s, Router* r, int32_t out, int32_t word, uint64_t bit) noexcept nogil:
    """An output grants an input VC."""
    cdef int32_t place = 64 * word + lowest(bit)
    cdef int32_t* pointer = &s.arbiters.out_pointer[r.out_start + out]
    s.scratch.winners[s.scratch.winner_count] = vc_at_place(s, r, place)
    s.scratch.winner_count += 1
    pointer[0] = following_port(r, pointer[0] if s.config.step_arbiter else place >> s.masks.port_shift)


cdef inline void select_output_winners(State* s, Router* r, RouterMasks* masks, int32_t words) noexcept nogil:
    """Arbitrate at each output that any input port requests."""
    cdef uint8_t* out_at = &s.masks.out_at[64 * r.word]
    cdef uint64_t* requests = &s.masks.requests[r.out_start * s.masks.most_words]
    cdef uint64_t requested = 0
    cdef uint64_t bits
    cdef int32_t word, out
    for word in range(words):
        bits = masks.pick[word]
        while bits:
            requested |= <uint64_t> 1 << out_at[64 * word + lowest(bits)]
            bits &= bits - 1
    while requested:
        out = lowest(requested)
        requested &= requested - 1
        bits = 0
        word = arbitrate_output(
            &requests[out * s.masks.most_words], masks.pick,
            s.arbiters.out_pointer[r.out_start + out] << s.masks.port_shift, words, &bits)
        masks.granted[word] |= bits
        grant_output(s, r, out, word, bits)


cdef inline void count_stall_at(State* s, Router* r, uint64_t ports, int32_t shift) noexcept nogil:
    """Count a cause for these outputs."""
    while ports:
        s.stats.port_stalls[r.out_start + lowest(ports)] += <uint64_t> 1 << shift
        ports &= ports - 1


cdef inline void count_stall_cause(
    State* s, Router* r, uint64_t* places, int32_t words, int32_t shift, uint64_t ports
) noexcept nogil:
    """Count a cause once per output that a VC in these masks requests, except for `ports`, for which it has counted."""
    cdef uint8_t* out_at = &s.masks.out_at[64 * r.word]
    cdef uint64_t* stalls = &s.stats.port_stalls[r.out_start]
    cdef uint64_t bits
    cdef int32_t word, port
    for word in range(words):
        bits = places[word]
        while bits:
            port = out_at[64 * word + lowest(bits)]
            stalls[port] += (~ports >> port & 1) << shift
            ports |= <uint64_t> 1 << port
            bits &= bits - 1


cdef inline void record_sleep_causes(
    State* s, Router* r, int32_t router, RouterMasks* masks, int32_t words, int64_t t
) noexcept nogil:
    """Record why flits stall at a router that falls asleep; the causes persist until it wakes."""
    cdef uint64_t* requests = &s.masks.requests[r.out_start * s.masks.most_words]
    cdef int32_t port, word
    cdef uint64_t lost, no_credit, link_busy, causes
    for port in range(r.out_end - r.out_start):
        lost = s.scratch.lost >> port & 1
        no_credit = s.scratch.no_credit >> port & 1
        link_busy = 0
        for word in range(words):
            lost |= requests[word] & masks.lost[word]
            no_credit |= requests[word] & masks.no_credit[word]
            link_busy |= requests[word] & masks.link_busy[word]
        causes = (
            (s.scratch.no_vc >> port & 1) * STALL_VC | (no_credit != 0) * STALL_CREDIT | (link_busy != 0) * STALL_SERIAL
            | (lost != 0) * STALL_ARBITRATION
        )
        if causes:
            fall_asleep(s, router, port, <uint8_t> causes, t)
        requests += s.masks.most_words


cdef inline bint count_stalls(State* s, Router* r, RouterMasks* masks, int32_t words) noexcept nogil:
    """Count each cause once per output. Return whether there is any."""
    cdef int32_t word
    cdef uint64_t lost = s.scratch.lost
    cdef uint64_t no_credit = s.scratch.no_credit
    cdef uint64_t link_busy = 0
    for word in range(words):
        masks.lost[word] = masks.eligible[word] & ~masks.granted[word]
        lost |= masks.lost[word]
        no_credit |= masks.no_credit[word]
        link_busy |= masks.link_busy[word]
    if lost:
        count_stall_at(s, r, s.scratch.lost, ARBITRATION_BITS)
        count_stall_cause(s, r, masks.lost, words, ARBITRATION_BITS, s.scratch.lost)
    if no_credit:
        count_stall_at(s, r, s.scratch.no_credit, CREDIT_BITS)
        count_stall_cause(s, r, masks.no_credit, words, CREDIT_BITS, s.scratch.no_credit)
    if link_busy:
        count_stall_cause(s, r, masks.link_busy, words, SERIAL_BITS, 0)
    count_stall_at(s, r, s.scratch.no_vc, 0)
    return (s.scratch.no_vc | lost | no_credit | link_busy) != 0


cdef inline void visit_router_bitmask(State* s, int32_t router, int64_t t, int32_t words, bint traced) noexcept nogil:
    """Visit one router. The compiler specialises this for `words` and `traced`."""
    cdef Router* r = &s.routers.router[router]
    cdef VcMasks* inputs = &s.masks.inputs[r.word]
    cdef RouterMasks masks
    cdef int32_t word
    cdef uint64_t held, bits, any_eligible
    cdef uint64_t early = 0
    cdef int64_t again = INT64_MAX
    cdef int64_t va_again = INT64_MAX
    cdef bint asleep, stalled
    if seldom(is_stalled(s, r)):
        begin_visit(s, router, t)
    if seldom(r.unrouted):
        compute_pending_routes(s, router, t)
    for word in range(words):
        held = inputs[word].occupied & inputs[word].holding
        masks.eligible[word] = held & inputs[word].credit
        masks.no_credit[word] = held & ~inputs[word].credit
        masks.granted[word] = 0
        inputs[word].early[t & 3] = 0
        bits = inputs[word].early[0] | inputs[word].early[1] | inputs[word].early[2] | inputs[word].early[3]
        masks.heads[word] = inputs[word].heads & ~bits
        early |= bits
        if not s.config.va:
            request_switch_without_va(s, r, &masks, word, masks.heads[word])
        masks.link_busy[word] = masks.eligible[word] & s.masks.blocked[r.word + word]
        masks.eligible[word] &= ~masks.link_busy[word]
    # VA comes after the masks are read: a head that gets a VC now may go from the next cycle on.
    if s.config.va and s.config.va_rotating:
        if allocate_vc_ranges(s, r, router, masks.heads, t, words):
            va_again = t + 1
    elif s.config.va:
        va_again = allocate_vcs(s, router, t)
    if traced and s.config.attribution:
        record_requests(s, r, &masks, words)
    any_eligible = 0
    for word in range(words):
        any_eligible |= masks.eligible[word]
        masks.pick[word] = 0
        if words == 1 or masks.eligible[word]:
            masks.pick[word] = arbitrate_inputs(s, masks.eligible[word], s.arbiters.input_turn[r.word + word])
    if any_eligible:
        s.stats.changed = 1
        select_output_winners(s, r, &masks, words)
        for word in range(words):
            if words > 1 and not masks.pick[word]:
                continue
            if s.config.step_arbiter:
                s.arbiters.input_turn[r.word + word] = step_pointers(
                    s, s.arbiters.input_turn[r.word + word], masks.pick[word], s.masks.valid_bits[r.word + word])
            else:
                s.arbiters.input_turn[r.word + word] = advance_pointers(
                    s, s.arbiters.input_turn[r.word + word], masks.granted[word], s.masks.valid_bits[r.word + word])
        if traced:   # in the order that attribution requires
            traverse_winners(s, t, traced, False, False)
        if traced and s.config.attribution:
            if s.latency.rival_count > s.latency.winner_count:
                record_sa_losers(s)
            s.latency.rival_count = 0
            s.latency.winner_count = 0
    elif va_again != t + 1:
        if early:
            again = next_try(inputs, words, t, again)
        again = va_again if va_again < again else again
    asleep = not any_eligible and va_again != t + 1 and again > t + 1
    stalled = count_stalls(s, r, &masks, words)
    if asleep:
        if stalled:
            record_sleep_causes(s, r, router, &masks, words, t)
        clear_bit(s.routers.active, router)
        if again != INT64_MAX:
            schedule(s, again, router, WAKE)
    s.scratch.no_vc = s.scratch.no_credit = s.scratch.lost = 0


cdef inline int64_t next_try(VcMasks* inputs, int32_t words, int64_t t, int64_t again) noexcept nogil:
    """The first tick in which a head may try that may not yet."""
    cdef int32_t word, ticks
    for ticks in range(1, 4):
        for word in range(words):
            if inputs[word].early[(t + ticks) & 3] and t + ticks < again:
                return t + ticks
    return again
