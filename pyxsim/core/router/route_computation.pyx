"""The routing relation at work; docs/router.md, "Route", has every rule, pyxsim/routing/relation.py the tables.

A destination is written in digits. The first digit in which it differs from the router decides, or (`plane_any`) all
of them that differ contribute. An entry of the tables is a link, or a set of links to choose from.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.state.bits cimport lowest
from pyxsim.core.router.buffer cimport vc_at
from pyxsim.core.router.random_draws cimport DRAW_OTHER, DRAW_SELECT, draw
from pyxsim.core.router.link cimport in_use
from pyxsim.core.state.network_state cimport (
    MANY_EACH,
    MANY_TURNED,
    NONE,
    ROUTE_SHIFT,
    ROUTED,
    ROUTING,
    SELECT_EACH,
    SELECT_LEAST,
    SELECT_RANDOM,
    Packet,
    Router,
    note,
)
from pyxsim.core.router.route_candidates cimport choose_way

cdef inline bint differs(State* s, int64_t row, int32_t dim, int32_t goal, int64_t* entry) noexcept nogil:
    """Does this digit of the goal decide here? `entry`: where in the tables."""
    cdef int32_t own = s.own[row + dim]
    cdef int32_t digit
    if own == SKIPPED:
        return False
    digit = s.digits[<int64_t> goal * s.dims + dim]
    if own != DECIDES and own == digit:
        return False
    entry[0] = s.offset[row + dim] + digit
    return True


cdef int32_t entry_of(State* s, int32_t plane, int32_t router, int32_t goal, int64_t* entry) noexcept nogil:
    """The first link of the first entry that decides, as costs of ways are reckoned; NONE: there is none.

    Where every digit contributes, one without a link contributes nothing.
    """
    cdef int64_t row = (<int64_t> plane * s.routers + router) * s.dims
    cdef int32_t dim, link
    for dim in range(s.dims):
        if differs(s, row, dim, goal, entry):
            link = s.table_link[entry[0]]
            if link == NONE and s.plane_any[plane]:
                continue
            return s.set_link[s.set_start[-2 - link]] if link < NONE else link
    return NONE


cdef inline int32_t kept_class(State* s, int32_t vc, int32_t link, int32_t vc_class, bint turned) noexcept nogil:
    """A packet that stays in a group of links keeps its class (static dateline), unless it turns here."""
    cdef int32_t incoming = s.vc[vc].link
    if s.link[link].group >= 0 and not turned and s.link[incoming].group == s.link[link].group:
        return s.vc[vc].vc_class
    return vc_class


cdef int32_t candidates(State* s, int32_t vc, int32_t plane, bint turned, int32_t found) noexcept nogil:
    """Add what the tables of a plane give the packet at the front of `vc` to `found_link` and `found_class`, behind the
    `found` that are there; returns how many there are then."""
    cdef Packet* p = &s.packets[s.vc[vc].packet]
    cdef int32_t goal = p.dst if p.via == NONE else p.via
    cdef int64_t row = (<int64_t> plane * s.routers + s.vc[vc].router) * s.dims
    cdef int64_t entry = 0
    cdef int64_t place
    cdef int32_t dim, link
    for dim in range(s.dims):
        if not differs(s, row, dim, goal, &entry):
            continue
        link = s.table_link[entry]
        if link >= 0:
            s.found_link[found] = link
            s.found_class[found] = kept_class(s, vc, link, s.table_class[entry], turned)
            found += 1
        elif link < NONE:
            for place in range(s.set_start[-2 - link], s.set_start[-1 - link]):
                s.found_link[found] = s.set_link[place]
                s.found_class[found] = kept_class(s, vc, s.set_link[place], s.set_class[place], turned)
                found += 1
        if not s.plane_any[plane]:
            break
    return found


cdef int32_t selected(
    State* s, uint64_t key, int32_t router, int32_t select, int32_t* found_link, int32_t count
) noexcept nogil:
    """Which of several candidates."""
    cdef int32_t first = draw(key, router, DRAW_SELECT, count)
    cdef int32_t best, turn, other
    cdef int64_t least, used
    s.draws += 1
    if select == SELECT_RANDOM:
        return first
    if select == SELECT_LEAST:
        best, least = first, in_use(s, found_link[first])
        for turn in range(1, count):
            other = (first + turn) % count
            used = in_use(s, found_link[other])
            if used < least:
                best, least = other, used
        return best
    other = (first + 1 + draw(key, router, DRAW_OTHER, count - 1)) % count
    return other if in_use(s, found_link[other]) < in_use(s, found_link[first]) else first


cdef int32_t offers(State* s, int32_t vc, int32_t* count) noexcept nogil:
    """What a head may ask for that asks for each: how many candidates of its plane there are, and (`count`) how many
    with those of the escape plane, which it would enter: it has no class there to keep."""
    cdef Packet* p = &s.packets[s.vc[vc].packet]
    cdef int32_t own = candidates(s, vc, p.plane, (s.vc[vc].many & MANY_TURNED) != 0, 0)
    cdef int32_t escape = s.plane_escape[p.plane]
    cdef int32_t pick
    count[0] = own
    if escape == NONE:
        return own
    count[0] = candidates(s, vc, escape, True, own)
    if count[0] > own + 1 and s.plane_select[escape] != SELECT_EACH:
        pick = own + selected(
            s, p.key, s.vc[vc].router, s.plane_select[escape], &s.found_link[own], count[0] - own
        )
        s.found_link[own], s.found_class[own] = s.found_link[pick], s.found_class[pick]
        count[0] = own + 1
    return own


cdef void remember(State* s, int32_t plane, int32_t router, int32_t goal, int64_t place) noexcept nogil:
    """Where a plane has one candidate it is always the same one, but for the class that a packet may keep."""
    cdef int64_t entry = 0
    cdef int32_t link = entry_of(s, plane, router, goal, &entry)
    if s.plane_any[plane] or s.plane_select[plane] == SELECT_EACH or link == NONE or s.table_link[entry] != link:
        return
    if s.table_class[entry] < 1 << ROUTE_SHIFT:
        s.known[place] = link << ROUTE_SHIFT | s.table_class[entry]


cdef void compute_route(State* s, int32_t vc, int32_t packet, int64_t u) noexcept nogil:
    """Fill `want`, `range_low`, `range_high` and `many` of the input VC whose front packet this is."""
    cdef Packet* p = &s.packets[packet]
    cdef int32_t router = s.vc[vc].router
    cdef int32_t count, pick, link
    cdef int64_t place
    cdef bint turned = False
    s.vc[vc].many = 0
    if p.plane == NONE:
        choose_way(s, p, router)
    if p.via != NONE and s.home[p.via] == router:
        p.via = NONE
        p.plane = p.last
        turned = True
    if p.via == NONE and s.link[p.eject].src == router:
        aim(s, vc, p.eject, 0)
    else:
        pick = 0
        place = (<int64_t> p.plane * s.routers + router) * s.nodes + p.dst
        if s.known != NULL and p.via == NONE and s.known[place] != NONE:
            link = s.known[place] >> ROUTE_SHIFT
            aim(s, vc, link, kept_class(s, vc, link, s.known[place] & ((1 << ROUTE_SHIFT) - 1), turned))
            if s.watch_serial >= 0:
                note(s, packet, u // s.ticks, ROUTED, link, NONE, 0)
            return
        if s.plane_select[p.plane] == SELECT_EACH:
            s.vc[vc].many = MANY_EACH | (MANY_TURNED if turned else 0)
            offers(s, vc, &count)
        else:
            count = candidates(s, vc, p.plane, turned, 0)
            if count > 1:
                pick = selected(s, p.key, router, s.plane_select[p.plane], s.found_link, count)
        if count == 0:   # no way from here: the head waits for ever, and the run ends as a deadlock that names it
            s.vc[vc].want = NONE
            s.vc[vc].row = 0
            s.vc[vc].many = 0
            return
        aim(s, vc, s.found_link[pick], s.found_class[pick])
        if s.known != NULL and p.via == NONE:
            remember(s, p.plane, router, p.dst, place)
    if s.watch_serial >= 0:
        note(s, packet, u // s.ticks, ROUTED, s.vc[vc].want, NONE, 0)


cdef void find_routes(State* s, int32_t router, int64_t u) noexcept nogil:
    """Heads that came to the front, from the credits as they are at the beginning of the step."""
    cdef Router* r = &s.router[router]
    cdef int32_t word, vc
    cdef uint64_t bits
    for word in range(r.words):
        bits = s.inputs[r.word + word].heads
        while bits:
            vc = vc_at(s, r, word * 64 + lowest(bits))
            bits &= bits - 1
            if s.vc[vc].state == ROUTING and s.vc[vc].ready <= u:
                compute_route(s, vc, s.vc[vc].packet, u)
                wait_for_vc(s, vc, s.vc[vc].ready)
                r.unrouted -= 1
