"""VA: output VCs for heads. `rotating` hands out the VCs of a range in turn; the others match a request matrix.

`allocate_vcs` returns the first tick after `u` in which it could grant more if nothing arrives meanwhile; INT64_MAX if
only an arrival can change anything.
"""

from libc.stdint cimport INT64_MAX

from pyxsim.core.latency.router_waits cimport record_va_losers_matrix, waits_behind, waits_for_vc
from pyxsim.core.router.buffer cimport next_masked_vc, vc_at_mask_bit
from pyxsim.core.router.link cimport credits_needed, flits_in_use, has_credits
from pyxsim.core.router.random_draws cimport DRAW_TIE, draw
from pyxsim.core.router.route_computation cimport all_candidates, set_candidate
from pyxsim.core.state.bits cimport lowest
from pyxsim.core.state.network_state cimport rank_of, reserve_requests
from pyxsim.core.state.records cimport (
    PENALTY_SHIFT,
    STALL_CREDIT,
    STALL_VC,
    WAITING,
    InputVc,
    Request,
    RequestMatrix,
    Router,
)


cdef int32_t free_ring_vc(State* s, int32_t vc, int32_t low, int32_t high) noexcept nogil:
    """`free_vc` with bubble flow control."""
    cdef int32_t base = s.links.link[s.vcs.input[vc].out_link].base
    cdef int32_t credits = credits_needed(s, s.pools.packets[s.vcs.input[vc].packet].flits, True)
    cdef int32_t slots = ring_slots(s, vc)
    cdef int32_t pick = next_unheld_vc(s, vc, low, high)
    if pick < 0:
        return -1
    while pick >= 0:
        if has_credits(s, base + pick, credits) and (not slots or s.vcs.output[base + pick].credit >= slots):
            return pick
        pick = next_unheld_vc(s, vc, pick + 1, high)
    return -2


cdef void count_no_vc_stall(State* s, int32_t vc, int32_t count) noexcept nogil:
    """No VC counts as free for this head, in its range or in any of its candidates (`candidate_link`)."""
    cdef int32_t i
    if not s.vcs.input[vc].multi:
        count_stall(s, s.vcs.input[vc].out_link, STALL_VC if lowest_free_vc(s, vc) < 0 else STALL_CREDIT)
    else:
        for i in range(count - 1, -1, -1):   # the first candidate is set last, and stays
            set_candidate(s, vc, s.routes.candidate_link[i], s.routes.candidate_class[i])
            count_stall(s, s.vcs.input[vc].out_link, STALL_VC if lowest_free_vc(s, vc) < 0 else STALL_CREDIT)
    if s.config.attribution:
        waits_for_vc(s, vc)


cdef int64_t allocate_vcs(State* s, int32_t router, int64_t u) noexcept nogil:
    """Heads request output VCs."""
    cdef Router* r = &s.routers.router[router]
    cdef int64_t again = INT64_MAX
    cdef int32_t requested = 0
    cdef int32_t word, vc
    cdef uint64_t bits
    for word in range(r.words):
        bits = s.masks.inputs[r.word + word].heads
        while bits:
            vc = vc_at_mask_bit(s, r, word * 64 + lowest(bits))
            bits &= bits - 1
            if s.vcs.input[vc].ready > u:
                if s.vcs.input[vc].ready < again:
                    again = s.vcs.input[vc].ready
            elif s.config.va_rotating:
                requested = request_range(s, router, vc, u, requested)
            else:
                requested = request_vcs(s, router, vc, u, requested)
    if s.failed or not requested:
        return again
    if s.config.va_rotating:
        grant_ranges(s, router, u, requested)
    else:
        grant_matched_vcs(s, router, u, requested)
    return u + 1


# --- rotating -------------------------------------------------------------------------------------------------------

cdef bint select_range(State* s, int32_t router, int32_t vc) noexcept nogil:
    """Select which of several candidates to request now. False: no VC of any counts as free."""
    cdef int32_t packet = s.vcs.input[vc].packet
    cdef int32_t count = 0
    cdef int32_t own_count = all_candidates(s, vc, &count)
    cdef int32_t best = NONE
    cdef int32_t start, turn, i, size, offset
    cdef int64_t least = INT64_MAX
    cdef int64_t used
    for offset in range(2):   # the plane itself, then its escape plane
        size = own_count if offset == 0 else count - own_count
        start = 0
        if offset == 0 and own_count > 1:
            start = draw(s.pools.packets[packet].key, router, DRAW_TIE, own_count)
            s.routes.draws += 1
        for turn in range(size):
            i = (start + turn) % size + (0 if offset == 0 else own_count)
            set_candidate(s, vc, s.routes.candidate_link[i], s.routes.candidate_class[i])
            if first_usable_vc(s, vc, s.links.low[s.vcs.input[vc].range_row],
                               s.links.high[s.vcs.input[vc].range_row]) < 0:
                continue
            used = flits_in_use(s, s.vcs.input[vc].out_link)
            if used < least:
                best, least = i, used
        if best != NONE:
            set_candidate(s, vc, s.routes.candidate_link[best], s.routes.candidate_class[best])
            s.vcs.input[vc].multi = (s.vcs.input[vc].multi & ~MULTI_ESCAPE) | (0 if offset == 0 else MULTI_ESCAPE)
            return True
    count_no_vc_stall(s, vc, count)
    return False


