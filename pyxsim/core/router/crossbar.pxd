"""A flit has won the switch: it leaves its buffer for the link, and the credit of its slot starts back."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.router.buffer cimport mask_bit_of, masks_of, pop_packet
from pyxsim.core.router.link cimport (
    return_slot_credit,
    reserve_output_vc,
    arrival_event_batch,
    arrival_event,
    launch_on_link,
    credits_needed,
    free_output_vc,
    send_flit,
    consume_credits,
)
from pyxsim.core.fast_path.vc_masks cimport block_output, assign_output_vc, release_output_vc
from pyxsim.core.router.route_computation cimport start_routing
from pyxsim.core.state.network_state cimport State, note_event
from pyxsim.core.state.records cimport (
    ACTIVE,
    HOLDING,
    IDLE,
    NONE,
    STORE_AND_FORWARD,
    SWITCHED,
    WAITING,
    InPort,
    InputVc,
    Link,
    VcMasks,
)
from pyxsim.core.router.vc_allocator cimport free_vc
from pyxsim.core.latency.router_waits cimport packet_at_front, flit_wins_switch


cdef inline bint packet_complete(State* s, int32_t vc) noexcept nogil:
    """May the first packet of a buffer come to the front? In store-and-forward its tail must be there, too."""
    if s.config.flow != STORE_AND_FORWARD:
        return True
    return s.vcs.input[vc].occupancy >= s.pools.packets[s.vcs.input[vc].packet].flits


cdef inline void take_free_vc(State* s, int32_t vc, bint masked) noexcept nogil:
    """With va = 0 the VC is taken together with the switch."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t packet = v.packet
    v.out_vc = s.links.link[v.out_link].base + free_vc(s, v.out_link, s.links.low[v.range_row], s.links.high[v.range_row], s.pools.packets[packet].flits)
    reserve_output_vc(s, v.out_vc, packet)
    v.state = HOLDING
    masks_of(s, vc).heads &= ~mask_bit_of(s, vc)
    if masked:
        assign_output_vc(s, vc, v.out_vc)


cdef inline bint traverse_switch(
    State* s, InPort* port, VcMasks* inputs, uint64_t bit, int32_t vc, int64_t t, int64_t u, bint masked, bint tell,
    bint plain, bint unit
) noexcept nogil:
    """One flit leaves. Tells whether it is a tail: then `finish_packet` comes next.

    `port`, `inputs`, `bit`: where the VC is. `bitmask_sa`, `tell`, `batch_path`, `unit_rate`: as `State.path.bitmask_sa`, `told`,
    `State.path.batch_path` and `State.path.unit_rate` say; the compiler makes a copy of this for each.
    """
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t link = v.out_link
    cdef Link* wire = &s.links.link[link]
    cdef int32_t packet = v.packet
    cdef int32_t flit = 0
    cdef int32_t target, credits
    cdef int64_t free
    cdef bint head, tail
    if tell and s.config.attribution:
        flit_wins_switch(s, vc, t, u)
    if not plain and not s.config.va and v.state == WAITING:
        take_free_vc(s, vc, masked)
    target = v.out_vc
    head = v.state == HOLDING
    v.state = ACTIVE
    v.left -= 1
    v.occupancy -= 1
    tail = v.left == 0
    inputs.occupied &= ~(bit if v.occupancy == 0 else 0)
    if tell:
        flit = s.pools.packets[packet].flits - v.left - 1
        if s.trace.watch_serial >= 0:
            note_event(s, packet, t, SWITCHED, v.out_link, target - wire.base, flit)
    return_slot_credit(s, port, v.link, vc, t)
    if plain:   # who won is known for good
        s.scratch.output_winner[wire.outlet] = NONE
        s.arbiters.out_pointer[wire.outlet] = port.following
    if masked:
        credits = s.vcs.output[target].credit - 1
        s.vcs.output[target].credit = credits
        inputs.credit &= ~(bit if credits == 0 else 0)
        if plain:
            free = launch_on_link(s, target, link, arrival_event_batch(s, link, tail), packet, flit, t, tell, unit)
            if not unit and free > t + 1:
                block_output(s, v.router, wire.outlet, free, True)
        else:
            send_flit(s, target, link, arrival_event(s, link, head, tail), packet, flit, t, t, tell)
    else:
        credits = 1 if s.config.flow == 0 else credits_needed(s, s.pools.packets[packet].flits, True) if head else 0
        consume_credits(s, target, credits)
        # With an internal speed-up ST takes ticks, and the flit is in the output queue after them.
        send_flit(
            s, target, link, arrival_event(s, link, head, tail), packet, flit, t,
            t if s.config.ticks == 1 else (u + s.config.st) // s.config.ticks, tell,
        )
    return tail


cdef inline void finish_packet(State* s, int32_t vc, int64_t t, int64_t u, bint masked, bint tell) noexcept nogil:
    """The tail of a packet has left: the VC that it held is free for others, and the next packet comes to the front."""
    cdef InputVc* v = &s.vcs.input[vc]
    if masked:
        release_output_vc(s, vc, v.out_vc)
    free_output_vc(s, v.out_vc)
    pop_packet(s, vc)
    v.state = IDLE
    if tell and s.config.attribution and v.occupancy:
        packet_at_front(s, vc, (u + 1) // s.config.ticks)
    if v.occupancy and packet_complete(s, vc):
        start_routing(s, vc, u + 1)
