"""A link at its sending end: who may use its VCs, when a flit may start, where its credits come back.

Times on a link are kept in units of 1/den cycles, so that s = num/den cycles per flit is exact for ever.
"""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.bits cimport clear_bit, set_bit
from pyxsim.core.buffer cimport push_packet, vcs_of
from pyxsim.core.calendar cimport schedule
from pyxsim.core.state cimport CREDIT, FLIT, LAUNCH, NONE, Node, free_node, log_launch, new_node


cdef void hold_vc(State* s, int32_t vc, int32_t packet) noexcept nogil:
    """Grant the output VC to a packet: its flits will come down this VC, after those of the packets before it."""
    cdef int32_t link = s.vc_link[vc]
    clear_bit(vcs_of(s.unheld, s, link), vc - s.link_base[link])
    push_packet(s, vc, packet)


cdef void release_vc(State* s, int32_t vc) noexcept nogil:
    """The tail has been sent. "tail": free for the next packet; "drained": only when all credits are back."""
    cdef int32_t link = s.vc_link[vc]
    if s.drained:
        s.closing[vc] = 1
    else:
        set_bit(vcs_of(s.unheld, s, link), vc - s.link_base[link])


cdef void launch(State* s, int32_t vc, int32_t packet, int32_t flit, int64_t t) noexcept nogil:
    cdef int32_t link = s.vc_link[vc]
    cdef int64_t den = s.link_den[link]
    cdef int64_t start = t * den
    if s.link_free[link] > start:
        start = s.link_free[link]
    s.link_free[link] = start + s.link_num[link]
    s.flits[link] += 1
    s.changed = 1
    if s.tracing:
        log_launch(s, t, vc, packet, flit)
    schedule(s, (s.link_free[link] + den - 1) // den + s.link_delay[link], vc, FLIT)


cdef void send_flit(State* s, int32_t vc, int32_t packet, int32_t flit, int64_t t) noexcept nogil:
    """A flit leaves for `vc` in cycle `t`: onto the link, or into its output queue."""
    cdef int32_t link = s.vc_link[vc]
    cdef int32_t node
    s.credit[vc] -= 1
    if not s.link_queued[link] or (s.queue_head[link] == NONE and available(s, link, t)):
        launch(s, vc, packet, flit, t)
        return
    node = new_node(s)
    if s.failed:
        return
    s.nodes_pool[node].packet = packet
    s.nodes_pool[node].vc = vc
    s.nodes_pool[node].flit = flit
    if s.queue_head[link] == NONE:
        s.queue_head[link] = node
        s.queued_since[link] = t
        schedule(s, available_at(s, link), link, LAUNCH)
    else:
        s.nodes_pool[s.queue_tail[link]].next = node
    s.queue_tail[link] = node


cdef void launch_queued(State* s, int32_t link, int64_t t) noexcept nogil:
    """The first flit of the output queue starts."""
    cdef int32_t node = s.queue_head[link]
    cdef Node entry = s.nodes_pool[node]
    s.queue_head[link] = entry.next
    free_node(s, node)
    launch(s, entry.vc, entry.packet, entry.flit, t)
    if entry.next == NONE:
        s.stall_serial[link] += t - s.queued_since[link]
    else:
        schedule(s, available_at(s, link), link, LAUNCH)


cdef void return_credit(State* s, int32_t vc, int64_t t) noexcept nogil:
    """The slot of a flit became empty in cycle `t`; the sender will know after the credit's way back."""
    schedule(s, t + s.link_credit_delay[s.vc_link[vc]], vc, CREDIT)


cdef void take_credit(State* s, int32_t vc) noexcept nogil:
    """A credit arrives at the sender: count it, and let the sender look again."""
    cdef int32_t link = s.vc_link[vc]
    cdef int32_t router = s.link_src[link]
    s.credit[vc] += 1
    if s.closing[vc] and s.credit[vc] == s.link_depth[link]:
        s.closing[vc] = 0
        set_bit(vcs_of(s.unheld, s, link), vc - s.link_base[link])
    if router == NONE:
        set_bit(s.lane_active, link - s.network_links)
    else:
        set_bit(s.router_active, router)
