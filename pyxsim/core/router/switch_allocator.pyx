"""SA: the switch for flits. Separable, input first (Dally and Towles, section 19.3) without a request matrix, or any of
the matrix allocators.

`allocate_switch` returns the first tick after `u` in which it could do more than in this one if nothing arrives
meanwhile; INT64_MAX if only an arrival can change anything.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.router.arbiter cimport after, distance
from pyxsim.core.state.bits cimport lowest
from pyxsim.core.router.buffer cimport bit_of, empty_word, filled_word, inputs_of, next_input, number_of, vc_at
from pyxsim.core.router.crossbar cimport follow_tail, traverse
from pyxsim.core.router.link cimport available, available_at, has_credits, needed, told
from pyxsim.core.router.matching cimport match
from pyxsim.core.state.network_state cimport (
    ACTIVE,
    AGE,
    BID_SHIFT,
    HOLDING,
    IDLE,
    INPUT_FIRST,
    NONE,
    STALL_ARBITRATION,
    STALL_CREDIT,
    STALL_SERIAL,
    STALL_VC,
    WASTED,
    InPort,
    Link,
    Packet,
    Request,
    Router,
    Vc,
    note,
    requests_fit,
)
from pyxsim.core.router.stall_counters cimport stall
from pyxsim.core.router.vc_allocator cimport free_vc
from pyxsim.core.latency.router_waits cimport asks, is_hindered, lose_switch


cdef enum:
    MOST_VCS = 1 << 15   # of a link: any number that is not less will do to reckon distances round


cdef inline Packet* front_packet(State* s, int32_t vc) noexcept nogil:
    return &s.packets[s.vc[vc].packet]


cdef inline bint has_its_credits(State* s, int32_t vc) noexcept nogil:
    """Has the VC that the front flit's packet holds the credits which that flit needs?"""
    cdef int32_t flits = front_packet(s, vc).flits if s.flow else 0
    return has_credits(s, s.vc[vc].hold, needed(s, flits, s.vc[vc].state == HOLDING))


