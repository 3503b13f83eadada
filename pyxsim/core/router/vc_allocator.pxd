"""VA: output VCs for heads. Here is what `rotating` does for every head; see vc_allocator.pyx.

`rotating` needs no request matrix: each range remembers its requester nearest behind its pointer, which round robin
grants.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.fast_path.vc_masks cimport assign_output_vc
from pyxsim.core.latency.router_waits cimport record_contender, record_va_losers, set_moving
from pyxsim.core.router.arbiter cimport after, distance
from pyxsim.core.router.buffer cimport link_vc_mask, mask_bit_of, masks_of
from pyxsim.core.router.link cimport credits_needed, has_credits, reserve_output_vc
from pyxsim.core.router.stall_counters cimport count_stall
from pyxsim.core.state.bits cimport next_bit, seldom
from pyxsim.core.state.network_state cimport State, note_event, rank_of
from pyxsim.core.state.records cimport GRANTED, HOLDING, MULTI_ESCAPE, NONE, STALL_ARBITRATION, Packet


cdef inline bint stays_in_ring(State* s, int32_t vc) noexcept nogil:
    """Bubble flow control: does the packet stay in a ring, a group of links?"""
    cdef int32_t group = s.links.link[s.vcs.input[vc].out_link].group
    return group >= 0 and s.links.link[s.vcs.input[vc].link].group == group


cdef inline int32_t ring_vc(State* s, int32_t vc) noexcept nogil:
    """Bubble flow control: the number of the VC that the packet keeps, as it stays in its ring; NONE: it keeps none."""
    if not s.routes.bubble or not stays_in_ring(s, vc):
        return NONE
    return vc - s.links.link[s.vcs.input[vc].link].base


cdef inline int32_t ring_slots(State* s, int32_t vc) noexcept nogil:
    """Bubble flow control: the slots of its own that a VC must have for a packet to enter a ring, else 0.

    The packet takes all but one, so a slot of the ring stays empty.
    """
    if not s.routes.bubble or s.links.link[s.vcs.input[vc].out_link].group < 0 or stays_in_ring(s, vc):
        return 0
    return s.pools.packets[s.vcs.input[vc].packet].flits + 1


cdef inline int32_t next_unheld_vc(State* s, int32_t vc, int32_t low, int32_t high) noexcept nogil:
    """The first VC in [low, high) of the requested link that no packet holds and this one may take, or -1."""
    cdef int32_t kept = ring_vc(s, vc)
    if kept != NONE:
        low, high = max(low, kept), min(high, kept + 1)
        if low >= high:
            return -1
    return next_bit(link_vc_mask(s.vcs.unheld, s, s.vcs.input[vc].out_link), low, high)


cdef inline int32_t free_vc(State* s, int32_t vc, int32_t low, int32_t high) noexcept nogil:
    """The lowest VC in [low, high) of the requested link with credits for the head; -1: none is free, -2: none of the
    free ones has the credits."""
    cdef int32_t link = s.vcs.input[vc].out_link
    cdef uint64_t* mask = link_vc_mask(s.vcs.unheld, s, link)
    cdef int32_t credits, pick
    if seldom(s.routes.bubble):
        return free_ring_vc(s, vc, low, high)
    credits = credits_needed(s, s.pools.packets[s.vcs.input[vc].packet].flits, True)
    pick = next_bit(mask, low, high)
    if pick < 0:
        return -1
    while pick >= 0:
        if has_credits(s, s.links.link[link].base + pick, credits):
            return pick
        pick = next_bit(mask, pick + 1, high)
    return -2


cdef int32_t free_ring_vc(State* s, int32_t vc, int32_t low, int32_t high) noexcept nogil


cdef inline int32_t lowest_free_vc(State* s, int32_t vc) noexcept nogil:
    """The lowest free VC of the requested range, or -1."""
    return next_unheld_vc(s, vc, s.links.low[s.vcs.input[vc].range_row], s.links.high[s.vcs.input[vc].range_row])


cdef inline int32_t first_usable_vc(State* s, int32_t vc, int32_t low, int32_t high) noexcept nogil:
    """The lowest VC in [low, high) of the requested link that counts as free for a head, or -1.

    A head with several candidates gives up the others, and its escape, for the VC that it is granted. So in cut-through
    and store-and-forward that VC must have room for the whole packet in slots of its own. A head that enters a ring by
    bubble flow control requires one more slot. No VC of a link that is down counts as free for it.
    """
    cdef int32_t link = s.vcs.input[vc].out_link
    cdef int32_t pick = next_unheld_vc(s, vc, low, high)
    cdef int32_t needed
    if s.config.va_limited:
        if s.vcs.input[vc].multi and s.links.link[link].free == INT64_MAX:   # it is down
            return -1
        needed = ring_slots(s, vc)
        if s.config.flow and s.vcs.input[vc].multi:
            needed = min(s.pools.packets[s.vcs.input[vc].packet].flits, s.links.link[link].depth)
        if needed:
            while pick >= 0 and s.vcs.output[s.links.link[link].base + pick].credit < needed:
                pick = next_unheld_vc(s, vc, pick + 1, high)
        elif s.config.va_credit:
            while pick >= 0 and not has_credits(s, s.links.link[link].base + pick, 1):
                pick = next_unheld_vc(s, vc, pick + 1, high)
    return pick


cdef inline int32_t next_usable_vc(State* s, int32_t vc, int32_t pointer) noexcept nogil:
    """The first such VC of the requested range at or after the pointer, cyclically."""
    cdef int32_t low = s.links.low[s.vcs.input[vc].range_row]
    cdef int32_t high = s.links.high[s.vcs.input[vc].range_row]
    cdef int32_t vc_found
    if pointer < low or pointer >= high:
        pointer = low
    vc_found = first_usable_vc(s, vc, pointer, high)
    return vc_found if vc_found >= 0 else first_usable_vc(s, vc, low, pointer)


cdef inline void place_bid(State* s, int32_t vc, int32_t link, int64_t u) noexcept nogil:
    """Speculation: the head also bids for the switch in the tick in which it requests a VC of the link."""
    s.vcs.bid[vc] = u
    s.vcs.bid_link[vc] = link


cdef inline void grant_vc(State* s, int32_t router, int32_t vc, int32_t target, int64_t u) noexcept nogil:
    """Grant output VC `target` to the packet at the front of an input VC."""
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
        note_event(s, packet, s.now, GRANTED, s.vcs.input[vc].out_link,
                   target - s.links.link[s.vcs.input[vc].out_link].base, 0)


cdef inline void switch_to_escape_plane(State* s, int32_t vc) noexcept nogil:
    """The packet has taken a VC of its escape plane; from a sticky plane it never returns."""
    cdef Packet* p = &s.pools.packets[s.vcs.input[vc].packet]
    if s.routes.plane_sticky[p.plane]:
        p.plane = s.routes.plane_escape[p.plane]


cdef inline int32_t request_range(State* s, int32_t router, int32_t vc, int64_t u, int32_t requested) noexcept nogil:
    """One head requests a range, which is identified by its first VC."""
    cdef int32_t out, ranged, number
    cdef int64_t key
    if s.vcs.input[vc].multi:
        if not select_range(s, router, vc):
            return requested
    elif s.vcs.input[vc].out_link == NONE:
        return requested
    elif s.config.ordered and not is_oldest_head(s, router, vc):
        return requested
    elif first_usable_vc(s, vc, s.links.low[s.vcs.input[vc].range_row],
                         s.links.high[s.vcs.input[vc].range_row]) < 0:
        count_no_vc_stall(s, vc, 1)
        return requested
    out = s.vcs.input[vc].out_link
    if s.config.attribution:
        record_contender(s, vc)
    if s.config.speculative and free_vc(
        s, vc, s.links.low[s.vcs.input[vc].range_row], s.links.high[s.vcs.input[vc].range_row]
    ) >= 0:
        place_bid(s, vc, out, u)
    ranged = s.links.link[out].base + s.links.low[s.vcs.input[vc].range_row]
    number = vc - s.routers.router[router].base
    key = (rank_of(s, vc) if s.config.priorities else 0) + distance(number, s.vcs.ranges[ranged].requester,
                                                                    s.routers.router[router].input_vcs)
    if s.vcs.ranges[ranged].pick == NONE:
        s.scratch.requested_ranges[requested] = ranged
        requested += 1
    else:
        count_stall(s, out, STALL_ARBITRATION)   # one of the two loses
        if key >= s.vcs.va_key[ranged]:
            return requested
    s.vcs.ranges[ranged].pick = vc
    s.vcs.va_key[ranged] = key
    return requested


cdef inline void grant_ranges(State* s, int32_t router, int64_t u, int32_t requested) noexcept nogil:
    """Grant the best requester of each requested range the next VC that counts as free for it."""
    cdef int32_t i, ranged, vc, pick
    for i in range(requested):
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
