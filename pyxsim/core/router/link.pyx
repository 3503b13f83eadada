"""Output queues, and what is in use behind a link."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state.network_state cimport LAUNCH, Node, Queued, free_node, new_node
from pyxsim.core.latency.router_waits cimport catch_up, is_queued


cdef void enqueue(State* s, int32_t vc, Event kind, int32_t packet, int32_t flit, int64_t enter) noexcept nogil:
    """A flit stands in the output queue from cycle `enter` on."""
    cdef int32_t link = s.out[vc].link
    cdef int32_t node = new_node(s)
    if s.failed:
        return
    s.nodes_pool[node].packet = packet
    s.queued_pool[node].vc = vc
    s.queued_pool[node].flit = flit
    s.queued_pool[node].at = enter
    s.queued_pool[node].kind = kind
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
    schedule(s, when if when > enter else enter, s.link[link].outlet, LAUNCH)


cdef void launch_queued(State* s, int32_t link, int64_t t) noexcept nogil:
    """The first flit of the output queue starts."""
    cdef int32_t node = s.link[link].queue_head
    cdef Node entry = s.nodes_pool[node]
    cdef Queued flit = s.queued_pool[node]
    if s.attribution:
        catch_up(s, link, t)
    s.link[link].queue_head = entry.next
    free_node(s, node)
    launch(s, flit.vc, link, <Event> flit.kind, entry.packet, flit.flit, t, True, False)
    s.link[link].stall_serial += t - s.link[link].queued_since
    if entry.next != NONE:
        await_launch(s, link, max(t, s.queued_pool[entry.next].at))


cdef int64_t in_use(State* s, int32_t link) noexcept nogil:
    """Slots that are taken behind the VCs of a link, as its sender knows."""
    cdef int32_t vc
    cdef int64_t used = 0
    for vc in range(s.link[link].base, s.link[link].base + s.link[link].vcs):
        used += s.link[link].depth - s.out[vc].credit
    return used
