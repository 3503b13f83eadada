"""SA: the switch for flits. Separable, input first (Dally and Towles, section 19.3) without a request matrix, or any of
the matrix allocators.

`allocate_switch` returns the first tick after `u` in which it could do more than in this one if nothing arrives
meanwhile; INT64_MAX if only an arrival can change anything.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.arbiter cimport after, distance
from pyxsim.core.bits cimport lowest
from pyxsim.core.crossbar cimport traverse
from pyxsim.core.link cimport available, available_at, has_credits, needed
from pyxsim.core.match cimport match
from pyxsim.core.state cimport (
    ACTIVE,
    AGE,
    BID_SHIFT,
    IDLE,
    INPUT_FIRST,
    NONE,
    STALL_ARBITRATION,
    STALL_CREDIT,
    STALL_SERIAL,
    STALL_VC,
    WASTED,
    Packet,
    Request,
    note,
    requests_fit,
)
from pyxsim.core.vc_allocator cimport free_vc


cdef inline Packet* front_packet(State* s, int32_t vc) noexcept nogil:
    return &s.packets[s.nodes_pool[s.fifo_head[vc]].packet]


cdef inline bint has_its_credits(State* s, int32_t vc) noexcept nogil:
    """Has the VC that the front flit's packet holds the credits which that flit needs?"""
    cdef int32_t flits
    if s.flow == 0:
        return has_credits(s, s.hold[vc], 1)
    flits = front_packet(s, vc).flits
    return has_credits(s, s.hold[vc], needed(s, flits, s.left[vc] == flits))


