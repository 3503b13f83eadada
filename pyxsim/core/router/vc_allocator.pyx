"""VA: output VCs for heads. `rotating` hands out the VCs of a range in turn; the others match a request matrix.

`allocate_vcs` returns the first tick after `u` in which it could do more than in this one if nothing arrives
meanwhile; INT64_MAX if only an arrival can change anything.
"""

from libc.stdint cimport INT64_MAX

from pyxsim.core.state.bits cimport lowest
from pyxsim.core.router.buffer cimport next_input, vc_at
from pyxsim.core.router.random_draws cimport DRAW_TIE, draw
from pyxsim.core.router.link cimport in_use
from pyxsim.core.router.matching cimport match
from pyxsim.core.router.route_computation cimport aim, offers
from pyxsim.core.state.network_state cimport (
    AGE,
    ESCAPE_SHIFT,
    ROTATING,
    STALL_CREDIT,
    STALL_VC,
    WAITING,
    Request,
    Router,
    Vc,
    requests_fit,
)
from pyxsim.core.latency.router_waits cimport is_behind, lacks_vc, lose_matrix


cdef void finds_none(State* s, int32_t vc, int32_t count) noexcept nogil:
    """No VC counts as free for this head, of the range wanted or of its many candidates, which are in `found_link`."""
    cdef int32_t i
    if not s.vc[vc].many:
        stall(s, s.vc[vc].want, STALL_VC)
    else:
        for i in range(count - 1, -1, -1):   # in the end it wants the first one
            aim(s, vc, s.found_link[i], s.found_class[i])
            stall(s, s.vc[vc].want, STALL_VC if unheld_vc(s, vc) < 0 else STALL_CREDIT)
    if s.attribution:
        lacks_vc(s, vc)


cdef int64_t allocate_vcs(State* s, int32_t router, int64_t u) noexcept nogil:
    """Heads whose time has come ask for output VCs."""
    cdef Router* r = &s.router[router]
    cdef int64_t again = INT64_MAX
    cdef int32_t asked = 0
    cdef int32_t word, vc
    cdef uint64_t bits
    for word in range(r.words):
        bits = s.inputs[r.word + word].heads
        while bits:
            vc = vc_at(s, r, word * 64 + lowest(bits))
            bits &= bits - 1
            if s.vc[vc].ready > u:
                if s.vc[vc].ready < again:
                    again = s.vc[vc].ready
            elif s.va_allocator == ROTATING:
                asked = ask_range(s, router, vc, u, asked)
            else:
                asked = ask_matrix(s, router, vc, u, asked)
    if s.failed or not asked:
        return again
    if s.va_allocator == ROTATING:
        grant_ranges(s, router, u, asked)
    else:
        grant_matrix(s, router, u, asked)
    return u + 1


# --- rotating -------------------------------------------------------------------------------------------------------

cdef bint choose_range(State* s, int32_t router, int32_t vc) noexcept nogil:
    """Of many candidates the one to ask for now becomes the one wanted. False: no VC of any counts as free."""
    cdef int32_t packet = s.vc[vc].packet
    cdef int32_t count = 0
    cdef int32_t own = offers(s, vc, &count)
    cdef int32_t best = NONE
    cdef int32_t start, turn, i, size, offset
    cdef int64_t least = INT64_MAX
    cdef int64_t used
    for offset in range(2):   # the plane itself, then its escape plane
        size = own if offset == 0 else count - own
        start = 0
        if offset == 0 and own > 1:
            start = draw(s.packets[packet].key, router, DRAW_TIE, own)
            s.draws += 1
        for turn in range(size):
            i = (start + turn) % size + (0 if offset == 0 else own)
            aim(s, vc, s.found_link[i], s.found_class[i])
            if usable_vc(s, vc, s.low[s.vc[vc].row], s.high[s.vc[vc].row]) < 0:
                continue
            used = in_use(s, s.vc[vc].want)
            if used < least:
                best, least = i, used
        if best != NONE:
            aim(s, vc, s.found_link[best], s.found_class[best])
            s.vc[vc].many = (s.vc[vc].many & ~MANY_ESCAPE) | (0 if offset == 0 else MANY_ESCAPE)
            return True
    finds_none(s, vc, count)
    return False


