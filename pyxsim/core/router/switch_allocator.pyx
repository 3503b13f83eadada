"""SA with every option: separable, input first (Dally and Towles, section 19.3), or a matrix allocator.

`allocate_switch` returns the first tick after `u` in which it could grant more if nothing arrives meanwhile; INT64_MAX
if only an arrival can change anything.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.latency.router_waits cimport record_contender, record_sa_losers, record_stall
from pyxsim.core.router.arbiter cimport after, distance
from pyxsim.core.router.buffer cimport (
    clear_filled_word,
    mask_bit_of,
    masks_of,
    next_filled_word,
    next_masked_vc,
    vc_at_mask_bit,
    vc_number,
)
from pyxsim.core.router.crossbar cimport finish_packet, traverse_switch
from pyxsim.core.router.link cimport (
    credits_needed,
    has_credits,
    is_observed,
    link_available,
    link_available_at,
    queue_has_capacity,
)
from pyxsim.core.router.retry cimport count_full_buffer, replay_accepts
from pyxsim.core.router.stall_counters cimport count_stall
from pyxsim.core.router.vc_allocator cimport free_vc
from pyxsim.core.state.bits cimport lowest, seldom
from pyxsim.core.state.network_state cimport first_tick, note_event, rank_of, reserve_requests
from pyxsim.core.state.records cimport (
    ACTIVE,
    PENALTY_SHIFT,
    HOLDING,
    IDLE,
    NONE,
    STALL_ARBITRATION,
    STALL_CREDIT,
    STALL_SERIAL,
    STALL_VC,
    WAITING,
    WASTED,
    InputVc,
    Link,
    Packet,
    Request,
    RequestMatrix,
    Router,
)


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    /* SA is one function with a copy for the usual options, as in cycle.pyx. */
    #undef CYTHON_INLINE
    #define CYTHON_INLINE inline __attribute__((always_inline))
    #endif
    """


cdef enum:
    MOST_VCS = 1 << 15   # of a link: an upper bound suffices for cyclic distances


cdef inline Packet* front_packet(State* s, int32_t vc) noexcept nogil:
    return &s.pools.packets[s.vcs.input[vc].packet]


cdef inline bint has_required_credits(State* s, int32_t vc) noexcept nogil:
    """Does the output VC of the front packet have the credits that its next flit needs?"""
    cdef int32_t flits = front_packet(s, vc).flits if s.config.flow else 0
    return has_credits(s, s.vcs.input[vc].out_vc, credits_needed(s, flits, s.vcs.input[vc].state == HOLDING))


cdef inline bint output_accepts(State* s, int32_t out, int64_t t, int64_t u) noexcept nogil:
    """Is the link available, or is there room in its output queue?"""
    if not s.links.link[out].queued:
        return link_available(s, out, t) and (not seldom(s.config.retry) or replay_accepts(s, out, t))
    return s.config.queue_limit == 0 or queue_has_capacity(s, out, t, u)