cdef int32_t hindrance(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """Why a front flit cannot ask for the switch: 0 if it can, a Stall, or -1 if its time has not come."""
    cdef int32_t out = s.want[vc]
    cdef int32_t pick
    if s.ready[vc] > u:
        return -1
    if s.vc_state[vc] == ACTIVE:
        if s.credit[s.hold[vc]] <= 0 or s.flow:
            if not has_its_credits(s, vc):
                return STALL_CREDIT
    elif s.va or out == NONE:
        return -1   # a matter of VA
    else:
        pick = free_vc(s, out, s.range_low[vc], s.range_high[vc], front_packet(s, vc).flits)
        if pick < 0:
            return STALL_VC if pick == -1 else STALL_CREDIT
    if not s.link_queued[out] and not available(s, out, t):
        return STALL_SERIAL
    return 0


cdef inline bint bids(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """Speculation: does the head ask for the switch in the tick in which it asks for a VC?"""
    if s.bid[vc] != u or not s.speculative:
        return False
    return s.link_queued[s.bid_link[vc]] or available(s, s.bid_link[vc], t)


cdef inline bint bid_holds(State* s, int32_t vc) noexcept nogil:
    """A bid that won the switch: did VA grant it a VC of that link, with the credits?"""
    return s.vc_state[vc] == ACTIVE and s.want[vc] == s.bid_link[vc] and has_its_credits(s, vc)


cdef void tell_hindrance(State* s, int32_t vc, int32_t cause, int64_t u, int64_t* again) noexcept nogil:
    """Note why a front flit could not ask, and when it may."""
    cdef int64_t when
    if cause > 0:
        s.stalled[s.want[vc]] |= <unsigned char> cause
        if cause == STALL_SERIAL:
            when = available_at(s, s.want[vc]) * s.ticks
            if when < again[0]:
                again[0] = when
    elif s.ready[vc] > u and s.ready[vc] < again[0]:
        again[0] = s.ready[vc]


cdef int64_t allocate_switch(State* s, int32_t router, int64_t t, int64_t u) noexcept nogil:
    """Front flits ask for the switch; the winners leave."""
    cdef int64_t again = INT64_MAX
    cdef int32_t asked, i, out
    if s.sa_allocator == INPUT_FIRST:
        asked = inputs_first(s, router, t, u, &again)
    else:
        asked = by_matrix(s, router, t, u, &again)
    # Whoever was eligible and is still here lost, to another flit of its own input or at the output.
    for i in range(s.out_start[router], s.out_start[router + 1]):
        out = s.out_links[i]
        if s.eligible[out]:
            s.stalled[out] |= STALL_ARBITRATION
            s.eligible[out] = 0
    return u + 1 if asked else again


# --- separable, input first -----------------------------------------------------------------------------------------

cdef int32_t inputs_first(State* s, int32_t router, int64_t t, int64_t u, int64_t* again) noexcept nogil:
    cdef int32_t asked = 0
    cdef int32_t i, link, out, port, pick, part, place
    cdef int64_t key
    cdef bint bid
    cdef int32_t ports = (s.in_start[router + 1] - s.in_start[router]) * s.parts
    for i in range(s.in_start[router], s.in_start[router + 1]):
        link = s.in_links[i]
        for part in range(s.parts):
            pick = pick_input(s, link, part, t, u, again)
            if pick == NONE:
                continue
            place = link * s.parts + part
            if s.step_arbiter:
                s.in_pointer[place] = after(s.in_pointer[place], s.link_vcs[link])
            bid = s.speculative and s.bid[pick] == u
            out = s.bid_link[pick] if bid else s.want[pick]
            port = s.link_port[link] * s.parts + part
            key = s.rank[pick] + distance(port, s.out_pointer[out], ports)
            if bid:
                key += (<int64_t> 1) << BID_SHIFT
            if s.pick_vc[out] == NONE:
                s.touched[asked] = out
                asked += 1
            elif key >= s.pick_key[out]:
                continue
            s.pick_vc[out] = pick
            s.pick_port[out] = port
            s.pick_key[out] = key
    for i in range(asked):
        out = s.touched[i]
        pick = s.pick_vc[out]
        s.pick_vc[out] = NONE
        if s.speculative and s.bid[pick] == u:
            if not bid_holds(s, pick):
                waste(s, pick, out)
                continue
        else:
            s.eligible[out] -= 1
        if s.step_arbiter:
            s.out_pointer[out] = after(s.out_pointer[out], ports)
        else:
            s.out_pointer[out] = after(s.pick_port[out], ports)
            move_past(s, pick)
        traverse(s, router, pick, t, u)
    return asked


cdef inline void move_past(State* s, int32_t vc) noexcept nogil:
    """The VC pointer of an input goes past the VC that was granted."""
    cdef int32_t link = s.vc_link[vc]
    cdef int32_t number = vc - s.link_base[link]
    s.in_pointer[link * s.parts + (number % s.parts if s.parts > 1 else 0)] = after(number, s.link_vcs[link])


cdef void waste(State* s, int32_t vc, int32_t out) noexcept nogil:
    """A bid won the switch for nothing."""
    if s.watch_serial >= 0:
        note(s, s.nodes_pool[s.fifo_head[vc]].packet, s.now, WASTED, out, NONE, 0)


cdef int32_t pick_input(State* s, int32_t link, int32_t part, int64_t t, int64_t u, int64_t* again) noexcept nogil:
    """One input: its best eligible VC, or NONE. Notes what hinders the others."""
    cdef int32_t base = s.link_base[link]
    cdef int32_t count = s.link_vcs[link]
    cdef int32_t pointer = s.in_pointer[link * s.parts + part]
    cdef int32_t pick = NONE
    cdef int64_t best = INT64_MAX
    cdef int64_t key
    cdef int32_t word, number, vc, cause
    cdef uint64_t bits
    if s.ordered:
        find_oldest(s, link)
    for word in range(s.link_words[link]):
        bits = s.occupied[s.link_word[link] + word]
        while bits:
            number = word * 64 + lowest(bits)
            bits &= bits - 1
            if s.parts > 1 and number % s.parts != part:
                continue
            vc = base + number
            if s.vc_state[vc] == IDLE:   # store-and-forward: the packet is not complete
                continue
            if s.speculative and bids(s, vc, t, u):
                key = s.rank[vc] + distance(number, pointer, count) + ((<int64_t> 1) << BID_SHIFT)
                if key < best:
                    best, pick = key, vc
                continue
            cause = hindrance(s, vc, t, u)
            if s.ordered and cause >= 0 and s.oldest[s.want[vc]] != vc:
                cause = STALL_ARBITRATION   # behind an older packet
            if cause == 0:
                s.eligible[s.want[vc]] += 1
                key = s.rank[vc] + distance(number, pointer, count)
                if key < best:
                    best, pick = key, vc
            else:
                tell_hindrance(s, vc, cause, u, again)
    return pick


cdef void find_oldest(State* s, int32_t link) noexcept nogil:
    """For every output that is wanted at an input port: the VC with the earliest front time."""
    cdef int32_t word, vc, out
    cdef uint64_t bits
    for word in range(s.link_words[link]):
        bits = s.occupied[s.link_word[link] + word]
        while bits:
            out = s.want[s.link_base[link] + word * 64 + lowest(bits)]
            bits &= bits - 1
            if out != NONE:
                s.oldest[out] = NONE
    for word in range(s.link_words[link]):
        bits = s.occupied[s.link_word[link] + word]
        while bits:
            vc = s.link_base[link] + word * 64 + lowest(bits)
            bits &= bits - 1
            out = s.want[vc]
            if out != NONE and (s.oldest[out] == NONE or s.front[vc] < s.front[s.oldest[out]]):
                s.oldest[out] = vc


# --- matrix ---------------------------------------------------------------------------------------------------------

cdef int32_t by_matrix(State* s, int32_t router, int64_t t, int64_t u, int64_t* again) noexcept nogil:
    cdef int32_t asked = 0
    cdef int32_t i, link, word, vc, cause, found
    cdef int32_t inputs = (s.in_start[router + 1] - s.in_start[router]) * s.parts
    cdef int32_t outputs = s.out_start[router + 1] - s.out_start[router]
    cdef uint64_t bits
    cdef Request* r
    for i in range(s.in_start[router], s.in_start[router + 1]):
        link = s.in_links[i]
        for word in range(s.link_words[link]):
            bits = s.occupied[s.link_word[link] + word]
            while bits:
                vc = s.link_base[link] + word * 64 + lowest(bits)
                bits &= bits - 1
                if s.vc_state[vc] == IDLE:
                    continue
                if s.speculative and bids(s, vc, t, u):
                    asked = add_request(s, vc, s.bid_link[vc], True, asked)
                    continue
                cause = hindrance(s, vc, t, u)
                if cause == 0:
                    s.eligible[s.want[vc]] += 1
                    asked = add_request(s, vc, s.want[vc], False, asked)
                else:
                    tell_hindrance(s, vc, cause, u, again)
                if s.failed:
                    return asked
    if not asked:
        return 0
    found = match(
        s, asked, s.sa_allocator, s.sa_iterations, inputs, outputs,
        s.out_pointer, s.accept_pointer, &s.sa_wave[router],
    )
    for i in range(found):
        r = &s.requests[s.matched[i]]
        if r.empty:
            waste(s, r.vc, r.out_id)
            continue
        if not r.target:
            s.eligible[r.out_id] -= 1
        move_past(s, r.vc)
        traverse(s, router, r.vc, t, u)
    return asked


cdef int32_t add_request(State* s, int32_t vc, int32_t out, bint bid, int32_t asked) noexcept nogil:
    """A VC asks for an output. Of several of one input that ask for the same, the best one stands for it."""
    cdef int32_t link = s.vc_link[vc]
    cdef int32_t number = vc - s.link_base[link]
    cdef int32_t part = number % s.parts
    cdef int32_t in_id = link * s.parts + part
    cdef int32_t pointer = s.in_pointer[in_id]
    cdef int32_t place, other
    cdef int64_t rank = s.rank[vc]
    cdef Request* r
    if s.sa_allocator == AGE:
        rank += front_packet(s, vc).born
    if bid:
        rank += (<int64_t> 1) << BID_SHIFT
    if not requests_fit(s, asked + 1):
        return asked
    place = asked
    while place and s.vc_link[s.requests[place - 1].vc] == link:
        place -= 1
        r = &s.requests[place]
        if r.in_id == in_id and r.out_id == out:
            other = r.vc - s.link_base[link]
            if rank < r.rank or (
                rank == r.rank
                and distance(number, pointer, s.link_vcs[link]) < distance(other, pointer, s.link_vcs[link])
            ):
                r.vc, r.rank, r.target, r.empty = vc, rank, bid, bid and not bid_holds(s, vc)
            return asked
    r = &s.requests[asked]
    r.i = s.link_port[link] * s.parts + part
    r.o = s.link_out_port[out]
    r.in_id = in_id
    r.out_id = out
    r.vc = vc
    r.target = bid
    r.empty = bid and not bid_holds(s, vc)
    r.rank = rank
    return asked + 1
