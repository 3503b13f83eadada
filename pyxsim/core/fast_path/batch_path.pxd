"""The batch path: VA and SA of up to 64 routers, stage by stage. Read `visit_router_batch` at the end first.

It does what bitmask_sa.pxd does router by router, where `State.path.batch_path`. How many flits request the switch at a
router is hard to predict for a processor, which then also waits for memory. So all routers of one word of
`State.routers.active` go through a stage together, and branch-free code builds the lists of requests, conflicts and
idle routers: a misprediction costs once per list, and does not delay the next router.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.fast_path.batch_lists cimport ROUTERS, RouterBatch, RouterRequests
from pyxsim.core.fast_path.batch_va cimport allocate_vcs_batch
from pyxsim.core.fast_path.bit_arbiter cimport advance_pointers, arbitrate_inputs
from pyxsim.core.fast_path.bitmask_sa cimport next_try
from pyxsim.core.router.arbiter cimport distance
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.router.stall_counters cimport ARBITRATION_BITS, CREDIT_BITS, SERIAL_BITS, begin_visit, fall_asleep
from pyxsim.core.state.bits cimport clear_bit, lowest, seldom
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport STALL_CREDIT, STALL_SERIAL, STALL_VC, WAKE, InputVc, Router, VcMasks


cdef inline void collect_requests(State* s, RouterBatch* b, int32_t word, int64_t t, bint unit_rate) noexcept nogil:
    """Find eligible front flits and what others lack, and arbitrate at each input port."""
    cdef uint64_t bits = s.routers.active[word]
    cdef uint64_t held, early, eligible
    cdef uint64_t link_busy = 0
    cdef int32_t router
    cdef int32_t count = 0
    cdef int32_t picks = 0
    cdef int32_t heads = 0
    cdef int32_t no_credit = 0
    cdef int32_t busy = 0
    cdef int32_t idle = 0
    cdef VcMasks* inputs
    cdef RouterRequests* requests
    while bits:
        router = word * 64 + lowest(bits)
        bits &= bits - 1
        if seldom(s.stats.stalled_ports[router]):   # all its outputs are in one word
            begin_visit(s, router, t)
        requests = &b.requests[count]
        inputs = &s.masks.inputs[router]
        held = inputs.occupied & inputs.holding
        eligible = held & inputs.credit
        if not unit_rate:
            link_busy = eligible & s.masks.blocked[router]
            eligible &= ~link_busy
            requests.link_busy = link_busy
            b.link_busy[busy] = count
            busy += link_busy != 0
        inputs.early[t & 3] = 0
        early = inputs.early[0] | inputs.early[1] | inputs.early[2] | inputs.early[3]
        requests.router = router
        requests.eligible = eligible
        requests.no_credit = held & ~(eligible | link_busy)
        requests.early = early
        requests.has_request = requests.no_vc = requests.lost = 0
        b.pick[picks] = arbitrate_inputs(s, eligible, s.arbiters.input_turn[router])
        b.router[picks] = router
        b.heads[heads] = inputs.heads & ~early
        b.with_picks[picks] = b.with_heads[heads] = b.no_credit[no_credit] = b.idle[idle] = count
        heads += (inputs.heads & ~early) != 0
        no_credit += requests.no_credit != 0
        picks += eligible != 0
        idle += eligible == 0
        count += 1
    b.pick_count, b.head_count, b.idle_count = picks, heads, idle
    b.no_credit_count, b.busy_count = no_credit, busy


cdef inline void select_winners(State* s, RouterBatch* b) noexcept nogil:
    """List the first request for each output as its winner, and all requests as contenders, in one flat loop."""
    cdef int32_t i = 0
    cdef int32_t count = s.scratch.winner_count
    cdef int32_t contenders = 0
    cdef int32_t before, first
    cdef uint64_t bits, more
    cdef int32_t router, place, outlet
    b.pick[b.pick_count] = 0
    bits = b.pick[0]
    while i < b.pick_count:
        router = b.router[i]
        place = lowest(bits)
        outlet = s.routers.bounds[router].out_start + s.masks.out_at[64 * router + place]
        before = s.scratch.output_winner[outlet]
        first = before >> 31 & 1   # 1 if there is no winner yet (NONE)
        s.scratch.output_winner[outlet] = count if first else before
        s.scratch.winners[count] = b.contender[contenders] = s.routers.bounds[router].base + s.masks.vc_at_bit[place]
        b.contender_at[contenders] = i
        count += first
        contenders += 1 - first
        bits &= bits - 1
        more = -<uint64_t> (bits != 0)
        i += bits == 0
        bits |= b.pick[i] & ~more
    s.scratch.winner_count, b.contender_count = count, contenders


cdef inline int32_t pointer_distance(State* s, InputVc* v, int32_t pointer) noexcept nogil:
    """Return how far the input port of a VC is behind the pointer of an output."""
    return distance((v.mask_bit & 63) >> s.masks.port_shift, pointer, s.routers.bounds[v.router].in_ports)


cdef inline void resolve_output_conflicts(State* s, RouterBatch* b) noexcept nogil:
    """Arbitrate among the contenders of an output: the input nearest behind its pointer wins."""
    cdef int32_t i, k, outlet, pointer, loser
    cdef InputVc* v
    cdef InputVc* current
    for i in range(b.contender_count):
        v = &s.vcs.input[b.contender[i]]
        outlet = s.links.link[v.out_link].outlet
        pointer = s.arbiters.out_pointer[outlet]
        k = s.scratch.output_winner[outlet]
        current = &s.vcs.input[s.scratch.winners[k]]
        loser = v.mask_bit
        if pointer_distance(s, v, pointer) < pointer_distance(s, current, pointer):
            loser = current.mask_bit
            s.scratch.winners[k] = b.contender[i]
        b.pick[b.contender_at[i]] &= ~(<uint64_t> 1 << (loser & 63))


cdef inline void count_stalls_once(
    State* s, RouterBatch* b, uint64_t* places, int32_t* router_of, int32_t count, int32_t shift
) noexcept nogil:
    """Count a stall cause once per router and output, except where it has counted for heads already
    (`RouterRequests.lost`)."""
    cdef int32_t i = 0
    cdef int32_t port
    cdef uint64_t bits, counted, more
    cdef RouterRequests* requests
    places[count] = 0
    router_of[count] = ROUTERS
    bits = places[0]
    counted = b.requests[router_of[0]].lost
    while i < count:
        requests = &b.requests[router_of[i]]
        port = s.masks.out_at[64 * requests.router + lowest(bits)]
        s.stats.port_stalls[s.routers.bounds[requests.router].out_start + port] += (~counted >> port & 1) << shift
        counted |= <uint64_t> 1 << port
        bits &= bits - 1
        more = -<uint64_t> (bits != 0)
        i += bits == 0
        bits |= places[i] & ~more
        counted = (counted & more) | (b.requests[router_of[i]].lost & ~more)


cdef inline void count_busy_links(State* s, RouterBatch* b) noexcept nogil:
    """Count stalls on busy links, of which there are fewer than VCs that wait for them."""
    cdef int32_t i, outlet
    cdef uint64_t bits, more
    cdef RouterRequests* requests
    for i in range(b.busy_count):
        b.places[i] = s.masks.busy_outputs[b.requests[b.link_busy[i]].router]
    b.link_busy[b.busy_count] = ROUTERS
    b.places[b.busy_count] = 0
    bits = b.places[0]
    i = 0
    while i < b.busy_count:
        requests = &b.requests[b.link_busy[i]]
        outlet = s.routers.bounds[requests.router].out_start + lowest(bits)
        s.stats.port_stalls[outlet] += <uint64_t> ((s.masks.requests[outlet] & requests.link_busy) != 0) << SERIAL_BITS
        bits &= bits - 1
        more = -<uint64_t> (bits != 0)
        i += bits == 0
        bits |= b.places[i] & ~more


cdef inline void update_pointers_and_stalls(State* s, RouterBatch* b, bint unit_rate) noexcept nogil:
    """Advance the pointers of input ports past their winners, and count each stall cause once per output."""
    cdef int32_t losers = 0
    cdef int32_t i, router
    cdef uint64_t left
    for i in range(b.pick_count):
        router = b.router[i]
        s.arbiters.input_turn[router] = advance_pointers(s, s.arbiters.input_turn[router], b.pick[i],
                                                         s.masks.valid_bits[router])
        left = b.requests[b.with_picks[i]].eligible & ~b.pick[i]
        b.places[losers] = left
        b.subset[losers] = b.with_picks[i]
        losers += left != 0
    count_stalls_once(s, b, b.places, b.subset, losers, ARBITRATION_BITS)
    for i in range(b.no_credit_count):
        b.places[i] = b.requests[b.no_credit[i]].no_credit
        b.requests[b.no_credit[i]].lost = 0
    count_stalls_once(s, b, b.places, b.no_credit, b.no_credit_count, CREDIT_BITS)
    if unit_rate:
        return
    count_busy_links(s, b)


cdef inline void record_sleep_causes(State* s, RouterRequests* requests, int64_t t, bint unit_rate) noexcept nogil:
    """Record why flits stall at a router that falls asleep; the causes persist until it wakes."""
    cdef Router* r = &s.routers.router[requests.router]
    cdef uint64_t ports = requests.no_vc | (0 if unit_rate else s.masks.busy_outputs[requests.router])
    cdef uint64_t bits = requests.no_credit
    cdef int32_t port
    cdef uint8_t causes
    while bits:
        ports |= <uint64_t> 1 << s.masks.out_at[64 * requests.router + lowest(bits)]
        bits &= bits - 1
    while ports:
        port = lowest(ports)
        ports &= ports - 1
        causes = <uint8_t> ((requests.no_vc >> port & 1) * STALL_VC)
        if s.masks.requests[r.out_start + port] & requests.no_credit:
            causes |= <uint8_t> STALL_CREDIT
        if not unit_rate and s.masks.requests[r.out_start + port] & requests.link_busy:
            causes |= <uint8_t> STALL_SERIAL
        if causes:
            fall_asleep(s, requests.router, port, causes, t)


cdef inline void sleep_idle_routers(State* s, RouterBatch* b, int64_t t, bint unit_rate) noexcept nogil:
    """Put routers to sleep in which nothing happened and nothing can happen by itself in the next cycle."""
    cdef int32_t sleepers = 0
    cdef int32_t i
    cdef int64_t again
    cdef RouterRequests* requests
    for i in range(b.idle_count):
        requests = &b.requests[b.idle[i]]
        b.subset[sleepers] = b.idle[i]
        sleepers += (requests.has_request | s.masks.inputs[requests.router].early[(t + 1) & 3]) == 0
    for i in range(sleepers):
        requests = &b.requests[b.subset[i]]
        if requests.no_vc | requests.no_credit or not unit_rate and requests.link_busy:
            record_sleep_causes(s, requests, t, unit_rate)
        clear_bit(s.routers.active, requests.router)
        if requests.early:
            again = next_try(&s.masks.inputs[requests.router], 1, t, INT64_MAX)
            if again != INT64_MAX:
                schedule(s, again, requests.router, WAKE)


cdef inline void visit_router_batch(State* s, RouterBatch* b, int32_t word, int64_t t, bint unit_rate) noexcept nogil:
    """VA and SA for the routers of one word of `State.routers.active`. The compiler specialises this for `unit_rate`.
    """
    collect_requests(s, b, word, t, unit_rate)
    allocate_vcs_batch(s, b, unit_rate)
    s.stats.changed |= b.pick_count != 0
    select_winners(s, b)
    resolve_output_conflicts(s, b)
    update_pointers_and_stalls(s, b, unit_rate)
    sleep_idle_routers(s, b, t, unit_rate)
