"""VA: output VCs for heads. See vc_allocator.pyx; here is what `rotating` does for every head.

`rotating` needs no request matrix: while the inputs are walked, each range remembers the requester that is nearest
behind its pointer, which is the one that round robin grants.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.router.arbiter cimport after, distance
from pyxsim.core.state.bits cimport next_bit
from pyxsim.core.router.buffer cimport bit_of, inputs_of, vcs_of
from pyxsim.core.router.link cimport has_credits, hold_vc, needed
from pyxsim.core.fast_path.vc_masks cimport holds
from pyxsim.core.state.network_state cimport (
    GRANTED,
    HOLDING,
    MANY_ESCAPE,
    NONE,
    STALL_ARBITRATION,
    Packet,
    State,
    note,
)
from pyxsim.core.router.stall_counters cimport stall
from pyxsim.core.latency.router_waits cimport asks, lose_ranges, runs


cdef inline int32_t free_vc(State* s, int32_t link, int32_t low, int32_t high, int32_t flits) noexcept nogil:
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
    return next_bit(vcs_of(s.unheld, s, s.vc[vc].want), s.low[s.vc[vc].row], s.high[s.vc[vc].row])


cdef inline int32_t usable_vc(State* s, int32_t vc, int32_t low, int32_t high) noexcept nogil:
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


cdef inline int32_t usable_from(State* s, int32_t vc, int32_t pointer) noexcept nogil:
    """The first such VC of the range wanted at or after the pointer, wrapping round inside the range."""
    cdef int32_t low = s.low[s.vc[vc].row]
    cdef int32_t high = s.high[s.vc[vc].row]
    cdef int32_t found
    if pointer < low or pointer >= high:
        pointer = low
    found = usable_vc(s, vc, pointer, high)
    return found if found >= 0 else usable_vc(s, vc, low, pointer)


cdef inline void bid_for(State* s, int32_t vc, int32_t link, int64_t u) noexcept nogil:
    """Speculation: this head tries for the switch, too, in the tick in which it asks for a VC of the link."""
    s.bid[vc] = u
    s.bid_link[vc] = link


cdef inline void grant(State* s, int32_t router, int32_t vc, int32_t target, int64_t u) noexcept nogil:
    """The VC `target` goes to the packet at the front of an input VC."""
    cdef int32_t packet = s.vc[vc].packet
    hold_vc(s, target, packet)
    s.vc[vc].hold = target
    s.vc[vc].state = HOLDING
    inputs_of(s, vc).heads &= ~bit_of(s, vc)
    if s.masked:
        holds(s, vc, target)
    else:
        s.vc[vc].ready = u + 1
    if s.attribution:
        runs(s, vc, s.now)
    if s.watch_serial >= 0:
        note(s, packet, s.now, GRANTED, s.vc[vc].want, target - s.link[s.vc[vc].want].base, 0)


cdef inline void to_escape(State* s, int32_t vc) noexcept nogil:
    """The packet has taken a VC of its escape plane: a sticky plane lets it go for good."""
    cdef Packet* p = &s.packets[s.vc[vc].packet]
    if s.plane_sticky[p.plane]:
        p.plane = s.plane_escape[p.plane]


cdef inline int32_t ask_range(State* s, int32_t router, int32_t vc, int64_t u, int32_t asked) noexcept nogil:
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
        s, out, s.low[s.vc[vc].row], s.high[s.vc[vc].row], s.packets[s.vc[vc].packet].flits
    ) >= 0:
        bid_for(s, vc, out, u)
    ranged = s.link[out].base + s.low[s.vc[vc].row]
    number = vc - s.router[router].base
    key = (s.rank[vc] if s.priorities else 0) + distance(number, s.ranges[ranged].requester, s.router[router].input_vcs)
    if s.ranges[ranged].pick == NONE:
        s.va_touched[asked] = ranged
        asked += 1
    else:
        stall(s, out, STALL_ARBITRATION)   # one of the two loses
        if key >= s.va_key[ranged]:
            return asked
    s.ranges[ranged].pick = vc
    s.va_key[ranged] = key
    return asked


cdef inline void grant_ranges(State* s, int32_t router, int64_t u, int32_t asked) noexcept nogil:
    """The best requester of each range that was asked for gets the next VC that counts as free for it."""
    cdef int32_t i, ranged, vc, pick
    for i in range(asked):
        ranged = s.va_touched[i]
        vc = s.ranges[ranged].pick
        s.ranges[ranged].pick = NONE
        pick = usable_from(s, vc, s.ranges[ranged].next)
        grant(s, router, vc, s.link[s.vc[vc].want].base + pick, u)
        if s.vc[vc].many & MANY_ESCAPE:
            to_escape(s, vc)
        s.ranges[ranged].next = pick + 1
        s.ranges[ranged].requester = after(vc - s.router[router].base, s.router[router].input_vcs)
    if s.attribution:
        lose_ranges(s)


cdef void finds_none(State* s, int32_t vc, int32_t count) noexcept nogil
cdef bint choose_range(State* s, int32_t router, int32_t vc) noexcept nogil
cdef bint is_oldest(State* s, int32_t router, int32_t vc) noexcept nogil
cdef int64_t allocate_vcs(State* s, int32_t router, int64_t u) noexcept nogil
