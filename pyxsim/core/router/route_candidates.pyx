"""Route choice: Valiant, ROMM and UGAL send a packet through an intermediate NPU (docs/router.md, "Ways").

Valiant and Brebner 1981 (any node), Nesson and Johnsson 1995 (ROMM: a node in the minimal box), Singh 2005 (UGAL: the
smaller estimated delay, queue times hops, of a minimal route and one through a random node).
"""

from libc.stdint cimport int16_t, int32_t, INT64_MAX, int64_t

from pyxsim.core.router.link cimport flits_in_use
from pyxsim.core.router.random_draws cimport DRAW_VIA, DRAW_WAY, draw
from pyxsim.core.router.route_computation cimport first_table_entry
from pyxsim.core.state.records cimport NONE, VIA_ANY, VIA_NONE, Packet


cdef enum:
    VIA_ALIGNED = 3      # as in pyxsim/core/engine_options.py
    MOST_DRAWS = 4096
    LEAST_DRAWN = 2      # the cheapest route, of equals by a draw


cdef int32_t draw_aligned(State* s, Packet* p, int32_t router) noexcept nogil:
    """Draw NPUs until one has the digits in which source and destination agree; `p.dst` if none of many does."""
    cdef int32_t own = s.routes.resident[router]
    cdef int32_t turn, node, dim, digit
    for turn in range(MOST_DRAWS):
        node = draw(p.key, turn, DRAW_VIA, s.routes.nodes)
        for dim in range(s.routes.dims):
            digit = s.routes.digits[<int64_t> own * s.routes.dims + dim]
            if digit == s.routes.digits[<int64_t> p.dst * s.routes.dims + dim] and (
                digit != s.routes.digits[<int64_t> node * s.routes.dims + dim]
            ):
                break
        else:
            return node
    return p.dst


cdef int32_t draw_intermediate(State* s, Packet* p, int32_t router, int32_t kind) noexcept nogil:
    """Draw the intermediate NPU: any, or one in the box between source and destination."""
    cdef int32_t dim, own_digit, goal, size, steps, direction, digit
    cdef int64_t node
    s.routes.draws += 1
    if kind == VIA_ANY:
        return draw(p.key, 0, DRAW_VIA, s.routes.nodes)
    if kind == VIA_ALIGNED:
        return draw_aligned(s, p, router)
    node = 0
    for dim in range(s.routes.dims):
        own_digit = s.routes.digits[<int64_t> s.routes.resident[router] * s.routes.dims + dim]
        goal = s.routes.digits[<int64_t> p.dst * s.routes.dims + dim]
        size = s.routes.wrap[dim]
        steps = goal - own_digit
        direction = 1
        if size > 0:
            steps = (steps + size) % size
            if 2 * steps > size:
                steps = size - steps
                direction = -1
        elif steps < 0:
            steps = -steps
            direction = -1
        digit = own_digit + direction * draw(p.key, dim, DRAW_VIA, steps + 1)
        if size > 0:
            digit = (digit + size) % size
        node += digit * s.routes.stride[dim]
    return <int32_t> node


cdef int64_t count_hops(State* s, int32_t plane, int32_t router, int32_t goal, int32_t* first) noexcept nogil:
    """Count the links from a router to an NPU; `first` becomes the first of them if it is NONE."""
    cdef int64_t hops = 0
    cdef int64_t entry = 0
    cdef int32_t link
    while router != s.routes.home[goal] and hops <= s.routers.count:
        link = first_table_entry(s, plane, router, goal, &entry)
        if link == NONE:
            break
        if first[0] == NONE:
            first[0] = link
        router = s.links.link[link].dst
        hops += 1
        if router == NONE:   # a sink, where no other way is left
            break
    return hops


cdef void choose_route_candidate(State* s, Packet* p, int32_t router) noexcept nogil:
    cdef int32_t way, via, first
    cdef int32_t turn
    cdef int32_t start = 0
    cdef int32_t best = 0
    cdef int32_t best_via = NONE
    cdef int64_t hops, cost
    cdef int64_t least = INT64_MAX
    if s.routes.choose == 0:
        if s.routes.ways > 1:
            best = draw(p.key, 0, DRAW_WAY, s.routes.ways)
            s.routes.draws += 1
        if s.routes.way_via[best] != VIA_NONE:
            best_via = draw_intermediate(s, p, router, s.routes.way_via[best])
    else:
        if s.routes.choose == LEAST_DRAWN:
            start = draw(p.key, 0, DRAW_WAY, s.routes.ways)
            s.routes.draws += 1
        for turn in range(s.routes.ways):
            way = (start + turn) % s.routes.ways
            via = NONE
            first = NONE
            hops = 0
            if s.routes.way_via[way] != VIA_NONE:
                via = draw_intermediate(s, p, router, s.routes.way_via[way])
                hops = count_hops(s, s.routes.way_first[way], router, via, &first)
            hops += count_hops(s, s.routes.way_last[way], router if via == NONE else s.routes.home[via], p.dst, &first)
            cost = s.routes.way_bias[way] + (flits_in_use(s, first) * hops if first != NONE else 0)
            if cost < least:
                best, best_via, least = way, via, cost
    p.last = <int16_t> s.routes.way_last[best]
    if best_via != NONE and s.routes.home[best_via] != router:
        p.via = best_via
        p.plane = s.routes.way_first[best]
    else:
        p.via = NONE
        p.plane = p.last
