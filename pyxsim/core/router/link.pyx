"""Output queues, and flits in use on a link."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t

from pyxsim.core.latency.router_waits cimport flit_queued, note_queue_arrivals
from pyxsim.core.router.retry cimport after_launch
from pyxsim.core.state.network_state cimport free_node, new_node
from pyxsim.core.state.bits cimport has_bit, seldom
from pyxsim.core.state.records cimport LAUNCH, NONE, FifoNode, QueuedFlit


cdef enum:
    EQUAL_SHARE = -1   # as in pyxsim/core/engine_options.py
    IN_USE_IF_DOWN = 1 << 30


cdef void enqueue_flit(
    State* s, int32_t vc, Event kind, int32_t packet, int32_t flit, int64_t enter, int64_t tick
) noexcept nogil:
    """A flit enters the output queue in cycle `enter`."""
    cdef int32_t link = s.vcs.output[vc].link
    cdef int32_t node = new_node(s)
    if s.failed:
        return
    s.pools.nodes[node].packet = packet
    s.pools.queued[node].vc = vc
    s.pools.queued[node].flit = flit
    s.pools.queued[node].at = enter
    s.pools.queued[node].tick = tick
    s.pools.queued[node].kind = kind
    if s.config.attribution:
        flit_queued(s, link, node)
    if s.links.link[link].queue_head == NONE:
        s.links.link[link].queue_head = node
        schedule_queue_launch(s, link, enter)
    else:
        s.pools.nodes[s.links.link[link].queue_tail].next = node
    s.links.link[link].queue_tail = node


cdef void schedule_queue_launch(State* s, int32_t link, int64_t enter) noexcept nogil:
    """The first flit of the output queue, there from cycle `enter` on, starts when the link is available."""
    cdef int64_t when
    s.links.link[link].queued_since = enter
    if seldom(s.links.link[link].free == INT64_MAX):   # it is down: `change_link` schedules the launch
        return
    when = link_available_at(s, link)
    schedule(s, when if when > enter else enter, s.links.link[link].outlet, LAUNCH)


cdef void launch_queued(State* s, int32_t link, int64_t t) noexcept nogil:
    """Start the first flit of the output queue."""
    cdef int32_t node = s.links.link[link].queue_head
    cdef FifoNode entry = s.pools.nodes[node]
    cdef QueuedFlit flit = s.pools.queued[node]
    if seldom(s.config.credits) and not link_available(s, link, t):   # a credit message has taken the link
        schedule(s, link_available_at(s, link), s.links.link[link].outlet, LAUNCH)
        return
    if s.config.attribution:
        note_queue_arrivals(s, link, t)
    if s.config.queue_limit:
        s.links.left_tick[link], s.links.left_cycle[link] = flit.tick, t
    s.links.link[link].queue_head = entry.next
    free_node(s, node)
    s.stats.changed = 1
    launch_on_link(s, flit.vc, link, <Event> flit.kind, entry.packet, flit.flit, t, True, False)
    if seldom(s.config.launch_noted):
        after_launch(s, link, entry.packet, t)
    s.links.link[link].stall_serial += t - s.links.link[link].queued_since
    if entry.next != NONE:
        schedule_queue_launch(s, link, max(t, s.pools.queued[entry.next].at))


cdef bint queue_has_capacity(State* s, int32_t link, int64_t t, int64_t u) noexcept nogil:
    """Are fewer flits than the limit in the output queue before tick `u`? One that leaves in cycle `t` still counts."""
    cdef int32_t node = s.links.link[link].queue_head
    cdef int32_t count = s.links.left_cycle[link] == t and s.links.left_tick[link] < u
    while node != NONE and count < s.config.queue_limit and s.pools.queued[node].tick < u:
        count += 1
        node = s.pools.nodes[node].next
    return count < s.config.queue_limit


cdef bint steady_queues(State* s) noexcept nogil:
    """Has every first flit of an output queue entered it? Its stall is counted from then on."""
    cdef int32_t i
    for i in range(s.links.count if s.links.any_queued else 0):
        if s.links.link[i].queued and s.links.link[i].queue_head != NONE and s.links.link[i].queued_since > s.now:
            return False
    return True


cdef void share_slots(State* s, int32_t link) noexcept nogil:
    """Divide all slots of a link among the VCs that packets hold, those whose tail has been sent excepted."""
    cdef Link* wire = &s.links.link[link]
    cdef int32_t active = 0
    cdef int32_t number, halvings
    cdef int32_t slots = wire.vcs * wire.depth + s.links.pool[link]
    for number in range(wire.vcs):
        active += not has_bit(link_vc_mask(s.vcs.unheld, s, link), number) and not s.vcs.draining[wire.base + number]
    if s.config.shared_limit == EQUAL_SHARE:
        s.links.limit[link] = slots // active if active else slots
        return
    halvings = 0
    while active > 1 << halvings:
        halvings += 1
    s.links.limit[link] = max(1, slots >> halvings)


cdef bint link_is_down(State* s, int32_t link) noexcept nogil:
    return s.links.link[link].free == INT64_MAX


cdef int64_t flits_in_use(State* s, int32_t link) noexcept nogil:
    """Occupied slots behind a link, as its sender knows them; of a link that is down more than any has."""
    cdef int32_t vc
    cdef int64_t used = 0
    if link_is_down(s, link):
        return IN_USE_IF_DOWN
    for vc in range(s.links.link[link].base, s.links.link[link].base + s.links.link[link].vcs):
        used += s.links.link[link].depth - s.vcs.output[vc].credit
    return used
