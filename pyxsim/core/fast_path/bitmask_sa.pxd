"""SA on bit masks: separable, input first (Dally and Towles, section 19.3), where nothing but two round robins decides.

Each input VC has a place, a bit, in the masks of its router (`VcMasks`), and each output a mask of those that hold one
of its VCs (`wants`). So all that could go, and all that lacks a credit, is found by a few operations for 64 VCs at
once, each input port picks in all of them at the same time, and each output chooses among those that want it. What
happens next is guessed wrongly by the processor only where the number of winners changes, not for every VC and reason.

switch_allocator.pyx is for everything else (`bitmask_sa` in engine.pyx says what): ranks, bids, parts, pools of slots.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.router.arbiter cimport after
from pyxsim.core.state.bits cimport clear_bit, lowest, prefetch, seldom
from pyxsim.core.router.buffer cimport mask_bit_of, masks_of, pop_packet
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.router.crossbar cimport finish_packet, traverse_switch
from pyxsim.core.router.route_computation cimport route_new_heads, compute_pending_routes
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport (
    IDLE,
    NONE,
    ROTATING,
    STALL_ARBITRATION,
    STALL_CREDIT,
    STALL_SERIAL,
    STALL_VC,
    WAKE,
    InPort,
    InputVc,
    Link,
    OutputVc,
    Router,
    VcMasks,
    VcRange,
)
from pyxsim.core.router.stall_counters cimport ARBITRATION_BITS, CREDIT_BITS, SERIAL_BITS, begin_visit, fall_asleep, is_stalled, count_stall
from pyxsim.core.router.vc_allocator cimport allocate_vcs, request_range, free_vc, grant_vc, grant_ranges
from pyxsim.core.latency.router_waits cimport record_contender, record_stall, waits_for_vc, record_sa_losers


cdef enum:
    MOST_WORDS = 64    # of a router's input VCs
    MOST_OUTPUTS = 64
    WINNERS_AHEAD = 6


cdef struct RouterMasks:
    # What is found at a router in one cycle, as sets of places of its input VCs.
    uint64_t eligible[64]        # could go
    uint64_t no_credit[64]      # lack a credit
    uint64_t link_busy[64]      # lack the link
    uint64_t pick[64]        # of those that could go, one for each input port
    uint64_t granted[64]
    uint64_t lost[64]
    uint64_t heads[64]       # may try for a VC


cdef inline uint64_t bits_from_place(int32_t place) noexcept nogil:
    """All bits of a word from a place on, which may lie before it or behind."""
    return ~(<uint64_t> 0) if place <= 0 else ~(<uint64_t> 0) << place if place < 64 else 0


cdef inline int32_t vc_at_place(State* s, Router* r, int32_t place) noexcept nogil:
    """The input VC at a place."""
    return r.base + s.masks.vc_at_bit[(64 * r.word & s.masks.per_router) + place]


cdef inline uint64_t ports_with(State* s, uint64_t places) noexcept nogil:
    """The last place of each port that has any of these places."""
    return (((places & ~s.masks.port_high) + ~s.masks.port_high) | places) & s.masks.port_high


cdef inline uint64_t all_bits_of(State* s, uint64_t ports) noexcept nogil:
    """All places of ports that are named by their last ones."""
    return (ports << 1) - (ports >> ((1 << s.masks.port_shift) - 1))


cdef inline uint64_t arbitrate_inputs(State* s, uint64_t asking, uint64_t turn) noexcept nogil:
    """Of each port's VCs that ask the first at or after its pointer, wrapping round; `turn`: the places from there on.

    Within a port, as in any number, subtracting 1 turns the lowest bit that is set, and those below, and no others. The
    last place of each port is set before, so that nothing is borrowed from the next one.
    """
    cdef uint64_t later = asking & turn
    asking = later | (asking & ~all_bits_of(s, ports_with(s, later)))
    return asking & ~((asking | s.masks.port_high) - s.masks.port_low)


cdef inline uint64_t advance_pointers(State* s, uint64_t turn, uint64_t granted, uint64_t places) noexcept nogil:
    """The places from the pointers on, when these are behind the VCs that were granted."""
    cdef uint64_t ports = ports_with(s, granted)
    return (turn & ~all_bits_of(s, ports)) | (((ports - granted) << 1) & places)


cdef inline uint64_t step_pointers(State* s, uint64_t turn, uint64_t picked, uint64_t places) noexcept nogil:
    """Garnet's: the pointer of each port that picked is one further."""
    cdef uint64_t port, left
    while picked:
        port = all_bits_of(s, ports_with(s, picked & (~picked + 1)))
        left = turn & port
        left &= left - 1
        turn = (turn & ~port) | (left if left else places & port)
        picked &= picked - 1
    return turn


