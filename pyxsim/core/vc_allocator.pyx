"""VA: output VCs for heads. `rotating` hands out the VCs of a range in turn; the others match a request matrix.

`allocate_vcs` returns the first tick after `u` in which it could do more than in this one if nothing arrives
meanwhile; INT64_MAX if only an arrival can change anything.

`rotating` needs no request matrix: while the inputs are walked, each range remembers the requester that is nearest
behind its pointer, which is the one that round robin grants.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.arbiter cimport after, distance
from pyxsim.core.bits cimport clear_bit, lowest, next_bit
from pyxsim.core.buffer cimport inputs_of, vcs_of
from pyxsim.core.draw cimport DRAW_TIE, draw
from pyxsim.core.link cimport has_credits, hold_vc, in_use, needed
from pyxsim.core.match cimport match
from pyxsim.core.routing cimport aim, offers
from pyxsim.core.state cimport (
    AGE,
    ESCAPE_SHIFT,
    GRANTED,
    HOLDING,
    MANY_ESCAPE,
    NONE,
    ROTATING,
    STALL_ARBITRATION,
    STALL_CREDIT,
    STALL_VC,
    WAITING,
    Packet,
    Request,
    Router,
    Vc,
    note,
    requests_fit,
)
from pyxsim.core.stats cimport stall
from pyxsim.core.wait cimport asks, is_behind, lacks_vc, lose_matrix, lose_ranges, runs


cdef int32_t free_vc(State* s, int32_t link, int32_t low, int32_t high, int32_t flits) noexcept nogil:
    """The lowest free VC of a range with credits for a head of a packet of so many flits; -1: none is free, -2: none of
    the free ones has the credits."""
    cdef uint64_t* mask = vcs_of(s.unheld, s, link)
    cdef int32_t pick = next_bit(mask, low, high)
    cdef int32_t wanted = needed(s, flits, True)
    if pick < 0:
        return -1
    while pick >= 0:
        if has_credits(s, s.link[link].base + pick, wanted):
            return pick
        pick = next_bit(mask, pick + 1, high)
    return -2


cdef inline int32_t unheld_vc(State* s, int32_t vc) noexcept nogil:
    """The lowest VC of the range wanted that nobody holds, or -1."""
    return next_bit(vcs_of(s.unheld, s, s.vc[vc].want), s.vc[vc].low, s.vc[vc].high)


cdef int32_t usable_vc(State* s, int32_t vc, int32_t low, int32_t high) noexcept nogil:
    """The lowest VC in [low, high) of the link wanted that counts as free for a head, or -1.

    A head with many candidates gives up the others, and its escape with them, for the VC that it is granted. So, where
    a packet wants room for all of it, that must be there already: in slots of the VC's own, which nobody else takes.
    """
    cdef int32_t link = s.vc[vc].want
    cdef uint64_t* mask = vcs_of(s.unheld, s, link)
    cdef int32_t pick = next_bit(mask, low, high)
    cdef int32_t room
    if s.flow and s.vc[vc].many:
        room = min(s.packets[s.vc[vc].packet].flits, s.link[link].depth)
        while pick >= 0 and s.out[s.link[link].base + pick].credit < room:
            pick = next_bit(mask, pick + 1, high)
    return pick


cdef int32_t usable_from(State* s, int32_t vc, int32_t pointer) noexcept nogil:
    """The first such VC of the range wanted at or after the pointer, wrapping round inside the range."""
    cdef int32_t low = s.vc[vc].low
    cdef int32_t high = s.vc[vc].high
    cdef int32_t found
    if pointer < low or pointer >= high:
        pointer = low
    found = usable_vc(s, vc, pointer, high)
    return found if found >= 0 else usable_vc(s, vc, low, pointer)


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
    cdef uint64_t* heads = inputs_of(s.heads, s, router)
    cdef int64_t again = INT64_MAX
    cdef int32_t asked = 0
    cdef int32_t word, vc
    cdef uint64_t bits
    for word in range(r.words):
        bits = heads[word]
        while bits:
            vc = r.base + word * 64 + lowest(bits)
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


cdef void bid_for(State* s, int32_t vc, int32_t link, int64_t u) noexcept nogil:
    """Speculation: this head tries for the switch, too, in the tick in which it asks for a VC of the link."""
    s.bid[vc] = u
    s.bid_link[vc] = link


cdef void grant(State* s, int32_t router, int32_t vc, int32_t target, int64_t u) noexcept nogil:
    """The VC `target` goes to the packet at the front of an input VC."""
    cdef int32_t packet = s.vc[vc].packet
    hold_vc(s, target, packet)
    s.vc[vc].hold = target
    s.vc[vc].state = HOLDING
    s.vc[vc].ready = u + 1
    s.router[router].waiting -= 1
    clear_bit(inputs_of(s.heads, s, router), vc - s.router[router].base)
    if s.attribution:
        runs(s, vc, s.now)
    if s.watch_serial >= 0:
        note(s, packet, s.now, GRANTED, s.vc[vc].want, target - s.link[s.vc[vc].want].base, 0)


cdef void to_escape(State* s, int32_t vc) noexcept nogil:
    """The packet has taken a VC of its escape plane: a sticky plane lets it go for good."""
    cdef Packet* p = &s.packets[s.vc[vc].packet]
    if s.plane_sticky[p.plane]:
        p.plane = s.plane_escape[p.plane]


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
            if usable_vc(s, vc, s.vc[vc].low, s.vc[vc].high) < 0:
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
    cdef uint64_t* heads = inputs_of(s.heads, s, router)
    cdef int32_t end = s.link[v.link].vc_offset + s.link[v.link].vcs
    cdef int32_t place = next_bit(heads, s.link[v.link].vc_offset, end)
    cdef int32_t oldest = vc
    cdef int32_t other
    while place >= 0:
        other = s.router[router].base + place
        if s.vc[other].want == v.want and (
            s.front[other] < s.front[oldest] or (s.front[other] == s.front[oldest] and other < oldest)
        ):
            oldest = other
        place = next_bit(heads, place + 1, end)
    if oldest == vc:
        return True
    stall(s, v.want, STALL_ARBITRATION)
    if s.attribution:
        is_behind(s, vc, oldest)
    return False


cdef int32_t ask_range(State* s, int32_t router, int32_t vc, int64_t u, int32_t asked) noexcept nogil:
    """One head asks. A range is named by its first VC."""
    cdef int32_t out, ranged, number
    cdef int64_t key
    if s.vc[vc].many:
        if not choose_range(s, router, vc):
            return asked
    elif s.vc[vc].want == NONE:
        return asked
    elif s.ordered and not is_oldest(s, router, vc):
        return asked
    elif unheld_vc(s, vc) < 0:
        finds_none(s, vc, 1)
        return asked
    out = s.vc[vc].want
    if s.attribution:
        asks(s, vc)
    if s.speculative and free_vc(
        s, out, s.vc[vc].low, s.vc[vc].high, s.packets[s.vc[vc].packet].flits
    ) >= 0:
        bid_for(s, vc, out, u)
    ranged = s.link[out].base + s.vc[vc].low
    number = vc - s.router[router].base
    key = (s.rank[vc] if s.priorities else 0) + distance(number, s.out[ranged].va_requester, s.router[router].input_vcs)
    if s.out[ranged].va_pick == NONE:
        s.va_touched[asked] = ranged
        asked += 1
    else:
        stall(s, out, STALL_ARBITRATION)   # one of the two loses
        if key >= s.va_key[ranged]:
            return asked
    s.out[ranged].va_pick = vc
    s.va_key[ranged] = key
    return asked


cdef void grant_ranges(State* s, int32_t router, int64_t u, int32_t asked) noexcept nogil:
    """The best requester of each range that was asked for gets the next VC that counts as free for it."""
    cdef int32_t i, ranged, vc, pick
    for i in range(asked):
        ranged = s.va_touched[i]
        vc = s.out[ranged].va_pick
        s.out[ranged].va_pick = NONE
        pick = usable_from(s, vc, s.out[ranged].va_next)
        grant(s, router, vc, s.link[s.vc[vc].want].base + pick, u)
        if s.vc[vc].many & MANY_ESCAPE:
            to_escape(s, vc)
        s.out[ranged].va_next = pick + 1
        s.out[ranged].va_requester = after(vc - s.router[router].base, s.router[router].input_vcs)
    if s.attribution:
        lose_ranges(s)


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
        pick = usable_vc(s, vc, s.vc[vc].low, s.vc[vc].high)
        if pick < 0:
            continue
        if first == NONE:
            first = out
        if s.speculative and bid == NONE and free_vc(s, out, s.vc[vc].low, s.vc[vc].high, p.flits) >= 0:
            bid = out
            bid_for(s, vc, out, u)
        while pick >= 0:
            asked = add_request(s, router, vc, out, pick, i >= own, asked)
            if s.failed:
                return asked
            pick = usable_vc(s, vc, pick + 1, s.vc[vc].high)
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
        r.rank += p.born
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
