"""ST: a flit that won the switch leaves its buffer for the link, and the credit of its slot starts back."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.fast_path.vc_masks cimport assign_output_vc, block_output, release_output_vc
from pyxsim.core.latency.router_waits cimport flit_wins_switch, packet_at_front
from pyxsim.core.router.buffer cimport mask_bit_of, masks_of, pop_packet
from pyxsim.core.router.credit_return cimport collect_credit
from pyxsim.core.router.link cimport (
    arrival_event,
    arrival_event_batch,
    consume_credits,
    credits_needed,
    free_output_vc,
    launch_on_link,
    reserve_output_vc,
    return_slot_credit,
    send_flit,
)
from pyxsim.core.router.route_computation cimport route_new_heads, start_routing
from pyxsim.core.router.vc_allocator cimport free_vc
from pyxsim.core.state.bits cimport prefetch
from pyxsim.core.state.network_state cimport State, cycle_of, note_event, packet_leaves
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
    VcRange,
)


cdef inline bint packet_complete(State* s, int32_t vc) noexcept nogil:
    """May the first packet of a buffer come to the front? In store-and-forward its tail must have arrived."""
    if s.config.flow != STORE_AND_FORWARD:
        return True
    return s.vcs.input[vc].occupancy >= s.pools.packets[s.vcs.input[vc].packet].flits


cdef inline void take_free_vc(State* s, int32_t vc, bint bitmask) noexcept nogil:
    """With va = 0 the VC is taken together with the switch."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t packet = v.packet
    cdef int32_t low = s.links.low[v.range_row]
    cdef int32_t high = s.links.high[v.range_row]
    cdef int32_t pick = -1
    cdef VcRange* turn = &s.vcs.ranges[s.links.link[v.out_link].base + low]
    if s.config.next_vc and low < turn.next < high:
        pick = free_vc(s, vc, turn.next, high)
    if pick < 0:
        pick = free_vc(s, vc, low, high)
    if s.config.next_vc:
        turn.next = pick + 1
    v.out_vc = s.links.link[v.out_link].base + pick
    reserve_output_vc(s, v.out_vc, packet)
    v.state = HOLDING
    masks_of(s, vc).heads &= ~mask_bit_of(s, vc)
    if bitmask:
        assign_output_vc(s, vc, v.out_vc)


cdef inline bint traverse_switch(
    State* s, InPort* port, VcMasks* inputs, uint64_t bit, int32_t vc, int64_t t, int64_t u, bint bitmask, bint traced,
    bint batch, bint unit_rate
) noexcept nogil:
    """One flit leaves. Return whether it is a tail; then `finish_packet` must follow.

    `port`, `inputs`, `bit`: port, mask record and mask bit of the VC. The compiler specialises this for `bitmask`,
    `traced`, `batch` and `unit_rate` (State.path, `is_observed`).
    """
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t link = v.out_link
    cdef Link* wire = &s.links.link[link]
    cdef int32_t packet = v.packet
    cdef int32_t flit = 0
    cdef int32_t target, credits
    cdef int64_t free
    cdef bint head, tail
    if traced and s.config.attribution:
        flit_wins_switch(s, vc, t, u)
    if not batch and not s.config.va and v.state == WAITING:
        take_free_vc(s, vc, bitmask)
    target = v.out_vc
    head = v.state == HOLDING
    v.state = ACTIVE
    v.left -= 1
    v.occupancy -= 1
    tail = v.left == 0
    inputs.occupied &= ~(bit if v.occupancy == 0 else 0)
    if traced:
        flit = s.pools.packets[packet].flits - v.left - 1
        if s.trace.watch_serial >= 0:
            note_event(s, packet, t, SWITCHED, v.out_link, target - wire.base, flit)
    if not bitmask and s.config.credits:
        collect_credit(s, v.link, vc, t)
    else:
        return_slot_credit(s, port, v.link, vc, t)
    if batch:   # the winner is final
        s.scratch.output_winner[wire.outlet] = NONE
        s.arbiters.out_pointer[wire.outlet] = port.following
    if bitmask:
        credits = s.vcs.output[target].credit - 1
        s.vcs.output[target].credit = credits
        inputs.credit &= ~(bit if credits == 0 else 0)
        if batch:
            free = launch_on_link(s, target, link, arrival_event_batch(s, link, tail), packet, flit, t, traced,
                                  unit_rate)
            if not unit_rate and free > t + 1:
                block_output(s, v.router, wire.outlet, free, True)
        else:
            send_flit(s, target, link, arrival_event(s, link, head, tail), packet, flit, t, t, t, traced)
    else:
        credits = 1 if s.config.flow == 0 else credits_needed(s, s.pools.packets[packet].flits, True) if head else 0
        consume_credits(s, target, credits)
        # With an internal or output speed-up ST is before the output queue, and takes ticks.
        send_flit(
            s, target, link, arrival_event(s, link, head, tail), packet, flit, t,
            cycle_of(s, u + s.config.st) if s.config.queue_after_st else t, u + s.config.st, traced,
        )
    return tail


