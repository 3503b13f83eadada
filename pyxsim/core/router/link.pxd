"""A link at its sending end: who may use its VCs, when a flit may start, where its credits come back.

Times on a link are kept in units of 1/den cycles, so that s = num/den cycles per flit is exact for ever.
What every flit does stands here; link.pyx has output queues, and what is asked seldom.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.state.bits cimport clear_bit, set_bit
from pyxsim.core.router.buffer cimport push_packet, link_vc_mask
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.parallel.mailbox cimport post
from pyxsim.core.fast_path.vc_masks cimport block_output
from pyxsim.core.state.network_state cimport State, log_launch, note_event
from pyxsim.core.state.records cimport (
    ARRIVES,
    BODY,
    CREDIT,
    HEAD,
    LANE_CREDIT,
    LAUNCHED,
    NONE,
    SINK,
    WAKE,
    Event,
    InPort,
    Link,
    OutputVc,
)
from pyxsim.core.latency.router_waits cimport record_owner, flit_starts


cdef inline bint link_available(State* s, int32_t link, int64_t t) noexcept nogil:
    """Can the link start a flit in cycle `t`?"""
    return s.links.link[link].free < (t + 1) * s.links.link[link].den


cdef inline int64_t link_available_at(State* s, int32_t link) noexcept nogil:
    """The first cycle in which it can."""
    return s.links.link[link].free if s.links.link[link].den == 1 else s.links.link[link].free // s.links.link[link].den


cdef inline bint has_credits(State* s, int32_t vc, int32_t count) noexcept nogil:
    """Are there slots for `count` flits behind the VC: its own, and those left of the link's pool?"""
    cdef int32_t credit = s.vcs.output[vc].credit
    if credit >= count:
        return True
    return (credit if credit > 0 else 0) + s.links.link[s.vcs.output[vc].link].pool_left >= count


cdef inline bint is_observed(State* s) noexcept nogil:
    """Does somebody want to know which flit of which packet is launched?"""
    return s.config.tracing or s.trace.watch_serial >= 0 or s.config.attribution


cdef inline int32_t credits_needed(State* s, int32_t flits, bint head) noexcept nogil:
    """How many credits a flit takes: a head those of its whole packet where packets are what is buffered."""
    if s.config.flow == 0:
        return 1
    return flits if head else 0


cdef inline void reserve_output_vc(State* s, int32_t vc, int32_t packet) noexcept nogil:
    """Grant the output VC to a packet: its flits will come down this VC, after those of the packets before it."""
    cdef int32_t link = s.vcs.output[vc].link
    clear_bit(link_vc_mask(s.vcs.unheld, s, link), vc - s.links.link[link].base)
    if s.part.receiver != NULL and s.part.receiver[link] != s.part.number:
        post(s, s.part.receiver[link], 0, vc, packet, HEAD)
    else:
        push_packet(s, vc, packet)
    if s.config.attribution:
        record_owner(s, vc, packet)


cdef inline void free_output_vc(State* s, int32_t vc) noexcept nogil:
    """The tail has been sent. "tail": free for the next packet; "drained": only when all credits are back."""
    cdef int32_t link = s.vcs.output[vc].link
    if s.config.drained:
        s.vcs.draining[vc] = 1
    else:
        set_bit(link_vc_mask(s.vcs.unheld, s, link), vc - s.links.link[link].base)


cdef inline Event arrival_event(State* s, int32_t link, bint head, bint tail) noexcept nogil:
    """What the arrival of a flit by this link is to the calendar."""
    return <Event> (BODY - head + s.links.link[link].sink * (SINK - BODY + tail + head))


cdef inline Event arrival_event_batch(State* s, int32_t link, bint tail) noexcept nogil:
    """The same where `State.path.batch_path`: there a head is known by the state of the VC that it comes to."""
    cdef int32_t sink = s.links.link[link].sink
    return <Event> (BODY + sink * (SINK - BODY) + (sink & tail))


