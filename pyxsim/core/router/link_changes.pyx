"""Links that change between two cycles: rates, latencies, down and up (docs/router.md, "Links that change").

A link that is down is never available: `Link.free` is INT64_MAX.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t

from pyxsim.core.fast_forward.period_detector cimport forget_periods
from pyxsim.core.fast_path.vc_masks cimport block_output, unblock_output
from pyxsim.core.latency.link_faults cimport begin_faults
from pyxsim.core.router.buffer cimport first_packet_place, next_packet_place, packet_at
from pyxsim.core.router.calendar cimport count_entries, remove_entries, schedule
from pyxsim.core.router.credit_return cimport change_credit_return
from pyxsim.core.router.interface cimport lose_packet
from pyxsim.core.router.link cimport link_available_at
from pyxsim.core.router.retry cimport lose_unaccepted, resume_sending
from pyxsim.core.state.bits cimport set_bit
from pyxsim.core.state.records cimport HEAD, IDLE, LAST, LAUNCH, NONE, WAKE, InputVc, Link


cdef void change_link(
    State* s, int32_t link, int64_t num, int32_t delay, int32_t credit_delay, bint down, bint lose
) noexcept nogil:
    """Change a link from step 2 of the current cycle on. `num`: cycles per flit, in units of 1 / den.

    `lose`: when it goes down, the flits on the wire are lost.
    """
    cdef Link* wire = &s.links.link[link]
    cdef bint sends = s.part.sender == NULL or s.part.sender[link] == s.part.number
    cdef bint receives = s.part.receiver == NULL or s.part.receiver[link] == s.part.number
    cdef bint was_down = wire.free == INT64_MAX
    if not (sends or receives):
        return   # its records are in another process
    if s.config.attribution:
        begin_faults(s)
    if was_down:
        wire.free = s.links.up_free[link]
    pause_link(s, link, delay)
    wire.num, wire.delay, wire.credit_delay = num, delay, credit_delay
    if wire.dst != NONE:
        s.ports.input[s.vcs.input[wire.base].port].credit_delay = credit_delay
    if down and lose and not was_down:
        lose_flits(s, link, sends, receives)
    if down:
        s.links.up_free[link] = wire.free
        wire.free = INT64_MAX
    if s.config.credits:
        change_credit_return(s, link, down and lose and not was_down, was_down and not down)
    if s.detector != NULL:
        forget_periods(s)
    if not sends:
        return
    if s.config.retry and s.links.replay[link].slots:
        resume_sending(s, link)
    if wire.src == NONE:
        wake_changed_lane(s, link)
    else:
        wake_changed_output(s, link)


cdef void pause_link(State* s, int32_t link, int32_t delay) noexcept nogil:
    """Let the link wait until no flit can overtake the last one on the wire, which may have a longer delay."""
    cdef Link* wire = &s.links.link[link]
    cdef int64_t* pause = &s.links.pause[3 * link]
    if wire.free != pause[0]:   # a flit was launched since the last change, with the present delay
        pause[1] = wire.free
        pause[2] = wire.free + wire.delay * wire.den
    wire.free = pause[0] = max(pause[1], pause[2] - delay * wire.den)


cdef void wake_changed_lane(State* s, int32_t link) noexcept nogil:
    """Let a lane check its link again."""
    cdef int32_t lane = link - s.links.network
    set_bit(s.lanes.active, lane)
    if s.links.link[link].free != INT64_MAX and link_available_at(s, link) > s.now:
        schedule(s, link_available_at(s, link), s.routers.count + lane, WAKE)


cdef void wake_changed_output(State* s, int32_t link) noexcept nogil:
    """Let a router check an output again; the first flit of an output queue starts when the link is available."""
    cdef Link* wire = &s.links.link[link]
    set_bit(s.routers.active, wire.src)
    if wire.queued:
        remove_entries(s, LAUNCH, wire.outlet, wire.outlet + 1)
        if wire.queue_head != NONE and wire.free != INT64_MAX:
            schedule(s, max(link_available_at(s, link), max(s.now + 1, s.pools.queued[wire.queue_head].at)),
                     wire.outlet, LAUNCH)
        return
    if not s.path.bitmask_sa:
        return
    remove_entries(s, LAUNCH, wire.outlet, wire.outlet + 1)
    unblock_output(s, wire.src, wire.outlet, s.path.batch_path)
    s.masks.free_from[wire.outlet] = s.now
    if wire.free == INT64_MAX or link_available_at(s, link) > s.now:
        block_output(s, wire.src, wire.outlet, s.now + 1 if wire.free == INT64_MAX else link_available_at(s, link),
                     s.path.batch_path)
    if wire.free == INT64_MAX:
        remove_entries(s, LAUNCH, wire.outlet, wire.outlet + 1)
        s.masks.free_from[wire.outlet] = INT64_MAX


# --- flits that are lost --------------------------------------------------------------------------------------------

cdef void lose_flits(State* s, int32_t link, bint sends, bint receives) noexcept nogil:
    """The flits on the wire are lost: with retry they are retransmitted, otherwise their packets are lost."""
    cdef Link* wire = &s.links.link[link]
    cdef int32_t kind
    if not (s.config.retry and s.links.replay[link].slots):
        for kind in range(wire.vcs):
            s.links.lost[link] += lose_packets(s, wire.base + kind)
        return
    if receives:
        for kind in range(HEAD, LAST + 1):
            s.links.lost[link] += remove_entries(s, kind, wire.base, wire.base + wire.vcs)
    if sends:
        lose_unaccepted(s, link)


cdef int64_t lose_packets(State* s, int32_t vc) noexcept nogil:
    """Mark the packets with a flit on the wire of a VC. Return the number of these flits."""
    cdef InputVc* v = &s.vcs.input[vc]
    cdef int32_t place = first_packet_place(s, vc)
    cdef int64_t flying = count_entries(s, HEAD, LAST, vc)
    cdef int64_t packets, inside, flits, left
    if flying and v.router == NONE:   # a sink, where tails tell packets apart; the last packet may have more flits
        packets = count_entries(s, LAST, LAST, vc) + (not ends_with_tail(s, vc))
        while place != NONE and packets:
            lose_packet(s, packet_at(s, vc, place))
            place = next_packet_place(s, vc, place)
            packets -= 1
        return flying
    inside, left = v.occupancy, flying   # the first flits are in the buffer, the next ones on the wire
    while place != NONE and left > 0:
        flits = s.pools.packets[packet_at(s, vc, place)].flits
        if place == first_packet_place(s, vc) and v.state != IDLE:
            flits = v.left
        if flits > inside:
            lose_packet(s, packet_at(s, vc, place))
            left -= flits - inside
            inside = 0
        else:
            inside -= flits
        place = next_packet_place(s, vc, place)
    return flying


cdef bint ends_with_tail(State* s, int32_t vc) noexcept nogil:
    """Is the last flit on the wire of a VC that ends at a sink a tail?"""
    cdef int64_t offset
    cdef int32_t kind, i
    cdef bint tail = False
    for offset in range(s.calendar.slot_mask + 1):
        for kind in range(HEAD, LAST + 1):
            for i in range(s.calendar.slots[(s.now + offset) & s.calendar.slot_mask].count[kind]):
                if s.calendar.slots[(s.now + offset) & s.calendar.slot_mask].events[kind][i] == vc:
                    tail = kind == LAST
    return tail
