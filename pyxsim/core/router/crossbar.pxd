"""A flit has won the switch: it leaves its buffer for the link, and the credit of its slot starts back."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.router.buffer cimport bit_of, inputs_of, pop_packet
from pyxsim.core.router.link cimport (
    give_back,
    hold_vc,
    kind_in_stages,
    kind_of,
    launch,
    needed,
    release_vc,
    send_flit,
    take_slots,
)
from pyxsim.core.fast_path.vc_masks cimport block, holds, lets_go
from pyxsim.core.router.route_computation cimport to_front
from pyxsim.core.state.network_state cimport (
    ACTIVE,
    HOLDING,
    IDLE,
    NONE,
    STORE_AND_FORWARD,
    SWITCHED,
    WAITING,
    InPort,
    Inputs,
    Link,
    State,
    Vc,
    note,
)
from pyxsim.core.router.vc_allocator cimport free_vc
from pyxsim.core.latency.router_waits cimport is_first, wins


cdef inline bint complete(State* s, int32_t vc) noexcept nogil:
    """May the first packet of a buffer come to the front? In store-and-forward its tail must be there, too."""
    if s.flow != STORE_AND_FORWARD:
        return True
    return s.vc[vc].occupancy >= s.packets[s.vc[vc].packet].flits


cdef inline void take_vc(State* s, int32_t vc, bint masked) noexcept nogil:
    """With va = 0 the VC is taken together with the switch."""
    cdef Vc* v = &s.vc[vc]
    cdef int32_t packet = v.packet
    v.hold = s.link[v.want].base + free_vc(s, v.want, s.low[v.row], s.high[v.row], s.packets[packet].flits)
    hold_vc(s, v.hold, packet)
    v.state = HOLDING
    inputs_of(s, vc).heads &= ~bit_of(s, vc)
    if masked:
        holds(s, vc, v.hold)


cdef inline bint traverse(
    State* s, InPort* port, Inputs* inputs, uint64_t bit, int32_t vc, int64_t t, int64_t u, bint masked, bint tell,
    bint plain, bint unit
) noexcept nogil:
    """One flit leaves. Tells whether it is a tail: then `follow_tail` comes next.

    `port`, `inputs`, `bit`: where the VC is. `masked`, `tell`, `plain`, `unit`: as `State.masked`, `told`,
    `State.plain` and `State.unit` say; the compiler makes a copy of this for each.
    """
    cdef Vc* v = &s.vc[vc]
    cdef int32_t link = v.want
    cdef Link* wire = &s.link[link]
    cdef int32_t packet = v.packet
    cdef int32_t flit = 0
    cdef int32_t target, credits
    cdef int64_t free
    cdef bint head, tail
    if tell and s.attribution:
        wins(s, vc, t, u)
    if not plain and not s.va and v.state == WAITING:
        take_vc(s, vc, masked)
    target = v.hold
    head = v.state == HOLDING
    v.state = ACTIVE
    v.left -= 1
    v.occupancy -= 1
    tail = v.left == 0
    inputs.occupied &= ~(bit if v.occupancy == 0 else 0)
    if tell:
        flit = s.packets[packet].flits - v.left - 1
        if s.watch_serial >= 0:
            note(s, packet, t, SWITCHED, v.want, target - wire.base, flit)
    give_back(s, port, v.link, vc, t)
    if plain:   # who won is known for good
        s.out_pick[wire.outlet] = NONE
        s.out_pointer[wire.outlet] = port.following
    if masked:
        credits = s.out[target].credit - 1
        s.out[target].credit = credits
        inputs.credit &= ~(bit if credits == 0 else 0)
        if plain:
            free = launch(s, target, link, kind_in_stages(s, link, tail), packet, flit, t, tell, unit)
            if not unit and free > t + 1:
                block(s, v.router, wire.outlet, free, True)
        else:
            send_flit(s, target, link, kind_of(s, link, head, tail), packet, flit, t, t, tell)
    else:
        credits = 1 if s.flow == 0 else needed(s, s.packets[packet].flits, True) if head else 0
        take_slots(s, target, credits)
        # With an internal speed-up ST takes ticks, and the flit is in the output queue after them.
        send_flit(
            s, target, link, kind_of(s, link, head, tail), packet, flit, t,
            t if s.ticks == 1 else (u + s.st) // s.ticks, tell,
        )
    return tail


cdef inline void follow_tail(State* s, int32_t vc, int64_t t, int64_t u, bint masked, bint tell) noexcept nogil:
    """The tail of a packet has left: the VC that it held is free for others, and the next packet comes to the front."""
    cdef Vc* v = &s.vc[vc]
    if masked:
        lets_go(s, vc, v.hold)
    release_vc(s, v.hold)
    pop_packet(s, vc)
    v.state = IDLE
    if tell and s.attribution and v.occupancy:
        is_first(s, vc, (u + 1) // s.ticks)
    if v.occupancy and complete(s, vc):
        to_front(s, vc, u + 1)