cdef bint is_oldest_head(State* s, int32_t router, int32_t vc) noexcept nogil:
    """Ordered: is no older head at the same port still waiting for a VC of the same link?

    Otherwise a head could wait for VCs whose packets wait behind it at the switch.
    """
    cdef InputVc* v = &s.vcs.input[vc]
    cdef uint64_t* heads = &s.masks.inputs[s.routers.router[router].word].heads
    cdef int32_t end = s.links.link[v.link].vc_offset + s.links.link[v.link].vcs
    cdef int32_t place = next_masked_vc(heads, s.links.link[v.link].vc_offset, end)
    cdef int32_t oldest = vc
    cdef int32_t other
    while place >= 0:
        other = s.routers.router[router].base + place
        if s.vcs.input[other].out_link == v.out_link and (
            s.vcs.front_time[other] < s.vcs.front_time[oldest]
            or (s.vcs.front_time[other] == s.vcs.front_time[oldest] and other < oldest)
        ):
            oldest = other
        place = next_masked_vc(heads, place + 1, end)
    if oldest == vc:
        return True
    count_stall(s, v.out_link, STALL_ARBITRATION)
    if s.config.attribution:
        waits_behind(s, vc, oldest)
    return False


# --- matrix ---------------------------------------------------------------------------------------------------------

cdef int32_t request_vcs(State* s, int32_t router, int32_t vc, int64_t u, int32_t requested) noexcept nogil:
    """One head requests every VC of all its candidates that counts as free for it."""
    cdef int32_t count = 1
    cdef int32_t own_count = 1
    cdef int32_t i, first, bid, pick, out
    first = NONE
    bid = NONE
    if s.vcs.input[vc].multi:
        own_count = all_candidates(s, vc, &count)
    elif s.vcs.input[vc].out_link == NONE:
        return requested
    for i in range(count):
        if s.vcs.input[vc].multi:
            set_candidate(s, vc, s.routes.candidate_link[i], s.routes.candidate_class[i])
        out = s.vcs.input[vc].out_link
        pick = first_usable_vc(s, vc, s.links.low[s.vcs.input[vc].range_row], s.links.high[s.vcs.input[vc].range_row])
        if pick < 0:
            continue
        if first == NONE:
            first = out
        if (
            s.config.speculative and bid == NONE
            and free_vc(s, vc, s.links.low[s.vcs.input[vc].range_row], s.links.high[s.vcs.input[vc].range_row]) >= 0
        ):
            bid = out
            place_bid(s, vc, out, u)
        while pick >= 0:
            requested = add_vc_request(s, router, vc, out, pick, i >= own_count, requested)
            if s.failed:
                return requested
            pick = first_usable_vc(s, vc, pick + 1, s.links.high[s.vcs.input[vc].range_row])
    if first == NONE:
        count_no_vc_stall(s, vc, count)
    # The link to which a lost arbitration is attributed.
    s.vcs.requested_link[vc] = first
    return requested


cdef int32_t add_vc_request(
    State* s, int32_t router, int32_t vc, int32_t out, int32_t pick, bint escape, int32_t requested
) noexcept nogil:
    cdef Packet* p = &s.pools.packets[s.vcs.input[vc].packet]
    cdef int32_t target = s.links.link[out].base + pick
    cdef int32_t place
    cdef Request* r
    if s.vcs.input[vc].multi:   # two candidates may be the same VC: the first, which is the better, counts
        for place in range(requested - 1, -1, -1):
            if s.matching.requests[place].vc != vc:
                break
            if s.matching.requests[place].target == target:
                return requested
    if not reserve_requests(s, requested + 1):
        return requested
    r = &s.matching.requests[requested]
    r.i = vc - s.routers.router[router].base
    r.o = s.links.link[out].out_offset + pick
    r.in_id = vc
    r.out_id = target
    r.vc = vc
    r.target = target
    r.escape = escape
    r.empty = 0
    r.vc_class = s.vcs.input[vc].range_row - s.links.link[out].range - p.vnet * s.links.link[out].classes
    r.rank = rank_of(s, vc) if s.config.priorities else 0
    if s.config.va_by_age:
        r.rank += s.pools.messages[p.message].at
    if escape and not s.routes.plane_equal[p.plane]:
        r.rank += (<int64_t> 1) << PENALTY_SHIFT
    return requested + 1


cdef void grant_matched_vcs(State* s, int32_t router, int64_t u, int32_t requested) noexcept nogil:
    cdef RequestMatrix m
    cdef int32_t granted, i, vc
    cdef Request* r
    m.count, m.router, m.in_va, m.iterations = requested, router, 1, s.config.va_iterations
    m.inputs, m.outputs = s.routers.router[router].input_vcs, s.routers.router[router].output_vcs
    m.grant, m.accept, m.wave = s.arbiters.va_grant, s.arbiters.va_accept, &s.arbiters.va_wave[router]
    granted = s.config.va_match(s, &m)
    for i in range(granted):
        r = &s.matching.requests[s.matching.granted[i]]
        s.vcs.input[r.vc].out_link = s.vcs.output[r.target].link
        grant_vc(s, router, r.vc, r.target, u)
        s.pools.packets[s.vcs.input[r.vc].packet].granted_class = r.vc_class
        if r.escape:
            switch_to_escape_plane(s, r.vc)
    for i in range(requested):
        vc = s.matching.requests[i].vc
        if s.vcs.input[vc].state == WAITING:
            count_stall(s, s.vcs.requested_link[vc], STALL_ARBITRATION)
    if s.config.attribution:
        record_va_losers_matrix(s, requested)