cdef inline int32_t hindrance(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """Why a front flit cannot ask for the switch: 0 if it can, a Stall, or -1 if its time has not come."""
    cdef Vc* v = &s.vc[vc]
    cdef int32_t out = v.want
    cdef int32_t pick
    if v.ready > u:
        return -1
    if v.state & (HOLDING | ACTIVE):
        if s.out[v.hold].credit <= 0 or s.flow:
            if not has_its_credits(s, vc):
                return STALL_CREDIT
    elif s.va or out == NONE:
        return -1   # a matter of VA
    else:
        pick = free_vc(s, out, s.low[v.row], s.high[v.row], front_packet(s, vc).flits)
        if pick < 0:
            return STALL_VC if pick == -1 else STALL_CREDIT
    if not s.link[out].queued and not available(s, out, t):
        return STALL_SERIAL
    return 0


cdef inline bint bids(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """Speculation: does the head ask for the switch in the tick in which it asks for a VC?"""
    if not s.speculative or s.bid[vc] != u:
        return False
    return s.link[s.bid_link[vc]].queued or available(s, s.bid_link[vc], t)


cdef inline bint bid_holds(State* s, int32_t vc) noexcept nogil:
    """A bid that won the switch: did VA grant it a VC of that link, with the credits?"""
    return s.vc[vc].state == HOLDING and s.vc[vc].want == s.bid_link[vc] and has_its_credits(s, vc)


cdef void tell_hindrance(State* s, int32_t vc, int32_t cause, int64_t u, int64_t* again) noexcept nogil:
    """Note why a front flit could not ask, and when it may."""
    cdef int64_t when
    if cause > 0:
        stall(s, s.vc[vc].want, cause)
        if cause == STALL_SERIAL:
            when = available_at(s, s.vc[vc].want) * s.ticks
            if when < again[0]:
                again[0] = when
    elif s.vc[vc].ready > u and s.vc[vc].ready < again[0]:
        again[0] = s.vc[vc].ready


cdef inline void can_go(State* s, int32_t out) noexcept nogil:
    """Some flit could go to this output."""
    if s.link[out].eligible == 0:
        s.able[s.able_count] = out
        s.able_count += 1
    s.link[out].eligible += 1


cdef int64_t allocate_switch(State* s, int32_t router, int64_t t, int64_t u) noexcept nogil:
    """Front flits ask for the switch; the winners leave."""
    cdef int64_t again = INT64_MAX
    cdef int32_t asked, i, out
    s.able_count = 0
    if s.sa_allocator == INPUT_FIRST:
        asked = inputs_first(s, router, t, u, &again)
    else:
        asked = by_matrix(s, router, t, u, &again)
    # Whoever was eligible and is still here lost, to another flit of its own input or at the output.
    for i in range(s.able_count):
        out = s.able[i]
        if s.link[out].eligible:
            stall(s, out, STALL_ARBITRATION)
            s.link[out].eligible = 0
    if s.attribution:
        if s.books.rival_count > s.books.winner_count or s.speculative:
            lose_switch(s)
        s.books.rival_count = 0
        s.books.winner_count = 0
    return u + 1 if asked else again


cdef inline int32_t input_of(State* s, int32_t router, int32_t vc) noexcept nogil:
    """Where the pointers are of the input of the switch that serves an input VC."""
    cdef int32_t part = number_of(s, vc) % s.parts if s.parts > 1 else 0
    return s.vc[vc].port * s.parts + part


cdef inline void move_past(State* s, int32_t router, int32_t vc) noexcept nogil:
    """The VC pointer of an input goes past the VC that was granted. It need not wrap: distances are reckoned round."""
    s.in_pointer[input_of(s, router, vc)] = number_of(s, vc) + 1


cdef void leave(State* s, Router* r, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """The flit at the front of a VC has won."""
    cdef InPort* port = &s.in_port[s.vc[vc].port]
    s.router_visits += 1
    if traverse(s, port, inputs_of(s, vc), bit_of(s, vc), vc, t, u, False, told(s), False, False):
        follow_tail(s, vc, t, u, False, told(s))
    empty_word(s, r, vc)


cdef void waste(State* s, int32_t vc, int32_t out) noexcept nogil:
    """A bid won the switch for nothing."""
    if s.watch_serial >= 0:
        note(s, s.vc[vc].packet, s.now, WASTED, out, NONE, 0)


# --- separable, input first -----------------------------------------------------------------------------------------

cdef int32_t inputs_first(State* s, int32_t router, int64_t t, int64_t u, int64_t* again) noexcept nogil:
    cdef Router* r = &s.router[router]
    cdef int32_t asked = 0
    cdef int32_t i, out, pick, word, vc, port
    cdef int32_t ports = (r.in_end - r.in_start) * s.parts
    cdef int32_t* pointer
    cdef uint64_t bits
    # Input VCs stand in order of their ports: a port is done when a VC of another one comes.
    port = NONE
    word = filled_word(r, 0)
    while word < r.words:
        bits = s.inputs[r.word + word].occupied
        while bits:
            vc = vc_at(s, r, word * 64 + lowest(bits))
            bits &= bits - 1
            if s.vc[vc].port != port:
                if port != NONE:
                    asked = offer(s, r, port, u, asked)
                port = s.vc[vc].port
                if s.ordered:
                    find_oldest(s, vc)
            consider(s, r, vc, t, u, again)
        word = filled_word(r, word + 1)
    if port != NONE:
        asked = offer(s, r, port, u, asked)
    for i in range(asked):
        out = s.touched[i]
        pick = s.link[out].pick_vc
        s.link[out].pick_vc = NONE
        if s.speculative and s.bid[pick] == u:
            if not bid_holds(s, pick):
                waste(s, pick, out)
                continue
        else:
            s.link[out].eligible -= 1
        pointer = &s.out_pointer[r.out_start + s.link[out].out_port]
        if s.step_arbiter:
            pointer[0] = after(pointer[0], ports)
        else:
            pointer[0] = after(s.link[out].pick_port, ports)
            move_past(s, router, pick)
        leave(s, r, pick, t, u)
    return asked


cdef inline void consider(State* s, Router* r, int32_t vc, int64_t t, int64_t u, int64_t* again) noexcept nogil:
    """One VC of an input: is it the best so far that may ask for the switch? If it may not, note why."""
    cdef Vc* v = &s.vc[vc]
    cdef int32_t cause, part
    cdef int64_t key
    if v.state == IDLE:   # store-and-forward: the packet is not complete
        return
    part = number_of(s, vc) % s.parts if s.parts > 1 else 0
    key = s.rank[vc] if s.priorities else 0
    if s.speculative and bids(s, vc, t, u):
        key += (<int64_t> 1) << BID_SHIFT
    else:
        cause = hindrance(s, vc, t, u)
        if s.ordered and cause >= 0 and s.oldest[v.want] != vc:
            cause = STALL_ARBITRATION   # behind an older packet
        if cause:
            if s.attribution:
                is_hindered(s, vc, cause)
            tell_hindrance(s, vc, cause, u, again)
            return
        if s.attribution:
            asks(s, vc)
        can_go(s, v.want)
    key += distance(number_of(s, vc), s.in_pointer[v.port * s.parts + part], MOST_VCS)
    if s.part_pick[part] == NONE or key < s.part_key[part]:
        s.part_pick[part] = vc
        s.part_key[part] = key


cdef inline int32_t offer(State* s, Router* r, int32_t port, int64_t u, int32_t asked) noexcept nogil:
    """An input port is done: what each of its inputs picked asks its output."""
    cdef int32_t ports = (r.in_end - r.in_start) * s.parts
    cdef int32_t part, pick, out, number, place, pointer
    cdef int64_t key
    cdef bint bid
    cdef Link* link
    for part in range(s.parts):
        pick = s.part_pick[part]
        if pick == NONE:
            continue
        s.part_pick[part] = NONE
        if s.step_arbiter:
            place = port * s.parts + part
            s.in_pointer[place] = after(s.in_pointer[place], s.link[s.vc[pick].link].vcs)
        bid = s.speculative and s.bid[pick] == u
        out = s.bid_link[pick] if bid else s.vc[pick].want
        link = &s.link[out]
        number = (port - r.in_start) * s.parts + part
        pointer = s.out_pointer[r.out_start + link.out_port]
        key = (s.rank[pick] if s.priorities else 0) + distance(number, pointer, ports)
        if bid:
            key += (<int64_t> 1) << BID_SHIFT
        if link.pick_vc == NONE:
            s.touched[asked] = out
            asked += 1
        elif key >= link.pick_key:
            continue
        link.pick_vc = pick
        link.pick_port = number
        link.pick_key = key
    return asked


cdef void find_oldest(State* s, int32_t first) noexcept nogil:
    """For every output that is wanted at the input port of this VC: the VC with the earliest front time."""
    cdef Router* r = &s.router[s.vc[first].router]
    cdef uint64_t* occupied = &s.inputs[r.word].occupied
    cdef int32_t begin = s.link[s.vc[first].link].vc_offset
    cdef int32_t end = begin + s.link[s.vc[first].link].vcs
    cdef int32_t place, vc, out
    place = next_input(occupied, begin, end)
    while place >= 0:
        out = s.vc[r.base + place].want
        if out != NONE:
            s.oldest[out] = NONE
        place = next_input(occupied, place + 1, end)
    place = next_input(occupied, begin, end)
    while place >= 0:
        vc = r.base + place
        out = s.vc[vc].want
        if s.vc[vc].state == IDLE or out == NONE:
            place = next_input(occupied, place + 1, end)
            continue
        if s.oldest[out] == NONE or s.front[vc] < s.front[s.oldest[out]]:
            s.oldest[out] = vc
        place = next_input(occupied, place + 1, end)


# --- matrix ---------------------------------------------------------------------------------------------------------

cdef int32_t by_matrix(State* s, int32_t router, int64_t t, int64_t u, int64_t* again) noexcept nogil:
    cdef Router* r = &s.router[router]
    cdef int32_t asked = 0
    cdef int32_t i, word, vc, cause, found
    cdef uint64_t bits
    cdef Request* request
    word = filled_word(r, 0)
    while word < r.words:
        bits = s.inputs[r.word + word].occupied
        while bits:
            vc = vc_at(s, r, word * 64 + lowest(bits))
            bits &= bits - 1
            if s.vc[vc].state == IDLE:
                continue
            if s.speculative and bids(s, vc, t, u):
                asked = add_request(s, router, vc, s.bid_link[vc], True, asked)
                continue
            cause = hindrance(s, vc, t, u)
            if cause == 0:
                if s.attribution:
                    asks(s, vc)
                can_go(s, s.vc[vc].want)
                asked = add_request(s, router, vc, s.vc[vc].want, False, asked)
            else:
                if s.attribution:
                    is_hindered(s, vc, cause)
                tell_hindrance(s, vc, cause, u, again)
            if s.failed:
                return asked
        word = filled_word(r, word + 1)
    if not asked:
        return 0
    found = match(
        s, asked, s.sa_allocator, s.sa_iterations, (r.in_end - r.in_start) * s.parts, r.out_end - r.out_start,
        s.sa_grant, s.accept_pointer, &s.sa_wave[router],
    )
    for i in range(found):
        request = &s.requests[s.matched[i]]
        if request.empty:
            waste(s, request.vc, request.out_id)
            continue
        if not request.target:
            s.link[request.out_id].eligible -= 1
        move_past(s, router, request.vc)
        leave(s, r, request.vc, t, u)
    return asked


cdef int32_t add_request(State* s, int32_t router, int32_t vc, int32_t out, bint bid, int32_t asked) noexcept nogil:
    """A VC asks for an output. Of several of one input that ask for the same, the best one stands for it."""
    cdef Vc* v = &s.vc[vc]
    cdef int32_t in_id = input_of(s, router, vc)
    cdef int32_t pointer = s.in_pointer[in_id]
    cdef int32_t place
    cdef int64_t rank = s.rank[vc] if s.priorities else 0
    cdef Request* r
    if s.sa_allocator == AGE:
        rank += s.messages[front_packet(s, vc).message].at
    if bid:
        rank += (<int64_t> 1) << BID_SHIFT
    if not requests_fit(s, asked + 1):
        return asked
    place = asked
    while place and s.vc[s.requests[place - 1].vc].port == v.port:
        place -= 1
        r = &s.requests[place]
        if r.in_id == in_id and r.out_id == out:
            if rank < r.rank or (
                rank == r.rank
                and distance(number_of(s, vc), pointer, MOST_VCS) < distance(number_of(s, r.vc), pointer, MOST_VCS)
            ):
                r.vc, r.rank, r.target, r.empty = vc, rank, bid, bid and not bid_holds(s, vc)
            return asked
    r = &s.requests[asked]
    r.i = in_id - s.router[router].in_start * s.parts
    r.o = s.link[out].out_port
    r.in_id = in_id
    r.out_id = out
    r.vc = vc
    r.target = bid
    r.empty = bid and not bid_holds(s, vc)
    r.rank = rank
    return asked + 1
