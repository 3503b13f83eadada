"""A link at its sending end: who may use its VCs, when a flit may start, where its credits return to.

Times are in units of 1/den cycles, so that s = num/den cycles per flit stays exact. Here is what every flit does;
link.pyx has output queues and the rare operations.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from pyxsim.core.fast_path.vc_masks cimport block_output
from pyxsim.core.latency.router_waits cimport flit_starts, record_owner
from pyxsim.core.parallel.mailbox cimport post
from pyxsim.core.router.buffer cimport link_vc_mask, push_packet
from pyxsim.core.router.calendar cimport schedule
from pyxsim.core.router.retry cimport after_launch, send_with_retry
from pyxsim.core.state.bits cimport clear_bit, seldom, set_bit
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


cdef inline bint link_available(State* s, int32_t link, int64_t t) noexcept nogil:
    """Can the link start a flit in cycle `t`?"""
    return s.links.link[link].free < (t + 1) * s.links.link[link].den


cdef inline int64_t link_available_at(State* s, int32_t link) noexcept nogil:
    """The first cycle in which it can."""
    return s.links.link[link].free if s.links.link[link].den == 1 else s.links.link[link].free // s.links.link[link].den


cdef inline bint exceeds_limit(State* s, int32_t vc, int32_t count) noexcept nogil:
    """Would the VC use more slots than the limit of its link, with `count` more?"""
    cdef int32_t link = s.vcs.output[vc].link
    return s.links.link[link].depth - s.vcs.output[vc].credit + count > s.links.limit[link]


cdef inline bint has_credits(State* s, int32_t vc, int32_t count) noexcept nogil:
    """Does the VC have slots for `count` flits: its own, and those left in the pool of its link?"""
    cdef int32_t credit = s.vcs.output[vc].credit
    if s.config.shared_limit and exceeds_limit(s, vc, count):
        return False
    if credit >= count:
        return True
    return (credit if credit > 0 else 0) + s.links.link[s.vcs.output[vc].link].pool_left >= count


cdef inline bint is_observed(State* s) noexcept nogil:
    """Is any flit traced, watched or attributed? Then flits need their packet and number."""
    return s.config.tracing or s.trace.watch_serial >= 0 or s.config.attribution


cdef inline int32_t credits_needed(State* s, int32_t flits, bint head) noexcept nogil:
    """Credits that a flit takes: a head those of its whole packet in cut-through and store-and-forward."""
    if s.config.flow == 0:
        return 1
    return flits if head else 0


cdef inline void reserve_output_vc(State* s, int32_t vc, int32_t packet) noexcept nogil:
    """Grant the output VC to a packet: its flits follow those of the packets before it."""
    cdef int32_t link = s.vcs.output[vc].link
    clear_bit(link_vc_mask(s.vcs.unheld, s, link), vc - s.links.link[link].base)
    if s.part.receiver != NULL and s.part.receiver[link] != s.part.number:
        post(s, s.part.receiver[link], 0, vc, packet, HEAD)
    else:
        push_packet(s, vc, packet)
    if s.config.attribution:
        record_owner(s, vc, packet)


cdef inline void free_output_vc(State* s, int32_t vc) noexcept nogil:
    """The tail has been sent. VC reuse "tail": free at once; "drained": when all credits are back."""
    cdef int32_t link = s.vcs.output[vc].link
    if s.config.drained:
        s.vcs.draining[vc] = 1
    else:
        set_bit(link_vc_mask(s.vcs.unheld, s, link), vc - s.links.link[link].base)


cdef inline Event arrival_event(State* s, int32_t link, bint head, bint tail) noexcept nogil:
    """The calendar event of a flit that arrives over this link."""
    return <Event> (BODY - head + s.links.link[link].sink * (SINK - BODY + tail + head))


cdef inline Event arrival_event_batch(State* s, int32_t link, bint tail) noexcept nogil:
    """The same in the batch path, where the state of the receiving VC identifies heads."""
    cdef int32_t sink = s.links.link[link].sink
    return <Event> (BODY + sink * (SINK - BODY) + (sink & tail))


cdef inline int64_t launch_on_link(
    State* s, int32_t vc, int32_t link, Event kind, int32_t packet, int32_t flit, int64_t t, bint traced, bint unit_rate
) noexcept nogil:
    """Start a flit on the link of `vc`. Return the first cycle in which the link can start another one.

    `packet` and `flit` are valid if `traced`. `unit_rate`: the link takes one flit per cycle.
    """
    cdef Link* wire = &s.links.link[link]
    cdef int64_t start, arrival
    cdef int64_t free = t + 1
    if unit_rate:
        wire.free = free
        arrival = wire.delay + free
    else:
        start = t * wire.den
        start = wire.free if wire.free > start else start
        wire.free = start + wire.num
        free = wire.free if wire.den == 1 else wire.free // wire.den
        arrival = wire.delay + free + (wire.den > 1 and free * wire.den < wire.free)
    wire.flits += 1
    if traced:
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
    """Take the VC's own credits first, then slots of the pool."""
    cdef int32_t before = s.vcs.output[vc].credit
    s.vcs.output[vc].credit = before - count
    if seldom(s.config.credits) and 0 < before <= count:
        s.links.vc_credits[vc].empty_since = s.now
    if before < count:
        s.links.link[s.vcs.output[vc].link].pool_left -= count - (before if before > 0 else 0)