cdef bint is_oldest(State* s, int32_t router, int32_t vc) noexcept nogil:
    """Ordered: has no older head at the same port, wanting the same link, still to be granted a VC?

    Else a head could wait for VCs whose packets wait behind it at the switch.
    """
    cdef Vc* v = &s.vc[vc]
    cdef uint64_t* heads = &s.inputs[s.router[router].word].heads
    cdef int32_t end = s.link[v.link].vc_offset + s.link[v.link].vcs
    cdef int32_t place = next_input(heads, s.link[v.link].vc_offset, end)
    cdef int32_t oldest = vc
    cdef int32_t other
    while place >= 0:
        other = s.router[router].base + place
        if s.vc[other].want == v.want and (
            s.front[other] < s.front[oldest] or (s.front[other] == s.front[oldest] and other < oldest)
        ):
            oldest = other
        place = next_input(heads, place + 1, end)
    if oldest == vc:
        return True
    stall(s, v.want, STALL_ARBITRATION)
    if s.attribution:
        is_behind(s, vc, oldest)
    return False


# --- matrix ---------------------------------------------------------------------------------------------------------

cdef int32_t ask_matrix(State* s, int32_t router, int32_t vc, int64_t u, int32_t asked) noexcept nogil:
    """One head asks for every VC of all of its candidates that counts as free for it."""
    cdef Packet* p = &s.packets[s.vc[vc].packet]
    cdef int32_t count = 1
    cdef int32_t own = 1
    cdef int32_t i, first, bid, pick, out
    first = NONE
    bid = NONE
    if s.vc[vc].many:
        own = offers(s, vc, &count)
    elif s.vc[vc].want == NONE:
        return asked
    for i in range(count):
        if s.vc[vc].many:
            aim(s, vc, s.found_link[i], s.found_class[i])
        out = s.vc[vc].want
        pick = usable_vc(s, vc, s.low[s.vc[vc].row], s.high[s.vc[vc].row])
        if pick < 0:
            continue
        if first == NONE:
            first = out
        if s.speculative and bid == NONE and free_vc(s, out, s.low[s.vc[vc].row], s.high[s.vc[vc].row], p.flits) >= 0:
            bid = out
            bid_for(s, vc, out, u)
        while pick >= 0:
            asked = add_request(s, router, vc, out, pick, i >= own, asked)
            if s.failed:
                return asked
            pick = usable_vc(s, vc, pick + 1, s.high[s.vc[vc].row])
    if first == NONE:
        finds_none(s, vc, count)
    # Where it is to be told of an arbitration that it may lose.
    s.asked_link[vc] = first
    return asked


cdef int32_t add_request(
    State* s, int32_t router, int32_t vc, int32_t out, int32_t pick, bint escape, int32_t asked
) noexcept nogil:
    cdef Packet* p = &s.packets[s.vc[vc].packet]
    cdef int32_t target = s.link[out].base + pick
    cdef int32_t place
    cdef Request* r
    if s.vc[vc].many:   # two candidates may be the same VC: the first, which is the better, counts
        for place in range(asked - 1, -1, -1):
            if s.requests[place].vc != vc:
                break
            if s.requests[place].target == target:
                return asked
    if not requests_fit(s, asked + 1):
        return asked
    r = &s.requests[asked]
    r.i = vc - s.router[router].base
    r.o = s.link[out].out_offset + pick
    r.in_id = vc
    r.out_id = target
    r.vc = vc
    r.target = target
    r.escape = escape
    r.empty = 0
    r.rank = s.rank[vc] if s.priorities else 0
    if s.va_allocator == AGE:
        r.rank += s.messages[p.message].at
    if escape and not s.plane_equal[p.plane]:
        r.rank += (<int64_t> 1) << ESCAPE_SHIFT
    return asked + 1


cdef void grant_matrix(State* s, int32_t router, int64_t u, int32_t asked) noexcept nogil:
    cdef int32_t found = match(
        s, asked, s.va_allocator, s.va_iterations, s.router[router].input_vcs, s.router[router].output_vcs,
        s.va_grant, s.va_accept, &s.va_wave[router],
    )
    cdef int32_t i, vc
    cdef Request* r
    for i in range(found):
        r = &s.requests[s.matched[i]]
        s.vc[r.vc].want = s.out[r.target].link
        grant(s, router, r.vc, r.target, u)
        if r.escape:
            to_escape(s, r.vc)
    for i in range(asked):
        vc = s.requests[i].vc
        if s.vc[vc].state == WAITING:
            stall(s, s.asked_link[vc], STALL_ARBITRATION)
    if s.attribution:
        lose_matrix(s, asked)
