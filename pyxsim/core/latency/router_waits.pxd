"""Attribution in routers and output queues: see router_waits.pyx. Call these only if `State.config.attribution`."""

from libc.stdint cimport int8_t, int32_t, int64_t

from pyxsim.core.latency.latency_records cimport MOVING, Contender, VcWait
from pyxsim.core.latency.link_faults cimport note_sound_time
from pyxsim.core.state.network_state cimport State, cycle_of


cdef inline int8_t traffic_class_of(State* s, int32_t packet) noexcept nogil:
    return <int8_t> s.latency.packets[packet].by


cdef inline int8_t range_holder(State* s, int32_t link, int32_t low, int32_t high) noexcept nogil:
    """The traffic that holds the first VC of a range, or held it last."""
    return <int8_t> s.latency.owner[s.links.link[link].base + low].by if low < high else <int8_t> -1


cdef inline void record_owner(State* s, int32_t vc, int32_t packet) noexcept nogil:
    """An output VC goes to a packet."""
    s.latency.owner[vc].serial = s.latency.packets[packet].serial
    s.latency.owner[vc].by = traffic_class_of(s, packet)


cdef inline void record_contender(State* s, int32_t vc) noexcept nogil:
    """A head requests an output VC, or a flit the switch."""
    cdef Contender* rival = &s.latency.rivals[s.latency.rival_count]
    s.latency.rival_count += 1
    rival.vc, rival.packet, rival.link = vc, s.vcs.input[vc].packet, s.vcs.input[vc].out_link


cdef inline void flit_arrives(State* s, int32_t vc, int64_t t) noexcept nogil:
    """A flit is about to enter an input VC. Flits arrive in order: count those still to come."""
    cdef VcWait* b = &s.latency.vc[vc]
    if b.coming == 0:
        head_arrives(s, vc, t)
    if s.vcs.input[vc].occupancy == 0:
        flit_enters_empty_vc(s, vc, t)
    b.coming -= 1
    if b.coming == 0:
        tail_arrives(s, vc, t)


cdef inline void flit_wins_switch(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """The front flit is about to leave for its output link."""
    cdef Contender* winner = &s.latency.winners[s.latency.winner_count]
    s.latency.winner_count += 1
    winner.vc, winner.packet, winner.link = vc, s.vcs.input[vc].packet, s.vcs.input[vc].out_link
    s.latency.link[winner.link].won = s.latency.winner_count - 1
    if s.latency.vc[vc].doing != MOVING or s.latency.faulty:
        set_moving(s, vc, t)
    if s.vcs.input[vc].left == 1:
        tail_wins_switch(s, vc, t, u)


cdef inline void flit_starts(
    State* s, int32_t link, int32_t packet, int32_t flit, int64_t t, int64_t arrival
) noexcept nogil:
    """A flit starts on a link."""
    if flit == 0 or s.latency.link[link].packet != packet or s.links.link[link].queued:
        packet_takes_link(s, link, packet, t)
    if s.latency.faulty:
        note_sound_time(s, link)
    if flit == s.pools.packets[packet].flits - 1:
        tail_starts(s, link, packet, t, arrival)
    if s.latency.link[link].riders != -1:
        flit_leaves_queue(s, link, packet)


# Arrivals.
cdef void head_arrives(State* s, int32_t vc, int64_t t) noexcept nogil
cdef void flit_enters_empty_vc(State* s, int32_t vc, int64_t t) noexcept nogil
cdef void tail_arrives(State* s, int32_t vc, int64_t t) noexcept nogil
# VC allocation.
cdef void waits_for_vc(State* s, int32_t vc) noexcept nogil
cdef void set_moving(State* s, int32_t vc, int64_t t) noexcept nogil
cdef void record_va_losers(State* s) noexcept nogil
cdef void record_va_losers_matrix(State* s, int32_t asked) noexcept nogil
# The switch.
cdef void record_stall(State* s, int32_t vc, int32_t cause) noexcept nogil
cdef void waits_behind(State* s, int32_t vc, int32_t other) noexcept nogil
cdef void tail_wins_switch(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil
cdef void packet_at_front(State* s, int32_t vc, int64_t t) noexcept nogil
cdef void record_sa_losers(State* s) noexcept nogil
# Links.
cdef void flit_queued(State* s, int32_t link, int32_t node) noexcept nogil
cdef void note_queue_arrivals(State* s, int32_t link, int64_t t) noexcept nogil
cdef void packet_takes_link(State* s, int32_t link, int32_t packet, int64_t t) noexcept nogil
cdef void flit_leaves_queue(State* s, int32_t link, int32_t packet) noexcept nogil
cdef void tail_starts(State* s, int32_t link, int32_t packet, int64_t t, int64_t arrival) noexcept nogil
cdef int8_t credit_culprit(State* s, int32_t vc, int64_t begun, int64_t over) noexcept nogil
cdef void apply_fault(State* s, int32_t vc, int64_t t) noexcept nogil