cdef inline void finish_packet(State* s, int32_t vc, int64_t t, int64_t u, bint bitmask, bint traced) noexcept nogil:
    """The tail of a packet has left: free its output VC, and bring the next packet to the front."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t packet
    if bitmask:
        release_output_vc(s, vc, v.out_vc)
    free_output_vc(s, v.out_vc)
    packet = pop_packet(s, vc)
    if s.part.remote:
        packet_leaves(s, v.out_vc, packet)
    v.state = IDLE
    if traced and s.config.attribution and v.occupancy:
        packet_at_front(s, vc, cycle_of(s, u + 1))
    if v.occupancy and packet_complete(s, vc):
        start_routing(s, vc, u + 1)


# --- all winners of a cycle, with `bitmask_sa` ------------------------------------------------------------------------

cdef enum:
    WINNERS_AHEAD = 6


cdef inline void finish_packets(State* s, int32_t count, int64_t t, bint unit_rate) noexcept nogil:
    """The batch form of `finish_packet`: the next packets come to the front together."""
    cdef int32_t heads_count = 0
    cdef int32_t i, vc, packet
    cdef uint64_t bit
    cdef InputVc* v
    cdef Link* wire
    cdef VcMasks* inputs
    for i in range(count):
        vc = s.scratch.tails[i]
        v = &s.vcs.input[vc]
        wire = &s.links.link[v.out_link]
        inputs = &s.masks.inputs[v.mask_bit >> 6]
        bit = <uint64_t> 1 << (v.mask_bit & 63)
        inputs.holding &= ~bit
        inputs.credit &= ~bit
        s.masks.requests[wire.outlet] &= ~bit
        if not unit_rate:
            s.masks.blocked[v.mask_bit >> 6] &= ~bit
        s.vcs.unheld[wire.word] |= <uint64_t> 1 << (v.out_vc - wire.base)
        s.vcs.output[v.out_vc].holder = s.masks.no_holder_bit
        packet = pop_packet(s, vc)
        if s.part.remote:
            packet_leaves(s, v.out_vc, packet)
        v.state = IDLE
        s.scratch.new_heads[heads_count] = vc
        heads_count += v.occupancy != 0
    route_new_heads(s, s.scratch.new_heads, heads_count, t + 1)


cdef inline void traverse_winners(State* s, int64_t t, bint traced, bint batch, bint unit_rate) noexcept nogil:
    """All winners leave. Tails are handled apart, as whether a flit is one is hard to predict."""
    cdef int32_t i
    cdef int32_t tails = 0
    cdef int32_t count = s.scratch.winner_count
    cdef int32_t vc
    cdef bint tail
    cdef InputVc* v
    for i in range(count):
        if s.path.prefetch:
            prefetch_winners(s, i)
        vc = s.scratch.winners[i]
        v = &s.vcs.input[vc]
        tail = traverse_switch(
            s, &s.ports.input[v.port], &s.masks.inputs[v.mask_bit >> 6], <uint64_t> 1 << (v.mask_bit & 63), vc, t, t,
            True, traced, batch, unit_rate)
        s.scratch.tails[tails] = vc
        tails += tail
    s.stats.router_visits += count
    s.scratch.winner_count = 0
    if batch:
        finish_packets(s, tails, t, unit_rate)
        return
    for i in range(tails):
        finish_packet(s, s.scratch.tails[i], t, t, True, traced)


cdef inline void prefetch_winners(State* s, int32_t i) noexcept nogil:
    """Large networks: prefetch the records of the next winners. Behind the last one are VCs of earlier cycles."""
    cdef InputVc* v = &s.vcs.input[s.scratch.winners[i + WINNERS_AHEAD]]
    prefetch(&s.vcs.input[s.scratch.winners[i + 2 * WINNERS_AHEAD]])
    prefetch(&s.links.link[v.out_link])
    prefetch(&s.vcs.output[v.out_vc])
