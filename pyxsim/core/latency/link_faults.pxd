"""Attribution on links with faults or retry: see link_faults.pyx. Call these only if `State.config.attribution`."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.latency.latency_records cimport LinkWait, PacketWait
from pyxsim.core.state.network_state cimport State


cdef inline int64_t sound_at(State* s, int32_t link) noexcept nogil:
    """The first cycle in which the link would be available without faults and retry."""
    return s.latency.link[link].sound_free // s.links.link[link].den


cdef inline int64_t fault_cycles(State* s, int32_t link, int64_t t) noexcept nogil:
    """Output queue: cycles before `t` in which flits waited because of a fault, counted from an arbitrary one."""
    return s.latency.link[link].fault + max(t - sound_at(s, link), 0)


cdef inline void note_sound_time(State* s, int32_t link) noexcept nogil:
    """A new flit has started, after which the link is busy for `Link.num`."""
    cdef LinkWait* book = &s.latency.link[link]
    book.sound_free = s.links.link[link].free - s.links.link[link].num + book.num


cdef void begin_faults(State* s) noexcept nogil
cdef bint is_fault(State* s, int32_t link, int64_t t) noexcept nogil
cdef void tail_is_sent(State* s, int32_t link, int32_t packet, int64_t t, int64_t arrival) noexcept nogil
cdef void tail_is_accepted(State* s, int32_t packet, int64_t arrival) noexcept nogil
cdef void message_takes_link(State* s, int32_t link, int64_t t) noexcept nogil
