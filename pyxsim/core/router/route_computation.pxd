"""Route computation: see route_computation.pyx."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.state.bits cimport seldom
from pyxsim.core.router.buffer cimport bit_of, inputs_of
from pyxsim.core.fast_path.vc_masks cimport is_early
from pyxsim.core.state.network_state cimport NONE, ROUTE_SHIFT, ROUTING, WAITING, Inputs, Link, Packet, State, Vc, rank_of


cdef enum:
    DECIDES = -1   # a switch: this dimension always decides here
    SKIPPED = -2   # this dimension never decides here


cdef inline void aim(State* s, int32_t vc, int32_t link, int32_t vc_class) noexcept nogil:
    """The packet at the front of `vc` wants this link, in this class."""
    cdef Packet* p = &s.packets[s.vc[vc].packet]
    cdef int32_t row = s.link[link].range + p.vnet * s.link[link].classes + vc_class
    s.vc[vc].want = link
    s.vc[vc].row = row
    s.vc[vc].hold = s.link[link].base + s.low[row]


cdef inline int64_t front_time(State* s, int32_t vc) noexcept nogil:
    """The tick from which on the front packet of a VC has been there."""
    return s.vc[vc].ready - (s.rc + s.va - 1) if s.plain else s.front[vc]


cdef inline void wait_for_vc(State* s, int32_t vc, int64_t u) noexcept nogil:
    cdef int64_t ready = u + s.rc + (s.va - 1 if s.va else 0)
    s.vc[vc].state = WAITING
    s.vc[vc].ready = ready
    if s.masked:
        is_early(s, vc, ready)


cdef inline void to_front(State* s, int32_t vc, int64_t u) noexcept nogil:
    """The head of the next packet is at the front of its input VC from tick `u` on."""
    cdef Vc* v = &s.vc[vc]
    cdef int32_t packet = v.packet
    v.left = s.packets[packet].flits
    s.packets[packet].hops += 1
    if s.priorities:
        s.rank[vc] = rank_of(s, packet)
    inputs_of(s, vc).heads |= bit_of(s, vc)
    if not s.plain:
        s.front[vc] = u
    if s.lazy:
        v.state = ROUTING
        v.ready = u
        s.router[v.router].unrouted += 1
        return
    compute_route(s, vc, packet, u)
    wait_for_vc(s, vc, u)


cdef inline int32_t entry_in(State* s, int32_t plane, int32_t router, int32_t goal) noexcept nogil:
    """Where in the tables of a plane the first digit that differs decides; 0 if none does. Which one it is is not
    guessed."""
    cdef int64_t row = (<int64_t> plane * s.routers + router) * s.dims
    cdef int64_t entry = 0
    cdef int32_t open = -1
    cdef int32_t dim, own, digit, decides
    for dim in range(s.dims):
        own = s.own[row + dim]
        digit = s.digits[<int64_t> goal * s.dims + dim]
        decides = open & -<int32_t> ((own != SKIPPED) & (own != digit))   # DECIDES is no digit
        entry |= (s.offset[row + dim] + digit) & decides
        open &= ~decides
    return <int32_t> entry


cdef inline bint route_plainly(State* s, Vc* v, Packet* p) noexcept nogil:
    """`compute_route` where nothing is to be chosen, without a guess; False: this is not such a case."""
    cdef int32_t at_exit = -<int32_t> (p.exit == v.router)
    cdef int32_t link, vc_class, entry, group, stays
    cdef Link* wire
    if s.known != NULL:
        entry = s.known[(<int64_t> p.plane * s.routers + v.router) * s.nodes + p.dst]
        link, vc_class = entry >> ROUTE_SHIFT, entry & ((1 << ROUTE_SHIFT) - 1)
    else:
        entry = entry_in(s, p.plane, v.router, p.dst)
        link, vc_class = s.table_link[entry], s.table_class[entry]
        link |= -s.plane_any[p.plane]
    link = (p.eject & at_exit) | (link & ~at_exit)
    if seldom(link < 0):
        return False
    wire = &s.link[link]
    group = s.in_port[v.port].group
    stays = -<int32_t> ((group == wire.group) & (group >= 0))   # it keeps its class: see `kept_class`
    vc_class = ((v.vc_class & stays) | (vc_class & ~stays)) & ~at_exit
    v.want = link
    v.row = wire.range + p.vnet * wire.classes + vc_class
    v.hold = wire.base + s.low[v.row]
    return True


cdef inline void come_to_fronts(State* s, int32_t* vcs, int32_t count, int64_t u) noexcept nogil:
    """`to_front` for many VCs, where `State.plain`."""
    cdef int64_t ready = u + s.rc + s.va - 1
    cdef int32_t i, packet
    cdef uint64_t bit
    cdef Vc* v
    cdef Packet* p
    cdef Inputs* inputs
    for i in range(count):
        v = &s.vc[vcs[i]]
        packet = v.packet
        p = &s.packets[packet]
        v.left = p.flits
        p.hops += 1
        v.many = 0
        v.state = WAITING
        v.ready = ready
        bit = <uint64_t> 1 << (v.spot & 63)
        inputs = &s.inputs[v.router]
        inputs.heads |= bit
        inputs.early[ready & 3] |= bit
        if seldom(p.plane == NONE or p.via != NONE or s.watch_serial >= 0) or not route_plainly(s, v, p):
            compute_route(s, vcs[i], packet, u)


cdef void compute_route(State* s, int32_t vc, int32_t packet, int64_t u) noexcept nogil
cdef int32_t entry_of(State* s, int32_t plane, int32_t router, int32_t goal, int64_t* entry) noexcept nogil
cdef int32_t candidates(State* s, int32_t vc, int32_t plane, bint turned, int32_t found) noexcept nogil
cdef int32_t offers(State* s, int32_t vc, int32_t* count) noexcept nogil
cdef void find_routes(State* s, int32_t router, int64_t u) noexcept nogil
