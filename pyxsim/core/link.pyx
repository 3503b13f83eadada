"""A link at its sending end: who may use its VCs, when a flit may start, where its credits come back.

Times on a link are kept in units of 1/den cycles, so that s = num/den cycles per flit is exact for ever.
"""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.bits cimport clear_bit, set_bit
from pyxsim.core.buffer cimport push_packet, vcs_of
from pyxsim.core.calendar cimport schedule
from pyxsim.core.state cimport (
    ARRIVES,
    CREDIT,
    FLIT,
    LAUNCH,
    LAUNCHED,
    NONE,
    Link,
    Node,
    Out,
    free_node,
    log_launch,
    new_node,
    note,
)
from pyxsim.core.wait cimport catch_up, is_held, is_queued, starts


cdef void hold_vc(State* s, int32_t vc, int32_t packet) noexcept nogil:
    """Grant the output VC to a packet: its flits will come down this VC, after those of the packets before it."""
    cdef int32_t link = s.out[vc].link
    clear_bit(vcs_of(s.unheld, s, link), vc - s.link[link].base)
    push_packet(s, vc, packet)
    if s.attribution:
        is_held(s, vc, packet)


cdef void release_vc(State* s, int32_t vc) noexcept nogil:
    """The tail has been sent. "tail": free for the next packet; "drained": only when all credits are back."""
    cdef int32_t link = s.out[vc].link
    if s.drained:
        s.closing[vc] = 1
    else:
        set_bit(vcs_of(s.unheld, s, link), vc - s.link[link].base)


cdef void launch(State* s, int32_t vc, int32_t packet, int32_t flit, int64_t t) noexcept nogil:
    """`packet` and `flit` are told (see `told`) only if somebody wants to know."""
    cdef int32_t link = s.out[vc].link
    cdef Link* wire = &s.link[link]
    cdef int64_t start = t * wire.den
    cdef int64_t arrival
    if wire.free > start:
        start = wire.free
    wire.free = start + wire.num
    arrival = wire.delay + (wire.free if wire.den == 1 else (wire.free + wire.den - 1) // wire.den)
    wire.flits += 1
    s.changed = 1
    if s.tracing:
        log_launch(s, t, vc, packet, flit)
    if s.watch_serial >= 0:
        note(s, packet, t, LAUNCHED, link, vc - wire.base, flit)
        note(s, packet, arrival, ARRIVES, link, vc - wire.base, flit)
    if s.attribution:
        starts(s, link, packet, flit, t, arrival)
    schedule(s, arrival, vc, FLIT)


cdef void take_slots(State* s, int32_t vc, int32_t count) noexcept nogil:
    """Credits of the VC's own first, then slots of the pool."""
    cdef int32_t before = s.out[vc].credit
    s.out[vc].credit = before - count
    if before < count:
        s.link[s.out[vc].link].pool_left -= count - (before if before > 0 else 0)


cdef void send_flit(
    State* s, int32_t vc, int32_t credits, int32_t packet, int32_t flit, int64_t t, int64_t enter
) noexcept nogil:
    """A flit leaves for `vc` in cycle `t`: onto the link, or into its output queue, where it is in cycle `enter`.

    It takes so many credits. `packet`, `flit`: see `launch`.
    """
    cdef int32_t link = s.out[vc].link
    cdef int32_t node
    take_slots(s, vc, credits)
    if not s.link[link].queued or (enter == t and s.link[link].queue_head == NONE and available(s, link, t)):
        launch(s, vc, packet, flit, t)
        return
    node = new_node(s)
    if s.failed:
        return
    s.nodes_pool[node].packet = packet
    s.nodes_pool[node].vc = vc
    s.nodes_pool[node].flit = flit
    s.nodes_pool[node].at = enter
    if s.attribution:
        is_queued(s, link, node)
    if s.link[link].queue_head == NONE:
        s.link[link].queue_head = node
        await_launch(s, link, enter)
    else:
        s.nodes_pool[s.link[link].queue_tail].next = node
    s.link[link].queue_tail = node


cdef void await_launch(State* s, int32_t link, int64_t enter) noexcept nogil:
    """The first flit of the output queue is there from cycle `enter` on, and starts when the link can."""
    cdef int64_t when = available_at(s, link)
    s.link[link].queued_since = enter
    schedule(s, when if when > enter else enter, link, LAUNCH)


cdef void launch_queued(State* s, int32_t link, int64_t t) noexcept nogil:
    """The first flit of the output queue starts."""
    cdef int32_t node = s.link[link].queue_head
    cdef Node entry = s.nodes_pool[node]
    if s.attribution:
        catch_up(s, link, t)
    s.link[link].queue_head = entry.next
    free_node(s, node)
    launch(s, entry.vc, entry.packet, entry.flit, t)
    s.link[link].stall_serial += t - s.link[link].queued_since
    if entry.next != NONE:
        await_launch(s, link, max(t, s.nodes_pool[entry.next].at))


cdef int64_t in_use(State* s, int32_t link) noexcept nogil:
    """Slots that are taken behind the VCs of a link, as its sender knows."""
    cdef int32_t vc
    cdef int64_t used = 0
    for vc in range(s.link[link].base, s.link[link].base + s.link[link].vcs):
        used += s.link[link].depth - s.out[vc].credit
    return used


cdef void return_credit(State* s, int32_t vc, int64_t t) noexcept nogil:
    """The slot of a flit became empty in cycle `t`; the sender will know after the credit's way back."""
    schedule(s, t + s.vc[vc].credit_delay, vc, CREDIT)


cdef void take_credit(State* s, int32_t vc) noexcept nogil:
    """A credit arrives at the sender: count it, and let the sender look again."""
    cdef Out* out = &s.out[vc]
    if out.credit < 0:
        s.link[out.link].pool_left += 1
    out.credit += 1
    if s.drained and s.closing[vc] and out.credit == s.link[out.link].depth:
        s.closing[vc] = 0
        set_bit(vcs_of(s.unheld, s, out.link), vc - s.link[out.link].base)
    if out.src == NONE:
        set_bit(s.lane_active, out.link - s.network_links)
    else:
        set_bit(s.router_active, out.src)