cdef inline int32_t stall_cause(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """Why a front flit cannot request the switch: 0 if it can, a Stall, or -1 if it is too early."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t out = v.out_link
    cdef int32_t pick
    if v.ready > u:
        return -1
    if v.state & (HOLDING | ACTIVE):
        if s.vcs.output[v.out_vc].credit <= 0 or s.config.credit_test:
            if not has_required_credits(s, vc):
                return STALL_CREDIT
    elif s.config.va or out == NONE:
        return -1   # handled by VA
    else:
        pick = free_vc(s, vc, s.links.low[v.range_row], s.links.high[v.range_row])
        if pick < 0:
            return STALL_VC if pick == -1 else STALL_CREDIT
    return 0 if output_accepts(s, out, t, u) else STALL_SERIAL


cdef inline bint bids_for_switch(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """Speculation: does the head bid for the switch in the tick of its VC request?"""
    if not s.config.speculative or s.vcs.bid[vc] != u:
        return False
    return output_accepts(s, s.vcs.bid_link[vc], t, u)


cdef inline bint ranks_behind(State* s, int32_t vc) noexcept nogil:
    """Without VA and with VCs in turn: a head that takes its VC with the switch gives way to flits that have one."""
    return s.config.next_vc and s.vcs.input[vc].state == WAITING


cdef inline bint bid_succeeds(State* s, int32_t vc) noexcept nogil:
    """Speculation: did VA grant the winning bid a VC of that link, with credits?"""
    return (
        s.vcs.input[vc].state == HOLDING and s.vcs.input[vc].out_link == s.vcs.bid_link[vc]
        and has_required_credits(s, vc)
    )


cdef void record_stall_cause(State* s, int32_t vc, int32_t cause, int64_t u, int64_t* again) noexcept nogil:
    """Count why a front flit could not request the switch, and note when it may."""
    cdef int64_t when
    cdef Link* link
    if cause > 0:
        count_stall(s, s.vcs.input[vc].out_link, cause)
        if cause == STALL_SERIAL:
            when = u + 1   # the output queue is full, or the replay buffer, or flits are sent again
            link = &s.links.link[s.vcs.input[vc].out_link]
            if seldom(s.config.retry) and link_available(s, s.vcs.input[vc].out_link, s.now):
                count_full_buffer(s, s.vcs.input[vc].out_link, s.now)
            elif seldom(link.free == INT64_MAX):   # down: `change_link` wakes the router
                when = INT64_MAX
            elif not link.queued:
                when = first_tick(s, link_available_at(s, s.vcs.input[vc].out_link))
            if when < again[0]:
                again[0] = when
    elif s.vcs.input[vc].ready > u and s.vcs.input[vc].ready < again[0]:
        again[0] = s.vcs.input[vc].ready


cdef inline void count_eligible(State* s, int32_t out) noexcept nogil:
    """Count a flit that could go to this output."""
    if s.links.link[out].eligible == 0:
        s.scratch.eligible_outputs[s.scratch.eligible_count] = out
        s.scratch.eligible_count += 1
    s.links.link[out].eligible += 1


cdef int64_t allocate_switch(State* s, int32_t router, int64_t t, int64_t u) noexcept nogil:
    """Front flits request the switch; the winners leave."""
    cdef int64_t again = INT64_MAX
    cdef int32_t requested, i, out
    cdef int32_t held = 0
    s.scratch.eligible_count = 0
    if s.config.hold_switch:
        held = collect_held(s, router)
    if s.config.sa_plain:
        requested = allocate_input_first(s, router, t, u, &again, True)
    elif s.config.sa_separable and s.config.output_speedup == 1:
        requested = allocate_input_first(s, router, t, u, &again, False)
    else:
        requested = allocate_by_matrix(s, router, t, u, &again)
    for i in range(held):
        continue_packet(s, router, s.scratch.held[i], t, u, &again)
    # Eligible flits that are still here lost at their input or at the output.
    for i in range(s.scratch.eligible_count):
        out = s.scratch.eligible_outputs[i]
        if s.links.link[out].eligible:
            count_stall(s, out, STALL_ARBITRATION)
            s.links.link[out].eligible = 0
    if s.config.attribution:
        if s.latency.rival_count > s.latency.winner_count or s.config.speculative:
            record_sa_losers(s)
        s.latency.rival_count = 0
        s.latency.winner_count = 0
    return u + 1 if requested or held else again


cdef inline int32_t switch_input_of(State* s, int32_t router, int32_t vc) noexcept nogil:
    """Index of the arbiter pointer of the switch input that serves an input VC."""
    cdef int32_t part = vc_number(s, vc) % s.config.input_speedup if s.config.input_speedup > 1 else 0
    return s.vcs.input[vc].port * s.config.input_speedup + part


cdef inline void advance_input_pointer(State* s, int32_t router, int32_t vc) noexcept nogil:
    """Move the VC pointer of an input past the granted VC. It need not wrap: distances are cyclic."""
    s.arbiters.in_pointer[switch_input_of(s, router, vc)] = vc_number(s, vc) + 1


cdef inline int32_t output_slot(State* s, int32_t port, int32_t out) noexcept nogil:
    """Index of the output of the switch by which an input port reaches a link: one of its `output_speedup` ones."""
    cdef int32_t part = 0
    if s.config.output_speedup > 1:
        part = (port - s.routers.router[s.links.link[out].src].in_start) % s.config.output_speedup
    return s.links.link[out].outlet * s.config.output_speedup + part


cdef void send_front_flit(State* s, Router* r, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """The flit at the front of a VC has won."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef bint tail
    s.stats.router_visits += 1
    s.stats.changed = 1
    tail = traverse_switch(s, &s.ports.input[v.port], masks_of(s, vc), mask_bit_of(s, vc), vc, t, u, False,
                           is_observed(s), False, False)
    if s.config.hold_switch:
        hold_output(s, switch_input_of(s, 0, vc), output_slot(s, v.port, v.out_link),
                    NONE if tail or not v.occupancy else vc)
    if tail:
        finish_packet(s, vc, t, u, False, is_observed(s))
    clear_filled_word(s, r, vc)


# --- held switch ----------------------------------------------------------------------------------------------------

cdef inline void hold_output(State* s, int32_t in_id, int32_t slot, int32_t vc) noexcept nogil:
    """The switch stays with a VC, or (NONE) releases input and output."""
    s.arbiters.held_vc[in_id] = vc
    s.arbiters.held_output[in_id] = NONE if vc == NONE else slot
    s.arbiters.output_held[slot] = vc != NONE


cdef int32_t collect_held(State* s, int32_t router) noexcept nogil:
    """List the inputs of the switch that are held at the beginning of the step; return their count."""
    cdef Router* r = &s.routers.router[router]
    cdef int32_t count = 0
    cdef int32_t i
    for i in range(r.in_start * s.config.input_speedup, r.in_end * s.config.input_speedup):
        if s.arbiters.held_vc[i] != NONE:
            s.scratch.held[count] = i
            count += 1
    return count


cdef inline bint is_held(State* s, int32_t vc) noexcept nogil:
    """Does the switch stay with this VC?"""
    return s.config.hold_switch and s.arbiters.held_vc[switch_input_of(s, 0, vc)] == vc


cdef inline bint is_blocked(State* s, int32_t vc, int32_t out) noexcept nogil:
    """Is the input or the output that a flit needs held for another packet?"""
    if not s.config.hold_switch:
        return False
    return (
        s.arbiters.held_vc[switch_input_of(s, 0, vc)] != NONE
        or s.arbiters.output_held[output_slot(s, s.vcs.input[vc].port, out)]
    )


cdef void continue_packet(State* s, int32_t router, int32_t in_id, int64_t t, int64_t u, int64_t* again) noexcept nogil:
    """The next flit of the packet with which the switch stays leaves without a request, or the switch is released."""
    cdef int32_t vc = s.arbiters.held_vc[in_id]
    cdef int32_t cause = stall_cause(s, vc, t, u)
    if cause == 0:
        if s.config.attribution:
            record_contender(s, vc)
        send_front_flit(s, &s.routers.router[router], vc, t, u)
        return
    if s.config.attribution:
        record_stall(s, vc, cause)
    record_stall_cause(s, vc, cause, u, again)
    hold_output(s, in_id, s.arbiters.held_output[in_id], NONE)


cdef void note_wasted_bid(State* s, int32_t vc, int32_t out) noexcept nogil:
    """A bid won the switch without an output VC."""
    if s.trace.watch_serial >= 0:
        note_event(s, s.vcs.input[vc].packet, s.now, WASTED, out, NONE, 0)


# --- separable, input first -----------------------------------------------------------------------------------------

cdef inline int32_t allocate_input_first(
    State* s, int32_t router, int64_t t, int64_t u, int64_t* again, bint plain
) noexcept nogil:
    """The compiler specialises this for `plain` (RouterConfig.sa_plain)."""
    cdef Router* r = &s.routers.router[router]
    cdef int32_t requested = 0
    cdef int32_t i, out, pick, word, vc, port
    cdef int32_t ports = (r.in_end - r.in_start) * (1 if plain else s.config.input_speedup)
    cdef int32_t* pointer
    cdef uint64_t bits
    # Input VCs are in order of their ports: a port is complete when a VC of another one follows.
    port = NONE
    word = next_filled_word(r, 0)
    while word < r.words:
        bits = s.masks.inputs[r.word + word].occupied
        while bits:
            vc = vc_at_mask_bit(s, r, word * 64 + lowest(bits))
            bits &= bits - 1
            if s.vcs.input[vc].port != port:
                if port != NONE:
                    requested = request_outputs(s, r, port, u, requested, plain)
                port = s.vcs.input[vc].port
                if s.config.ordered:
                    find_oldest_vcs(s, vc)
            consider_vc(s, r, vc, t, u, again, plain)
        word = next_filled_word(r, word + 1)
    if port != NONE:
        requested = request_outputs(s, r, port, u, requested, plain)
    for i in range(requested):
        out = s.scratch.requested_outputs[i]
        pick = s.links.link[out].pick_vc
        s.links.link[out].pick_vc = NONE
        if not plain and s.config.speculative and s.vcs.bid[pick] == u:
            if not bid_succeeds(s, pick):
                note_wasted_bid(s, pick, out)
                continue
        else:
            s.links.link[out].eligible -= 1
        pointer = &s.arbiters.out_pointer[r.out_start + s.links.link[out].out_port]
        if s.config.step_arbiter:
            pointer[0] = after(pointer[0], ports)
        else:
            pointer[0] = after(s.links.link[out].pick_port, ports)
            advance_input_pointer(s, router, pick)
        send_front_flit(s, r, pick, t, u)
    return requested


cdef inline void consider_vc(
    State* s, Router* r, int32_t vc, int64_t t, int64_t u, int64_t* again, bint plain
) noexcept nogil:
    """Compare one VC with the best candidate of its input so far; if it cannot request the switch, count why."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t cause, place
    cdef int32_t part = 0
    cdef int64_t key = 0
    if v.state == IDLE or (not plain and is_held(s, vc)):   # store-and-forward: the packet is not complete
        return
    if not plain:
        part = vc_number(s, vc) % s.config.input_speedup if s.config.input_speedup > 1 else 0
        key = rank_of(s, vc) if s.config.priorities else 0
    if not plain and s.config.speculative and bids_for_switch(s, vc, t, u):
        if is_blocked(s, vc, s.vcs.bid_link[vc]):
            return
        key += (<int64_t> 1) << PENALTY_SHIFT
    else:
        cause = stall_cause(s, vc, t, u)
        if s.config.ordered and cause >= 0 and s.scratch.oldest[v.out_link] != vc:
            cause = STALL_ARBITRATION   # behind an older packet
        if cause:
            if not plain and s.config.attribution:
                record_stall(s, vc, cause)
            record_stall_cause(s, vc, cause, u, again)
            return
        if not plain and s.config.attribution:
            record_contender(s, vc)
        count_eligible(s, v.out_link)
        if not plain and is_blocked(s, vc, v.out_link):
            return
        if not plain and ranks_behind(s, vc):
            key += (<int64_t> 1) << PENALTY_SHIFT
    place = v.port if plain else v.port * s.config.input_speedup + part
    key += distance(vc_number(s, vc), s.arbiters.in_pointer[place], MOST_VCS)
    if s.scratch.best_vc[part] == NONE or key < s.scratch.best_key[part]:
        s.scratch.best_vc[part] = vc
        s.scratch.best_key[part] = key


cdef inline int32_t request_outputs(
    State* s, Router* r, int32_t port, int64_t u, int32_t requested, bint plain
) noexcept nogil:
    """An input port is complete: the pick of each of its switch inputs requests its output."""
    cdef int32_t speedup = 1 if plain else s.config.input_speedup
    cdef int32_t ports = (r.in_end - r.in_start) * speedup
    cdef int32_t part, pick, out, number, place, pointer
    cdef int64_t key
    cdef bint bid
    cdef Link* link
    for part in range(speedup):
        pick = s.scratch.best_vc[part]
        if pick == NONE:
            continue
        s.scratch.best_vc[part] = NONE
        if s.config.step_arbiter:
            place = port * speedup + part
            s.arbiters.in_pointer[place] = after(s.arbiters.in_pointer[place], s.links.link[s.vcs.input[pick].link].vcs)
        bid = not plain and s.config.speculative and s.vcs.bid[pick] == u
        out = s.vcs.bid_link[pick] if bid else s.vcs.input[pick].out_link
        link = &s.links.link[out]
        number = (port - r.in_start) * speedup + part
        pointer = s.arbiters.out_pointer[r.out_start + link.out_port]
        key = distance(number, pointer, ports)
        if not plain and s.config.priorities:
            key += rank_of(s, pick)
        if not plain and ranks_behind(s, pick):
            key += (<int64_t> 1) << PENALTY_SHIFT
        if bid:
            key += (<int64_t> 1) << PENALTY_SHIFT
        if link.pick_vc == NONE:
            s.scratch.requested_outputs[requested] = out
            requested += 1
        elif key >= link.pick_key:
            continue
        link.pick_vc = pick
        link.pick_port = number
        link.pick_key = key
    return requested


cdef void find_oldest_vcs(State* s, int32_t first) noexcept nogil:
    """Ordered: for every output requested at the input port of this VC, find the VC with the earliest front time."""
    cdef Router* r = &s.routers.router[s.vcs.input[first].router]
    cdef uint64_t* occupied = &s.masks.inputs[r.word].occupied
    cdef int32_t begin = s.links.link[s.vcs.input[first].link].vc_offset
    cdef int32_t end = begin + s.links.link[s.vcs.input[first].link].vcs
    cdef int32_t place, vc, out
    place = next_masked_vc(occupied, begin, end)
    while place >= 0:
        out = s.vcs.input[r.base + place].out_link
        if out != NONE:
            s.scratch.oldest[out] = NONE
        place = next_masked_vc(occupied, place + 1, end)
    place = next_masked_vc(occupied, begin, end)
    while place >= 0:
        vc = r.base + place
        out = s.vcs.input[vc].out_link
        if s.vcs.input[vc].state == IDLE or out == NONE:
            place = next_masked_vc(occupied, place + 1, end)
            continue
        if s.scratch.oldest[out] == NONE or s.vcs.front_time[vc] < s.vcs.front_time[s.scratch.oldest[out]]:
            s.scratch.oldest[out] = vc
        place = next_masked_vc(occupied, place + 1, end)


# --- matrix ---------------------------------------------------------------------------------------------------------

cdef int32_t allocate_by_matrix(State* s, int32_t router, int64_t t, int64_t u, int64_t* again) noexcept nogil:
    cdef Router* r = &s.routers.router[router]
    cdef int32_t requested = 0
    cdef int32_t i, word, vc, cause, granted
    cdef uint64_t bits
    cdef Request* request
    cdef RequestMatrix m
    word = next_filled_word(r, 0)
    while word < r.words:
        bits = s.masks.inputs[r.word + word].occupied
        while bits:
            vc = vc_at_mask_bit(s, r, word * 64 + lowest(bits))
            bits &= bits - 1
            if s.vcs.input[vc].state == IDLE or is_held(s, vc):
                continue
            if s.config.speculative and bids_for_switch(s, vc, t, u):
                requested = add_switch_request(s, router, vc, s.vcs.bid_link[vc], True, requested)
                continue
            cause = stall_cause(s, vc, t, u)
            if cause == 0:
                if s.config.attribution:
                    record_contender(s, vc)
                count_eligible(s, s.vcs.input[vc].out_link)
                requested = add_switch_request(s, router, vc, s.vcs.input[vc].out_link, False, requested)
            else:
                if s.config.attribution:
                    record_stall(s, vc, cause)
                record_stall_cause(s, vc, cause, u, again)
            if s.failed:
                return requested
        word = next_filled_word(r, word + 1)
    if not requested:
        return 0
    m.count, m.router, m.in_va, m.iterations = requested, router, 0, s.config.sa_iterations
    m.inputs = (r.in_end - r.in_start) * s.config.input_speedup
    m.outputs = (r.out_end - r.out_start) * s.config.output_speedup
    m.grant, m.accept, m.wave = s.arbiters.sa_grant, s.arbiters.sa_accept, &s.arbiters.sa_wave[router]
    granted = s.config.sa_match(s, &m)
    if s.config.output_speedup > 1:
        sort_by_input(s, granted)
    for i in range(granted):
        request = &s.matching.requests[s.matching.granted[i]]
        if request.empty:
            note_wasted_bid(s, request.vc, request.out_id // s.config.output_speedup)
            continue
        if not request.target:
            s.links.link[request.out_id // s.config.output_speedup].eligible -= 1
        advance_input_pointer(s, router, request.vc)
        send_front_flit(s, r, request.vc, t, u)
    return requested


cdef void sort_by_input(State* s, int32_t granted) noexcept nogil:
    """Several flits may win one output port: they enter its queue in order of their inputs."""
    cdef int32_t i, place, number
    for i in range(1, granted):
        number = s.matching.granted[i]
        place = i
        while place and s.matching.requests[s.matching.granted[place - 1]].i > s.matching.requests[number].i:
            s.matching.granted[place] = s.matching.granted[place - 1]
            place -= 1
        s.matching.granted[place] = number


cdef int32_t add_switch_request(
    State* s, int32_t router, int32_t vc, int32_t out, bint bid, int32_t requested
) noexcept nogil:
    """A VC requests an output. Of several VCs of one input with the same output, the best one is the request."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t in_id = switch_input_of(s, router, vc)
    cdef int32_t pointer = s.arbiters.in_pointer[in_id]
    cdef int32_t place, part
    cdef int32_t out_id = out
    cdef int32_t place_o = s.links.link[out].out_port
    cdef int64_t rank = rank_of(s, vc) if s.config.priorities else 0
    cdef Request* r
    if is_blocked(s, vc, out):
        return requested
    if s.config.output_speedup > 1:
        part = (v.port - s.routers.router[router].in_start) % s.config.output_speedup
        out_id = out * s.config.output_speedup + part
        place_o = s.links.link[out].out_port * s.config.output_speedup + part
    if s.config.sa_by_age:
        rank += s.pools.messages[front_packet(s, vc).message].at
    if bid or ranks_behind(s, vc):
        rank += (<int64_t> 1) << PENALTY_SHIFT
    if not reserve_requests(s, requested + 1):
        return requested
    place = requested
    while place and s.vcs.input[s.matching.requests[place - 1].vc].port == v.port:
        place -= 1
        r = &s.matching.requests[place]
        if r.in_id == in_id and r.out_id == out_id:
            if rank < r.rank or (
                rank == r.rank
                and distance(vc_number(s, vc), pointer, MOST_VCS) < distance(vc_number(s, r.vc), pointer, MOST_VCS)
            ):
                r.vc, r.rank, r.target, r.empty = vc, rank, bid, bid and not bid_succeeds(s, vc)
            return requested
    r = &s.matching.requests[requested]
    r.i = in_id - s.routers.router[router].in_start * s.config.input_speedup
    r.o = place_o
    r.in_id = in_id
    r.out_id = out_id
    r.vc = vc
    r.target = bid
    r.empty = bid and not bid_succeeds(s, vc)
    r.rank = rank
    return requested + 1