cdef inline int64_t launch_on_link(
    State* s, int32_t vc, int32_t link, Event kind, int32_t packet, int32_t flit, int64_t t, bint tell, bint unit
) noexcept nogil:
    """A flit starts on the link of `vc`. `packet` and `flit` are known only if somebody wants to know (`tell`). `unit_rate`:
    the link takes a flit per cycle. Returns the first cycle in which it can start another one."""
    cdef Link* wire = &s.links.link[link]
    cdef int64_t start, arrival
    cdef int64_t free = t + 1
    if unit:
        wire.free = free
        arrival = wire.delay + free
    else:
        start = t * wire.den
        start = wire.free if wire.free > start else start
        wire.free = start + wire.num
        free = wire.free if wire.den == 1 else wire.free // wire.den
        arrival = wire.delay + free + (wire.den > 1 and free * wire.den < wire.free)
    wire.flits += 1
    if tell:
        if s.config.tracing:
            log_launch(s, t, vc, packet, flit)
        if s.trace.watch_serial >= 0:
            note_event(s, packet, t, LAUNCHED, link, vc - wire.base, flit)
            note_event(s, packet, arrival, ARRIVES, link, vc - wire.base, flit)
        if s.config.attribution:
            flit_starts(s, link, packet, flit, t, arrival)
    if s.part.receiver != NULL and s.part.receiver[link] != s.part.number:
        post(s, s.part.receiver[link], arrival, vc, NONE, kind)
    else:
        schedule(s, arrival, vc, kind)
    return free


cdef inline void wake_lane(State* s, int32_t link, int64_t free) noexcept nogil:
    schedule(s, free, s.routers.count + link - s.links.network, WAKE)


cdef inline void consume_credits(State* s, int32_t vc, int32_t count) noexcept nogil:
    """Credits of the VC's own first, then slots of the pool."""
    cdef int32_t before = s.vcs.output[vc].credit
    s.vcs.output[vc].credit = before - count
    if before < count:
        s.links.link[s.vcs.output[vc].link].pool_left -= count - (before if before > 0 else 0)


cdef inline void send_flit(
    State* s, int32_t vc, int32_t link, Event kind, int32_t packet, int32_t flit, int64_t t, int64_t enter, bint tell
) noexcept nogil:
    """A flit leaves for `vc` of a link in cycle `t`: onto it, or into its output queue, where it is in cycle `enter`.

    `packet`, `flit`, `tell`: see `launch_on_link`.
    """
    cdef Link* wire = &s.links.link[link]
    cdef int64_t free
    if wire.queued and not (enter == t and wire.queue_head == NONE and link_available(s, link, t)):
        enqueue_flit(s, vc, kind, packet, flit, enter)
    else:
        free = launch_on_link(s, vc, link, kind, packet, flit, t, tell, False)
        if free <= t + 1:
            return
        if wire.src == NONE:
            wake_lane(s, link, free)
        elif s.path.bitmask_sa and not wire.queued:
            block_output(s, wire.src, wire.outlet, free, False)


cdef inline void return_credit(State* s, int32_t link, int32_t vc, int64_t when) noexcept nogil:
    """A slot behind the link became empty; the sender will know in cycle `when`, after the credit's way back."""
    if s.part.sender != NULL and s.part.sender[link] != s.part.number:
        post(s, s.part.sender[link], when, vc, NONE, CREDIT)
    else:
        schedule(s, when, vc, <Event> (LANE_CREDIT if s.links.link[link].src == NONE else CREDIT))


cdef inline void return_slot_credit(State* s, InPort* port, int32_t link, int32_t vc, int64_t t) noexcept nogil:
    """`return_credit` for a flit that leaves an input port of a router in cycle `t`."""
    if s.part.sender != NULL:
        return_credit(s, link, vc, t + port.credit_delay)
    else:
        schedule(s, t + port.credit_delay, vc, <Event> port.credit_kind)


cdef inline bint receive_credit(State* s, int32_t vc) noexcept nogil:
    """A credit arrives at the sender. Tells whether the VC could not be used before, and may be now."""
    cdef OutputVc* out = &s.vcs.output[vc]
    cdef int32_t before = out.credit
    out.credit = before + 1
    if s.config.drained and s.vcs.draining[vc] and before + 1 == s.links.link[out.link].depth:
        s.vcs.draining[vc] = 0
        set_bit(link_vc_mask(s.vcs.unheld, s, out.link), vc - s.links.link[out.link].base)
        return True
    if before < 0:
        s.links.link[out.link].pool_left += 1
        return True
    return before == 0


cdef void enqueue_flit(State* s, int32_t vc, Event kind, int32_t packet, int32_t flit, int64_t enter) noexcept nogil
cdef void launch_queued(State* s, int32_t link, int64_t t) noexcept nogil
cdef int64_t flits_in_use(State* s, int32_t link) noexcept nogil