cdef inline void send_flit(
    State* s, int32_t vc, int32_t link, Event kind, int32_t packet, int32_t flit, int64_t t, int64_t enter,
    int64_t tick,
    bint traced
) noexcept nogil:
    """Send a flit to `vc` in cycle `t`: onto the link, or into its output queue, which it enters in cycle `enter`, from
    tick `tick` on.

    `packet`, `flit`, `traced`: see `launch_on_link`.
    """
    cdef Link* wire = &s.links.link[link]
    cdef int64_t free
    if seldom(s.config.retry) and s.links.replay[link].slots:
        send_with_retry(s, vc, kind, packet, flit, t)
        return
    if wire.queued and not (enter == t and wire.queue_head == NONE and link_available(s, link, t)):
        enqueue_flit(s, vc, kind, packet, flit, enter, tick)
    else:
        if wire.queued and s.config.queue_limit:
            s.links.left_tick[link], s.links.left_cycle[link] = tick, t
        free = launch_on_link(s, vc, link, kind, packet, flit, t, traced, False)
        if seldom(s.config.launch_noted):
            after_launch(s, link, packet, t)
        if free <= t + 1:
            return
        if wire.src == NONE:
            wake_lane(s, link, free)
        elif s.path.bitmask_sa and not wire.queued:
            block_output(s, wire.src, wire.outlet, free, False)


cdef inline void return_credit(State* s, int32_t link, int32_t vc, int64_t when) noexcept nogil:
    """A slot behind the link is empty; its credit reaches the sender in cycle `when`."""
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
    """Add a credit at the sender. Return whether the VC was unusable before and may be usable now."""
    cdef OutputVc* out = &s.vcs.output[vc]
    cdef int32_t before = out.credit
    out.credit = before + 1
    if seldom(s.config.credits) and before == 0:
        s.links.vc_credits[vc].empty += s.now - s.links.vc_credits[vc].empty_since
        s.links.vc_credits[vc].empty_since = INT64_MAX
    if s.config.drained and s.vcs.draining[vc] and before + 1 == s.links.link[out.link].depth:
        s.vcs.draining[vc] = 0
        set_bit(link_vc_mask(s.vcs.unheld, s, out.link), vc - s.links.link[out.link].base)
        return True
    if before < 0:
        s.links.link[out.link].pool_left += 1
        return True
    return before == 0


cdef void enqueue_flit(
    State* s, int32_t vc, Event kind, int32_t packet, int32_t flit, int64_t enter, int64_t tick
) noexcept nogil
cdef bint queue_has_capacity(State* s, int32_t link, int64_t t, int64_t u) noexcept nogil
cdef void launch_queued(State* s, int32_t link, int64_t t) noexcept nogil
cdef bint steady_queues(State* s) noexcept nogil
cdef void share_slots(State* s, int32_t link) noexcept nogil
cdef bint link_is_down(State* s, int32_t link) noexcept nogil
cdef int64_t flits_in_use(State* s, int32_t link) noexcept nogil
