"""VA: output VCs for heads. See vc_allocator.pyx; here is what `rotating` does for every head.

`rotating` needs no request matrix: while the inputs are walked, each range remembers the requester that is nearest
behind its pointer, which is the one that round robin grants.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.router.arbiter cimport after, distance
from pyxsim.core.state.bits cimport next_bit
from pyxsim.core.router.buffer cimport mask_bit_of, masks_of, link_vc_mask
from pyxsim.core.router.link cimport has_credits, reserve_output_vc, credits_needed
from pyxsim.core.fast_path.vc_masks cimport assign_output_vc
from pyxsim.core.state.network_state cimport State, note_event
from pyxsim.core.state.records cimport GRANTED, HOLDING, MULTI_ESCAPE, NONE, STALL_ARBITRATION, Packet
from pyxsim.core.router.stall_counters cimport count_stall
from pyxsim.core.latency.router_waits cimport record_contender, record_va_losers, set_moving


cdef inline int32_t free_vc(State* s, int32_t link, int32_t low, int32_t high, int32_t flits) noexcept nogil:
    """The lowest free VC of a range with credits for a head of a packet of so many flits; -1: none is free, -2: none of
    the free ones has the credits."""
    cdef uint64_t* mask = link_vc_mask(s.vcs.unheld, s, link)
    cdef int32_t pick = next_bit(mask, low, high)
    cdef int32_t wanted = credits_needed(s, flits, True)
    if pick < 0:
        return -1
    while pick >= 0:
        if has_credits(s, s.links.link[link].base + pick, wanted):
            return pick
        pick = next_bit(mask, pick + 1, high)
    return -2


cdef inline int32_t lowest_free_vc(State* s, int32_t vc) noexcept nogil:
    """The lowest VC of the range wanted that nobody holds, or -1."""
    return next_bit(link_vc_mask(s.vcs.unheld, s, s.vcs.input[vc].out_link), s.links.low[s.vcs.input[vc].range_row], s.links.high[s.vcs.input[vc].range_row])


cdef inline int32_t first_usable_vc(State* s, int32_t vc, int32_t low, int32_t high) noexcept nogil:
    """The lowest VC in [low, high) of the link wanted that counts as free for a head, or -1.

    A head with many candidates gives up the others, and its escape with them, for the VC that it is granted. So, where
    a packet wants room for all of it, that must be there already: in slots of the VC's own, which nobody else takes.
    """
    cdef int32_t link = s.vcs.input[vc].out_link
    cdef uint64_t* mask = link_vc_mask(s.vcs.unheld, s, link)
    cdef int32_t pick = next_bit(mask, low, high)
    cdef int32_t room
    if s.config.flow and s.vcs.input[vc].multi:
        room = min(s.pools.packets[s.vcs.input[vc].packet].flits, s.links.link[link].depth)
        while pick >= 0 and s.vcs.output[s.links.link[link].base + pick].credit < room:
            pick = next_bit(mask, pick + 1, high)
    return pick


cdef inline int32_t next_usable_vc(State* s, int32_t vc, int32_t pointer) noexcept nogil:
    """The first such VC of the range wanted at or after the pointer, wrapping round inside the range."""
    cdef int32_t low = s.links.low[s.vcs.input[vc].range_row]
    cdef int32_t high = s.links.high[s.vcs.input[vc].range_row]
    cdef int32_t found
    if pointer < low or pointer >= high:
        pointer = low
    found = first_usable_vc(s, vc, pointer, high)
    return found if found >= 0 else first_usable_vc(s, vc, low, pointer)


cdef inline void place_bid(State* s, int32_t vc, int32_t link, int64_t u) noexcept nogil:
    """Speculation: this head tries for the switch, too, in the tick in which it asks for a VC of the link."""
    s.vcs.bid[vc] = u
    s.vcs.bid_link[vc] = link


cdef inline void grant_vc(State* s, int32_t router, int32_t vc, int32_t target, int64_t u) noexcept nogil:
    """The VC `target` goes to the packet at the front of an input VC."""
    cdef int32_t packet = s.vcs.input[vc].packet
    reserve_output_vc(s, target, packet)
    s.vcs.input[vc].out_vc = target
    s.vcs.input[vc].state = HOLDING
    masks_of(s, vc).heads &= ~mask_bit_of(s, vc)
    if s.path.bitmask_sa:
        assign_output_vc(s, vc, target)
    else:
        s.vcs.input[vc].ready = u + 1
    if s.config.attribution:
        set_moving(s, vc, s.now)
    if s.trace.watch_serial >= 0:
        note_event(s, packet, s.now, GRANTED, s.vcs.input[vc].out_link, target - s.links.link[s.vcs.input[vc].out_link].base, 0)


cdef inline void switch_to_escape_plane(State* s, int32_t vc) noexcept nogil:
    """The packet has taken a VC of its escape plane: a sticky plane lets it go for good."""
    cdef Packet* p = &s.pools.packets[s.vcs.input[vc].packet]
    if s.routes.plane_sticky[p.plane]:
        p.plane = s.routes.plane_escape[p.plane]


cdef inline int32_t request_range(State* s, int32_t router, int32_t vc, int64_t u, int32_t asked) noexcept nogil:
    """One head asks. A range is named by its first VC."""
    cdef int32_t out, ranged, number
    cdef int64_t key
    if s.vcs.input[vc].multi:
        if not select_range(s, router, vc):
            return asked
    elif s.vcs.input[vc].out_link == NONE:
        return asked
    elif s.config.ordered and not is_oldest_head(s, router, vc):
        return asked
    elif lowest_free_vc(s, vc) < 0:
        count_no_vc_stall(s, vc, 1)
        return asked
    out = s.vcs.input[vc].out_link
    if s.config.attribution:
        record_contender(s, vc)
    if s.config.speculative and free_vc(
        s, out, s.links.low[s.vcs.input[vc].range_row], s.links.high[s.vcs.input[vc].range_row], s.pools.packets[s.vcs.input[vc].packet].flits
    ) >= 0:
        place_bid(s, vc, out, u)
    ranged = s.links.link[out].base + s.links.low[s.vcs.input[vc].range_row]
    number = vc - s.routers.router[router].base
    key = (s.vcs.rank[vc] if s.config.priorities else 0) + distance(number, s.vcs.ranges[ranged].requester, s.routers.router[router].input_vcs)
    if s.vcs.ranges[ranged].pick == NONE:
        s.scratch.requested_ranges[asked] = ranged
        asked += 1
    else:
        count_stall(s, out, STALL_ARBITRATION)   # one of the two loses
        if key >= s.vcs.va_key[ranged]:
            return asked
    s.vcs.ranges[ranged].pick = vc
    s.vcs.va_key[ranged] = key
    return asked


cdef inline void grant_ranges(State* s, int32_t router, int64_t u, int32_t asked) noexcept nogil:
    """The best requester of each range that was asked for gets the next VC that counts as free for it."""
    cdef int32_t i, ranged, vc, pick
    for i in range(asked):
        ranged = s.scratch.requested_ranges[i]
        vc = s.vcs.ranges[ranged].pick
        s.vcs.ranges[ranged].pick = NONE
        pick = next_usable_vc(s, vc, s.vcs.ranges[ranged].next)
        grant_vc(s, router, vc, s.links.link[s.vcs.input[vc].out_link].base + pick, u)
        if s.vcs.input[vc].multi & MULTI_ESCAPE:
            switch_to_escape_plane(s, vc)
        s.vcs.ranges[ranged].next = pick + 1
        s.vcs.ranges[ranged].requester = after(vc - s.routers.router[router].base, s.routers.router[router].input_vcs)
    if s.config.attribution:
        record_va_losers(s)


cdef void count_no_vc_stall(State* s, int32_t vc, int32_t count) noexcept nogil
cdef bint select_range(State* s, int32_t router, int32_t vc) noexcept nogil
cdef bint is_oldest_head(State* s, int32_t router, int32_t vc) noexcept nogil
cdef int64_t allocate_vcs(State* s, int32_t router, int64_t u) noexcept nogil
