"""RC: see route_computation.pyx. Here is what every head does."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.fast_path.vc_masks cimport delay_first_try
from pyxsim.core.router.buffer cimport mask_bit_of, masks_of
from pyxsim.core.state.bits cimport seldom
from pyxsim.core.state.network_state cimport State, front_rank
from pyxsim.core.state.records cimport NONE, ROUTE_SHIFT, ROUTING, WAITING, InputVc, Link, Packet, VcMasks


cdef enum:
    DECIDES = -1   # a switch: this dimension always decides here
    SKIPPED = -2   # this dimension never decides here


cdef inline void set_candidate(State* s, int32_t vc, int32_t link, int32_t vc_class) noexcept nogil:
    """The packet at the front of `vc` requests this link, in this VC class."""
    cdef Packet* p = &s.pools.packets[s.vcs.input[vc].packet]
    cdef int32_t row = s.links.link[link].range + p.vnet * s.links.link[link].classes + vc_class
    s.vcs.input[vc].out_link = link
    s.vcs.input[vc].range_row = row
    s.vcs.input[vc].out_vc = s.links.link[link].base + s.links.low[row]


cdef inline int64_t front_time(State* s, int32_t vc) noexcept nogil:
    """The tick in which the front packet of a VC came to the front."""
    return s.vcs.input[vc].ready - (s.config.rc + s.config.va - 1) if s.path.batch_path else s.vcs.front_time[vc]


cdef inline void await_vc(State* s, int32_t vc, int64_t u) noexcept nogil:
    cdef int64_t ready = u + s.config.rc + (s.config.va - 1 if s.config.va else 0)
    s.vcs.input[vc].state = WAITING
    s.vcs.input[vc].ready = ready
    if s.path.bitmask_sa:
        delay_first_try(s, vc, ready)


cdef inline void start_routing(State* s, int32_t vc, int64_t u) noexcept nogil:
    """The head of the next packet is at the front of its input VC from tick `u` on."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t packet = v.packet
    v.left = s.pools.packets[packet].flits
    s.pools.packets[packet].hops += 1
    if s.config.priorities:
        s.vcs.rank[vc] = front_rank(s, packet, u)
    masks_of(s, vc).heads |= mask_bit_of(s, vc)
    if not s.path.batch_path:
        s.vcs.front_time[vc] = u
    if s.routes.credit_dependent:
        v.state = ROUTING
        v.ready = u
        s.routers.router[v.router].unrouted += 1
        return
    compute_route(s, vc, packet, u)
    await_vc(s, vc, u)


cdef inline int32_t table_entry_branchless(State* s, int32_t plane, int32_t router, int32_t goal) noexcept nogil:
    """Index in the tables of a plane of the first digit that decides, 0 if none does. Branch-free."""
    cdef int64_t row = (<int64_t> plane * s.routers.count + router) * s.routes.dims
    cdef int64_t entry = 0
    cdef int32_t open = -1
    cdef int32_t dim, own, digit, decides
    for dim in range(s.routes.dims):
        own = s.routes.own[row + dim]
        digit = s.routes.digits[<int64_t> goal * s.routes.dims + dim]
        decides = open & -<int32_t> ((own != SKIPPED) & (own != digit))   # DECIDES is no digit
        entry |= (s.routes.offset[row + dim] + digit) & decides
        open &= ~decides
    return <int32_t> entry


cdef inline bint lookup_route(State* s, InputVc* v, Packet* p) noexcept nogil:
    """`compute_route` without branches where there is one candidate; False: there is not."""
    cdef int32_t at_exit = -<int32_t> (p.exit == v.router)
    cdef int32_t link, vc_class, entry, group, stays
    cdef Link* wire
    if s.routes.cached != NULL:
        entry = s.routes.cached[(<int64_t> p.plane * s.routers.count + v.router) * s.routes.nodes + p.dst]
        link, vc_class = entry >> ROUTE_SHIFT, entry & ((1 << ROUTE_SHIFT) - 1)
    else:
        entry = table_entry_branchless(s, p.plane, v.router, p.dst)
        link, vc_class = s.routes.table_link[entry], s.routes.table_class[entry]
        link |= -s.routes.plane_any[p.plane]
    link = (p.eject & at_exit) | (link & ~at_exit)
    if seldom(link < 0):
        return False
    wire = &s.links.link[link]
    group = s.ports.input[v.port].group
    stays = -<int32_t> ((group == wire.group) & (group >= 0))   # it keeps its class: see `kept_class`
    vc_class = ((v.vc_class & stays) | (vc_class & ~stays)) & ~at_exit
    v.out_link = link
    v.range_row = wire.range + p.vnet * wire.classes + vc_class
    v.out_vc = wire.base + s.links.low[v.range_row]
    return True


cdef inline void route_new_heads(State* s, int32_t* vcs, int32_t count, int64_t u) noexcept nogil:
    """`start_routing` for many VCs, in the batch path."""
    cdef int64_t ready = u + s.config.rc + s.config.va - 1
    cdef int32_t i, packet
    cdef uint64_t bit
    cdef InputVc* v
    cdef Packet* p
    cdef VcMasks* inputs
    for i in range(count):
        v = &s.vcs.input[vcs[i]]
        packet = v.packet
        p = &s.pools.packets[packet]
        v.left = p.flits
        p.hops += 1
        v.multi = 0
        v.state = WAITING
        v.ready = ready
        bit = <uint64_t> 1 << (v.mask_bit & 63)
        inputs = &s.masks.inputs[v.router]
        inputs.heads |= bit
        inputs.early[ready & 3] |= bit
        if seldom(p.plane == NONE or p.via != NONE or s.trace.watch_serial >= 0) or not lookup_route(s, v, p):
            compute_route(s, vcs[i], packet, u)


cdef void compute_route(State* s, int32_t vc, int32_t packet, int64_t u) noexcept nogil
cdef int32_t first_table_entry(State* s, int32_t plane, int32_t router, int32_t goal, int64_t* entry) noexcept nogil
cdef int32_t output_candidates(State* s, int32_t vc, int32_t plane, bint turned, int32_t total) noexcept nogil
cdef int32_t all_candidates(State* s, int32_t vc, int32_t* count) noexcept nogil
cdef void compute_pending_routes(State* s, int32_t router, int64_t u) noexcept nogil
