"""What only counts: nothing here changes what the network does.

A cause of stalling counts once per link and cycle. A router that sleeps keeps the causes of its last cycle until it
looks again, so the cycles between are added then; `settle` adds them up to now, for whoever reads the counters.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from pyxsim.core.state cimport NONE, STALL_ARBITRATION, STALL_CREDIT, STALL_SERIAL, STALL_VC


cdef void count(State* s, int32_t link, uint8_t causes, int64_t cycles) noexcept nogil:
    if causes & STALL_VC:
        s.stall_vc[link] += cycles
    if causes & STALL_CREDIT:
        s.stall_credit[link] += cycles
    if causes & STALL_SERIAL:
        s.stall_serial[link] += cycles
    if causes & STALL_ARBITRATION:
        s.stall_arbitration[link] += cycles


cdef void count_sleep(State* s, int32_t router, int64_t last) noexcept nogil:
    """Add the cycles after the last look, up to and with cycle `last`."""
    cdef int32_t i
    if s.router_stalled[router] and last > s.looked[router]:
        for i in range(s.out_start[router], s.out_start[router + 1]):
            if s.stalled[s.out_links[i]]:
                count(s, s.out_links[i], s.stalled[s.out_links[i]], last - s.looked[router])
    s.looked[router] = last


cdef void begin_look(State* s, int32_t router, int64_t t) noexcept nogil:
    cdef int32_t i
    if s.router_stalled[router]:
        count_sleep(s, router, t - 1)
        for i in range(s.out_start[router], s.out_start[router + 1]):
            s.stalled[s.out_links[i]] = 0
        s.router_stalled[router] = 0
    s.looked[router] = t


cdef void next_tick(State* s, int32_t router) noexcept nogil:
    """Internal speed-up: what stalled so far in this cycle is kept apart, as it need not stall any more."""
    cdef int32_t i, link
    for i in range(s.out_start[router], s.out_start[router + 1]):
        link = s.out_links[i]
        s.stalled_before[link] |= s.stalled[link]
        s.stalled[link] = 0


cdef void end_look(State* s, int32_t router) noexcept nogil:
    cdef int32_t i, link
    cdef uint8_t causes
    for i in range(s.out_start[router], s.out_start[router + 1]):
        link = s.out_links[i]
        causes = s.stalled[link]
        if s.ticks > 1:
            causes |= s.stalled_before[link]
            s.stalled_before[link] = 0
        if causes:
            count(s, link, causes, 1)
        if s.stalled[link]:
            s.router_stalled[router] = 1


cdef void settle(State* s) noexcept nogil:
    """Bring every counter up to the end of cycle `now - 1`."""
    cdef int32_t i
    for i in range(s.routers):
        if s.router_stalled[i]:
            count_sleep(s, i, s.now - 1)
    for i in range(s.links):
        if s.queue_head[i] != NONE and s.queued_since[i] < s.now:
            s.stall_serial[i] += s.now - s.queued_since[i]
            s.queued_since[i] = s.now