cdef inline void request_switch_without_va(State* s, Router* r, RouterMasks* masks, int32_t word, uint64_t heads) noexcept nogil:
    """va = 0: heads whose time has come ask for the switch if there is a VC for them."""
    cdef int32_t vc, pick, cause
    cdef InputVc* v
    while heads:
        vc = vc_at_place(s, r, word * 64 + lowest(heads))
        v = &s.vcs.input[vc]
        if v.out_link != NONE:
            pick = free_vc(s, v.out_link, s.links.low[v.range_row], s.links.high[v.range_row], s.pools.packets[v.packet].flits)
            if pick >= 0:
                masks.eligible[word] |= heads & (~heads + 1)
            else:
                cause = STALL_VC if pick == -1 else STALL_CREDIT
                count_stall(s, v.out_link, cause)
                if s.config.attribution:
                    record_stall(s, vc, cause)
        heads &= heads - 1


cdef inline bint grant_single_head(State* s, Router* r, int32_t router, int32_t vc, int64_t t) noexcept nogil:
    """VA, rotating, where one head asks for one range, and so wins. Tells whether there is a VC for it."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef Link* link = &s.links.link[v.out_link]
    cdef VcRange* vc_range = &s.vcs.ranges[link.base + s.links.low[v.range_row]]
    cdef uint64_t unheld = s.vcs.unheld[link.word] & bits_from_place(s.links.low[v.range_row]) & ~bits_from_place(s.links.high[v.range_row])
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
    """VA, rotating. Tells whether any head could ask."""
    cdef int32_t word, vc
    cdef int32_t asked = 0
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
            asked = request_range(s, router, vc_at_place(s, r, word * 64 + lowest(bits)), t, asked)
            bits &= bits - 1
    if asked:
        grant_ranges(s, router, t, asked)
    return asked != 0


cdef inline void record_requests(State* s, Router* r, RouterMasks* masks, int32_t words) noexcept nogil:
    """Attribution: who asks for the switch, and who cannot."""
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
    """Of the VCs that were picked and want an output, the first at or after a place, wrapping round. Returns its word;
    `bit`: its place in it."""
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
    """The input port behind another one, by arithmetic: behind the last one comes the first."""
    return (number + 1) & -<int32_t> (number + 1 < r.in_end - r.in_start)


cdef inline void grant_output(State* s, Router* r, int32_t out, int32_t word, uint64_t bit) noexcept nogil:
    """An output grants the input of a VC."""
    cdef int32_t place = 64 * word + lowest(bit)
    cdef int32_t* pointer = &s.arbiters.out_pointer[r.out_start + out]
    s.scratch.winners[s.scratch.winner_count] = vc_at_place(s, r, place)
    s.scratch.winner_count += 1
    pointer[0] = following_port(r, pointer[0] if s.config.step_arbiter else place >> s.masks.port_shift)


cdef inline void select_output_winners(State* s, Router* r, RouterMasks* masks, int32_t words) noexcept nogil:
    """Each output that an input picked a VC for grants one of these inputs."""
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
            &requests[out * s.masks.most_words], masks.pick, s.arbiters.out_pointer[r.out_start + out] << s.masks.port_shift, words, &bits)
        masks.granted[word] |= bits
        grant_output(s, r, out, word, bits)


cdef inline void finish_packets(State* s, int32_t count, int64_t t, bint unit) noexcept nogil:
    """`finish_packet` where `State.path.batch_path`: the next packets come to the front together."""
    cdef int32_t fronts = 0
    cdef int32_t i, vc
    cdef uint64_t bit
    cdef InputVc* v
    cdef Link* wire
    cdef VcMasks* inputs
    for i in range(count):
        vc = s.scratch.tails[i]
        v = &s.vcs.input[vc]
        wire = &s.links.link[v.out_link]
        inputs = &s.masks.inputs[v.mask_bit >> 6]
        bit = <uint64_t> 1 << (v.mask_bit & 63)
        inputs.holding &= ~bit
        inputs.credit &= ~bit
        s.masks.requests[wire.outlet] &= ~bit
        if not unit:
            s.masks.blocked[v.mask_bit >> 6] &= ~bit
        s.vcs.unheld[wire.word] |= <uint64_t> 1 << (v.out_vc - wire.base)
        s.vcs.output[v.out_vc].holder = s.masks.no_holder_bit
        pop_packet(s, vc)
        v.state = IDLE
        s.scratch.new_heads[fronts] = vc
        fronts += v.occupancy != 0
    route_new_heads(s, s.scratch.new_heads, fronts, t + 1)


cdef inline void traverse_winners(State* s, int64_t t, bint tell, bint plain, bint unit) noexcept nogil:
    """All that won leave: tails apart, as that is where it is guessed wrongly whether one is."""
    cdef int32_t i
    cdef int32_t tails = 0
    cdef int32_t count = s.scratch.winner_count
    cdef int32_t vc
    cdef bint tail
    cdef InputVc* v
    for i in range(count):
        if s.path.prefetch:
            prefetch_winners(s, i)
        vc = s.scratch.winners[i]
        v = &s.vcs.input[vc]
        tail = traverse_switch(
            s, &s.ports.input[v.port], &s.masks.inputs[v.mask_bit >> 6], <uint64_t> 1 << (v.mask_bit & 63), vc, t, t, True, tell, plain,
            unit)
        s.scratch.tails[tails] = vc
        tails += tail
    s.stats.router_visits += count
    s.scratch.winner_count = 0
    if plain:
        finish_packets(s, tails, t, unit)
        return
    for i in range(tails):
        finish_packet(s, s.scratch.tails[i], t, t, True, tell)


cdef inline void prefetch_winners(State* s, int32_t i) noexcept nogil:
    """Large networks: bring what the next flits need into the cache. Behind the last one are some of earlier cycles."""
    cdef InputVc* v = &s.vcs.input[s.scratch.winners[i + WINNERS_AHEAD]]
    prefetch(&s.vcs.input[s.scratch.winners[i + 2 * WINNERS_AHEAD]])
    prefetch(&s.links.link[v.out_link])
    prefetch(&s.vcs.output[v.out_vc])


cdef inline void count_stall_at(State* s, Router* r, uint64_t ports, int32_t shift) noexcept nogil:
    """A cause counts for these outputs."""
    while ports:
        s.stats.port_stalls[r.out_start + lowest(ports)] += <uint64_t> 1 << shift
        ports &= ports - 1


cdef inline void count_stall_cause(
    State* s, Router* r, uint64_t* places, int32_t words, int32_t shift, uint64_t ports
) noexcept nogil:
    """A cause counts once for each output that a VC at one of these places wants; it has counted for these ports."""
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


cdef inline void record_sleep_causes(State* s, Router* r, int32_t router, RouterMasks* masks, int32_t words, int64_t t) noexcept nogil:
    """The router falls asleep: what its flits stall for now they will stall for until it wakes."""
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
    """Once for each output and cause. Tells whether there is any."""
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


cdef inline void visit_router_bitmask(State* s, int32_t router, int64_t t, int32_t words, bint tell) noexcept nogil:
    """A router in one cycle. `words`, `tell`: the compiler makes a copy of this for each."""
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
    # VA, after it is known who holds a VC: who gets one now may go from the next cycle on.
    if s.config.va and s.config.va_allocator == ROTATING:
        if allocate_vc_ranges(s, r, router, masks.heads, t, words):
            va_again = t + 1
    elif s.config.va:
        va_again = allocate_vcs(s, router, t)
    if tell and s.config.attribution:
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
        if tell:   # in the order in which the books want it
            traverse_winners(s, t, tell, False, False)
        if tell and s.config.attribution:
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
