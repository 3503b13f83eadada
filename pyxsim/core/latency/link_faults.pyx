"""Attribution on links that change, err or retry: what flits wait there beyond what they would without.

docs/attribution.md, "Faults and retry". Each link has a second clock, `LinkWait.sound_free`: when it would be available
again after the flit that started last. Flits that are sent again do not advance it.
"""

from pyxsim.core.latency.latency_records cimport FAULT, HOPS, Stay
from pyxsim.core.latency.router_waits cimport note_queue_arrivals
from pyxsim.core.latency.source_waits cimport message_interrupts_lane
from pyxsim.core.router.link cimport link_available
from pyxsim.core.state.bits cimport set_bit
from pyxsim.core.state.records cimport NONE


cdef void begin_faults(State* s) noexcept nogil:
    """A link changes: until the first one does, no fault delays a flit."""
    cdef int32_t link
    if not s.latency.faulty:
        for link in range(s.links.count):
            s.latency.link[link].sound_free = s.links.link[link].free
        s.latency.faulty = True


cdef bint is_fault(State* s, int32_t link, int64_t t) noexcept nogil:
    """A flit waits for the link: would this be available without faults and retry?

    A full output queue is no fault while the link is available.
    """
    if s.links.link[link].queued and link_available(s, link, t):
        return False
    return sound_at(s, link) <= t


cdef void tail_is_sent(State* s, int32_t link, int32_t packet, int64_t t, int64_t arrival) noexcept nogil:
    """The tail of a packet starts for the first time; with retry its arrival is not yet known."""
    cdef PacketWait* p = &s.latency.packets[packet]
    cdef int64_t den = s.links.link[link].den
    p.started = t
    p.sound_arrival = (s.latency.link[link].sound_free + den - 1) // den + s.latency.link[link].delay
    if not (s.config.retry and s.links.replay[link].slots):
        tail_is_accepted(s, packet, arrival)


cdef void tail_is_accepted(State* s, int32_t packet, int64_t arrival) noexcept nogil:
    """The tail of a packet arrives, perhaps after having been sent several times."""
    cdef PacketWait* p = &s.latency.packets[packet]
    cdef Stay* stay = &s.latency.stays[p.last]
    cdef int64_t sound = min(p.sound_arrival, arrival)
    stay.parts[HOPS] += sound - p.started
    stay.parts[FAULT] += arrival - sound
    p.sound_arrival = NONE


cdef void message_takes_link(State* s, int32_t link, int64_t t) noexcept nogil:
    """A message with credits has started in step 5 of cycle `t`: the link is busy with it as with a flit."""
    cdef LinkWait* book = &s.latency.link[link]
    if s.latency.faulty:
        note_queue_arrivals(s, link, t)
        book.fault = fault_cycles(s, link, t + 1)
        book.sound_free = max(s.links.link[link].free, (t + 1) * s.links.link[link].den)
    if s.links.link[link].src == NONE:
        message_interrupts_lane(s, link, t)
    elif s.latency.faulty:
        set_bit(s.routers.active, s.links.link[link].src)   # what waits for the link is recorded anew
