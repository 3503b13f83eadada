"""Stall counters. Nothing here changes what the network does.

A cause counts once per link and cycle. A sleeping router keeps the causes of its last cycle; the cycles in between are
added at its next visit, or by `settle_counters` for a reader.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.state.bits cimport lowest, next_bit, set_bit
from pyxsim.core.state.records cimport NONE, STALL_ARBITRATION, STALL_CREDIT, STALL_SERIAL, STALL_VC, Link, Router


cdef void add_stall_cycles(State* s, int32_t link, uint8_t causes, int64_t cycles) noexcept nogil:
    if causes & STALL_VC:
        s.links.link[link].stall_vc += cycles
    if causes & STALL_CREDIT:
        s.links.link[link].stall_credit += cycles
    if causes & STALL_SERIAL:
        s.links.link[link].stall_serial += cycles
    if causes & STALL_ARBITRATION:
        s.links.link[link].stall_arbitration += cycles


cdef void add_sleep_cycles(State* s, int32_t router, int64_t last) noexcept nogil:
    """Add the cycles after the last visit, up to and including cycle `last`."""
    cdef Router* r = &s.routers.router[router]
    cdef uint64_t* ports = &s.stats.stalled_ports[r.port_word]
    cdef int64_t cycles = last - r.looked
    cdef int32_t port = next_bit(ports, 0, r.out_end - r.out_start)
    if cycles > 0:
        while port >= 0:
            add_stall_cycles(s, s.ports.out_links[r.out_start + port],
                             s.links.link[s.ports.out_links[r.out_start + port]].stalled, cycles)
            port = next_bit(ports, port + 1, r.out_end - r.out_start)
    r.looked = last


cdef void begin_visit(State* s, int32_t router, int64_t t) noexcept nogil:
    cdef Router* r = &s.routers.router[router]
    cdef uint64_t* ports = &s.stats.stalled_ports[r.port_word]
    cdef int32_t word
    cdef uint64_t bits
    if is_stalled(s, r):
        add_sleep_cycles(s, router, t - 1)
        for word in range(r.port_words):
            bits = ports[word]
            ports[word] = 0
            while bits:
                s.links.link[s.ports.out_links[r.out_start + word * 64 + lowest(bits)]].stalled = 0
                bits &= bits - 1
    r.looked = t


cdef void next_tick(State* s, int32_t router) noexcept nogil:
    """Internal speed-up: set the causes of earlier ticks apart, as they may not persist."""
    cdef int32_t i
    cdef Link* link
    for i in range(s.routers.router[router].out_start, s.routers.router[router].out_end):
        link = &s.links.link[s.ports.out_links[i]]
        link.stalled_before |= link.stalled
        link.stalled = 0


cdef void end_visit(State* s, int32_t router) noexcept nogil:
    cdef Router* r = &s.routers.router[router]
    cdef int32_t word, out
    cdef uint64_t bits
    for word in range(r.port_words):
        bits = s.stats.stalled_ports[r.port_word + word]
        while bits:
            out = s.ports.out_links[r.out_start + word * 64 + lowest(bits)]
            bits &= bits - 1
            add_stall_cycles(s, out, s.links.link[out].stalled | s.links.link[out].stalled_before, 1)
            s.links.link[out].stalled_before = 0


cdef void fall_asleep(State* s, int32_t router, int32_t port, uint8_t causes, int64_t t) noexcept nogil:
    """A router falls asleep: keep the causes of this cycle at one of its outputs."""
    cdef Router* r = &s.routers.router[router]
    s.links.link[s.ports.out_links[r.out_start + port]].stalled = causes
    set_bit(&s.stats.stalled_ports[r.port_word], port)
    r.looked = t


cdef void flush_port_stalls(State* s) noexcept nogil:
    """Flush the 16-bit counts of the ports before they overflow."""
    cdef int32_t place
    cdef uint64_t counts
    cdef Link* link
    for place in range(s.ports.outputs):
        counts = s.stats.port_stalls[place]
        if counts:
            link = &s.links.link[s.ports.out_links[place]]
            link.stall_vc += counts & COUNT_MOST
            link.stall_credit += counts >> CREDIT_BITS & COUNT_MOST
            link.stall_serial += counts >> SERIAL_BITS & COUNT_MOST
            link.stall_arbitration += counts >> ARBITRATION_BITS
            s.stats.port_stalls[place] = 0
    s.stats.flush_due = s.now + COUNT_MOST


cdef void count_sleeping_stalls(State* s) noexcept nogil:
    """Bring the counts of sleeping routers and output queues up to the end of cycle `now - 1`."""
    cdef int32_t i
    for i in range(s.routers.count):
        if is_stalled(s, &s.routers.router[i]):
            add_sleep_cycles(s, i, s.now - 1)
    for i in range(s.links.count if s.links.any_queued else 0):
        if s.links.link[i].queued and s.links.link[i].queue_head != NONE and s.links.link[i].queued_since < s.now:
            s.links.link[i].stall_serial += s.now - s.links.link[i].queued_since
            s.links.link[i].queued_since = s.now


cdef void settle_counters(State* s) noexcept nogil:
    """Bring every counter up to the end of cycle `now - 1`."""
    flush_port_stalls(s)
    count_sleeping_stalls(s)
