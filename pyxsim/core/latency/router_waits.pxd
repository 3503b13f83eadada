"""What flits wait for in routers and output queues: see router_waits.pyx. Call these only if `State.attribution`."""

from libc.stdint cimport int8_t, int32_t, int64_t

from pyxsim.core.latency.latency_records cimport RUNS, Rival, VcBook
from pyxsim.core.state.network_state cimport State


cdef inline int8_t traffic_of(State* s, int32_t packet) noexcept nogil:
    return <int8_t> s.books.packets[packet].by


cdef inline int8_t holder_of(State* s, int32_t link, int32_t low, int32_t high) noexcept nogil:
    """Whose packet holds the first VC of a range, or held it last."""
    return <int8_t> s.books.owner[s.link[link].base + low].by if low < high else <int8_t> -1


cdef inline void is_held(State* s, int32_t vc, int32_t packet) noexcept nogil:
    """An output VC goes to a packet."""
    s.books.owner[vc].serial = s.books.packets[packet].serial
    s.books.owner[vc].by = traffic_of(s, packet)


cdef inline void asks(State* s, int32_t vc) noexcept nogil:
    """A head asks for an output VC, or a flit for the switch."""
    cdef Rival* rival = &s.books.rivals[s.books.rival_count]
    s.books.rival_count += 1
    rival.vc, rival.packet, rival.link = vc, s.vc[vc].packet, s.vc[vc].want


cdef inline void comes(State* s, int32_t vc, int64_t t) noexcept nogil:
    """A flit is about to enter an input VC. Flits have no names, but they come in order: how many are still to come?"""
    cdef VcBook* b = &s.books.vc[vc]
    if b.coming == 0:
        head_comes(s, vc, t)
    if s.vc[vc].occupancy == 0:
        finds_it_empty(s, vc, t)
    b.coming -= 1
    if b.coming == 0:
        tail_comes(s, vc, t)


cdef inline void wins(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil:
    """The front flit is about to leave for the link that it wants."""
    cdef Rival* winner = &s.books.winners[s.books.winner_count]
    s.books.winner_count += 1
    winner.vc, winner.packet, winner.link = vc, s.vc[vc].packet, s.vc[vc].want
    s.books.link[winner.link].won = s.books.winner_count - 1
    if s.books.vc[vc].doing != RUNS:
        runs(s, vc, t)
    if s.vc[vc].left == 1:
        tail_leaves(s, vc, t, u)


cdef inline void starts(
    State* s, int32_t link, int32_t packet, int32_t flit, int64_t t, int64_t arrival
) noexcept nogil:
    """A flit starts on a link."""
    if flit == 0 or s.books.link[link].packet != packet or s.link[link].queued:
        takes_link(s, link, packet, t)
    if flit == s.packets[packet].flits - 1:
        ends_stay(s, link, packet, t, arrival)
    if s.books.link[link].riders != -1:
        leaves_queue(s, link, packet)


# Arrivals.
cdef void head_comes(State* s, int32_t vc, int64_t t) noexcept nogil
cdef void finds_it_empty(State* s, int32_t vc, int64_t t) noexcept nogil
cdef void tail_comes(State* s, int32_t vc, int64_t t) noexcept nogil
# VC allocation.
cdef void lacks_vc(State* s, int32_t vc) noexcept nogil
cdef void runs(State* s, int32_t vc, int64_t t) noexcept nogil
cdef void lose_ranges(State* s) noexcept nogil
cdef void lose_matrix(State* s, int32_t asked) noexcept nogil
# The switch.
cdef void is_hindered(State* s, int32_t vc, int32_t cause) noexcept nogil
cdef void is_behind(State* s, int32_t vc, int32_t other) noexcept nogil
cdef void tail_leaves(State* s, int32_t vc, int64_t t, int64_t u) noexcept nogil
cdef void is_first(State* s, int32_t vc, int64_t t) noexcept nogil
cdef void lose_switch(State* s) noexcept nogil
# Links.
cdef void is_queued(State* s, int32_t link, int32_t node) noexcept nogil
cdef void catch_up(State* s, int32_t link, int64_t t) noexcept nogil
cdef void takes_link(State* s, int32_t link, int32_t packet, int64_t t) noexcept nogil
cdef void leaves_queue(State* s, int32_t link, int32_t packet) noexcept nogil
cdef void ends_stay(State* s, int32_t link, int32_t packet, int64_t t, int64_t arrival) noexcept nogil
cdef int8_t blamed(State* s, int32_t vc, int64_t begun, int64_t over) noexcept nogil
