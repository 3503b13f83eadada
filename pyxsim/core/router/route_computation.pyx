"""The routing relation at work. docs/router.md, "Route", has every rule, pyxsim/routing/relation.py the tables.

A destination is written in digits. The first digit that differs from the router decides, or (`plane_any`) all that
differ contribute. A table entry is a link, or a set of links to select from.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.router.buffer cimport vc_at_mask_bit
from pyxsim.core.router.link cimport flits_in_use, link_is_down
from pyxsim.core.router.random_draws cimport DRAW_OTHER, DRAW_SELECT, draw
from pyxsim.core.router.route_candidates cimport choose_route_candidate
from pyxsim.core.state.bits cimport lowest
from pyxsim.core.state.network_state cimport cycle_of, note_event
from pyxsim.core.state.records cimport (
    MULTI_EACH,
    MULTI_TURNED,
    NONE,
    ROUTED,
    ROUTE_SHIFT,
    ROUTING,
    SELECT_EACH,
    SELECT_LEAST,
    SELECT_RANDOM,
    SELECT_WEIGHTED,
    Packet,
    Router,
)

cdef inline bint digit_decides(State* s, int64_t row, int32_t dim, int32_t goal, int64_t* entry) noexcept nogil:
    """Does this digit of the goal decide here? `entry`: its index in the tables."""
    cdef int32_t own_digit = s.routes.own[row + dim]
    cdef int32_t digit
    if own_digit == SKIPPED:
        return False
    digit = s.routes.digits[<int64_t> goal * s.routes.dims + dim]
    if own_digit != DECIDES and own_digit == digit:
        return False
    entry[0] = s.routes.offset[row + dim] + digit
    return True


cdef int32_t first_table_entry(State* s, int32_t plane, int32_t router, int32_t goal, int64_t* entry) noexcept nogil:
    """The first link of the first entry that decides, for estimating the cost of a route; or NONE.

    Where every digit contributes, one without a link is skipped.
    """
    cdef int64_t row = (<int64_t> plane * s.routers.count + router) * s.routes.dims
    cdef int32_t dim, link
    for dim in range(s.routes.dims):
        if digit_decides(s, row, dim, goal, entry):
            link = s.routes.table_link[entry[0]]
            if link == NONE and s.routes.plane_any[plane]:
                continue
            return s.routes.set_link[s.routes.set_start[-2 - link]] if link < NONE else link
    return NONE


cdef inline int32_t kept_class(State* s, int32_t vc, int32_t link, int32_t vc_class, bint turned) noexcept nogil:
    """A packet that stays in a group of links keeps its class (static dateline), unless it turns here."""
    cdef int32_t incoming = s.vcs.input[vc].link
    if s.links.link[link].group >= 0 and not turned and s.links.link[incoming].group == s.links.link[link].group:
        if s.config.shared_classes:
            return s.pools.packets[s.vcs.input[vc].packet].granted_class
        return s.vcs.input[vc].vc_class
    return vc_class


cdef int32_t output_candidates(State* s, int32_t vc, int32_t plane, bint turned, int32_t total) noexcept nogil:
    """Append the candidates of a plane for the packet at the front of `vc`, from index `total` on; return the new
    count."""
    cdef Packet* p = &s.pools.packets[s.vcs.input[vc].packet]
    cdef int32_t goal = p.dst if p.via == NONE else p.via
    cdef int64_t row = (<int64_t> plane * s.routers.count + s.vcs.input[vc].router) * s.routes.dims
    cdef int64_t entry = 0
    cdef int64_t place
    cdef int32_t dim, link
    for dim in range(s.routes.dims):
        if not digit_decides(s, row, dim, goal, &entry):
            continue
        link = s.routes.table_link[entry]
        if link >= 0:
            s.routes.candidate_link[total] = link
            s.routes.candidate_class[total] = kept_class(s, vc, link, s.routes.table_class[entry], turned)
            total += 1
        elif link < NONE:
            for place in range(s.routes.set_start[-2 - link], s.routes.set_start[-1 - link]):
                s.routes.candidate_link[total] = s.routes.set_link[place]
                s.routes.candidate_class[total] = kept_class(s, vc, s.routes.set_link[place],
                                                             s.routes.set_class[place], turned)
                total += 1
        if not s.routes.plane_any[plane]:
            break
    return total


cdef int32_t select_candidate(
    State* s, uint64_t key, int32_t router, int32_t select, int32_t* links, int32_t count
) noexcept nogil:
    """Select one of several candidates; return its index."""
    cdef int32_t first = draw(key, router, DRAW_SELECT, count)
    cdef int32_t best, turn, other
    cdef int64_t least, used
    s.routes.draws += 1
    if select == SELECT_RANDOM:
        return first
    if select == SELECT_LEAST:
        best, least = first, flits_in_use(s, links[first])
        for turn in range(1, count):
            other = (first + turn) % count
            used = flits_in_use(s, links[other])
            if used < least:
                best, least = other, used
        return best
    other = (first + 1 + draw(key, router, DRAW_OTHER, count - 1)) % count
    return other if flits_in_use(s, links[other]) < flits_in_use(s, links[first]) else first


cdef int32_t select_by_weight(State* s, int64_t first, int32_t* links, int32_t count) noexcept nogil:
    """Select a member of the set that begins at `first` by smooth weighted round robin; return its index.

    Links that are down take no part, unless all are.
    """
    cdef int32_t* owed = s.routes.owed + first
    cdef int32_t i, total = 0, best = NONE
    cdef bint all_down = True
    for i in range(count):
        all_down = all_down and link_is_down(s, links[i])
    for i in range(count):
        if not all_down and link_is_down(s, links[i]):
            continue
        owed[i] += s.routes.set_weight[first + i]
        total += s.routes.set_weight[first + i]
        if best == NONE or owed[i] > owed[best]:
            best = i
    owed[best] -= total
    return best


cdef int32_t all_candidates(State* s, int32_t vc, int32_t* count) noexcept nogil:
    """Collect all candidates of a head with `select = each`. Return how many its plane has; `count` includes those of
    the escape plane, where it has no class to keep."""
    cdef Packet* p = &s.pools.packets[s.vcs.input[vc].packet]
    cdef int32_t own_count = output_candidates(s, vc, p.plane, (s.vcs.input[vc].multi & MULTI_TURNED) != 0, 0)
    cdef int32_t escape = s.routes.plane_escape[p.plane]
    cdef int32_t pick
    count[0] = own_count
    if escape == NONE:
        return own_count
    count[0] = output_candidates(s, vc, escape, True, own_count)
    if count[0] > own_count + 1 and s.routes.plane_select[escape] != SELECT_EACH:
        pick = own_count + select_candidate(
            s, p.key, s.vcs.input[vc].router, s.routes.plane_select[escape], &s.routes.candidate_link[own_count],
            count[0] - own_count,
        )
        s.routes.candidate_link[own_count] = s.routes.candidate_link[pick]
        s.routes.candidate_class[own_count] = s.routes.candidate_class[pick]
        count[0] = own_count + 1
    return own_count


cdef void cache_route(State* s, int32_t plane, int32_t router, int32_t goal, int64_t place) noexcept nogil:
    """Cache a route: where a plane has one candidate, it is always the same, except for a class that a packet keeps."""
    cdef int64_t entry = 0
    cdef int32_t link = first_table_entry(s, plane, router, goal, &entry)
    if (
        s.routes.plane_any[plane] or s.routes.plane_select[plane] == SELECT_EACH or link == NONE
        or s.routes.table_link[entry] != link
    ):
        return
    if s.routes.table_class[entry] < 1 << ROUTE_SHIFT:
        s.routes.cached[place] = link << ROUTE_SHIFT | s.routes.table_class[entry]


cdef void compute_route(State* s, int32_t vc, int32_t packet, int64_t u) noexcept nogil:
    """Set `out_link`, `range_row`, `out_vc` and `multi` of the input VC whose front packet this is."""
    cdef Packet* p = &s.pools.packets[packet]
    cdef int32_t router = s.vcs.input[vc].router
    cdef int32_t count, pick, link
    cdef int64_t place, entry = 0
    cdef bint turned = False
    s.vcs.input[vc].multi = 0
    if p.plane == NONE:
        choose_route_candidate(s, p, router)
    if p.via != NONE and (s.routes.home[p.via] == router or (s.routes.early and p.exit == router)):
        p.via = NONE
        p.plane = p.last
        turned = True
    if p.via == NONE and p.exit == router:
        set_candidate(s, vc, p.eject, 0)
    else:
        pick = 0
        place = (<int64_t> p.plane * s.routers.count + router) * s.routes.nodes + p.dst
        if s.routes.cached != NULL and p.via == NONE and s.routes.cached[place] != NONE:
            link = s.routes.cached[place] >> ROUTE_SHIFT
            set_candidate(s, vc, link,
                          kept_class(s, vc, link, s.routes.cached[place] & ((1 << ROUTE_SHIFT) - 1), turned))
            if s.trace.watch_serial >= 0:
                note_event(s, packet, cycle_of(s, u), ROUTED, link, NONE, 0)
            return
        if s.routes.plane_select[p.plane] == SELECT_EACH:
            s.vcs.input[vc].multi = MULTI_EACH | (MULTI_TURNED if turned else 0)
            all_candidates(s, vc, &count)
        else:
            count = output_candidates(s, vc, p.plane, turned, 0)
            if count > 1 and s.routes.plane_select[p.plane] == SELECT_WEIGHTED:
                first_table_entry(s, p.plane, router, p.dst if p.via == NONE else p.via, &entry)
                pick = select_by_weight(
                    s, s.routes.set_start[-2 - s.routes.table_link[entry]], s.routes.candidate_link, count
                )
            elif count > 1:
                pick = select_candidate(s, p.key, router, s.routes.plane_select[p.plane], s.routes.candidate_link,
                                        count)
        if count == 0:   # no route from here: the head waits for ever, and the deadlock report names it
            s.vcs.input[vc].out_link = NONE
            s.vcs.input[vc].range_row = 0
            s.vcs.input[vc].multi = 0
            return
        set_candidate(s, vc, s.routes.candidate_link[pick], s.routes.candidate_class[pick])
        if s.routes.cached != NULL and p.via == NONE:
            cache_route(s, p.plane, router, p.dst, place)
    if s.trace.watch_serial >= 0:
        note_event(s, packet, cycle_of(s, u), ROUTED, s.vcs.input[vc].out_link, NONE, 0)


cdef void compute_pending_routes(State* s, int32_t router, int64_t u) noexcept nogil:
    """Route heads that came to the front, from the credits at the beginning of the step."""
    cdef Router* r = &s.routers.router[router]
    cdef int32_t word, vc
    cdef uint64_t bits
    for word in range(r.words):
        bits = s.masks.inputs[r.word + word].heads
        while bits:
            vc = vc_at_mask_bit(s, r, word * 64 + lowest(bits))
            bits &= bits - 1
            if s.vcs.input[vc].state == ROUTING and s.vcs.input[vc].ready <= u:
                compute_route(s, vc, s.vcs.input[vc].packet, u)
                await_vc(s, vc, s.vcs.input[vc].ready)
                r.unrouted -= 1
