"""What flits wait for in routers and output queues: see wait.pyx. Call these only if `State.attribution`."""

from libc.stdint cimport int8_t, int32_t, int64_t

from pyxsim.core.books cimport Winner
from pyxsim.core.state cimport State


cdef inline int8_t traffic_of(State* s, int32_t packet) noexcept nogil:
    return <int8_t> s.messages[s.packets[packet].message].tag


cdef inline int8_t holder_of(State* s, int32_t link, int32_t low, int32_t high) noexcept nogil:
    """Whose packet holds the first VC of a range, or held it last."""
    return <int8_t> s.books.holder[s.link[link].base + low].by if low < high else <int8_t> -1


cdef inline void is_held(State* s, int32_t vc, int32_t packet) noexcept nogil:
    """An output VC goes to a packet."""
    s.books.holder[vc].serial = s.messages[s.packets[packet].message].serial
    s.books.holder[vc].by = traffic_of(s, packet)


# Arrivals.
cdef void comes(State* s, int32_t vc, int64_t t) noexcept nogil
# VC allocation.
cdef void lacks_vc(State* s, int32_t vc) noexcept nogil
cdef void asks_for_vc(State* s, int32_t vc) noexcept nogil
cdef void is_granted(State* s, int32_t vc) noexcept nogil
cdef void lose_ranges(State* s) noexcept nogil
cdef void lose_matrix(State* s, int32_t asked) noexcept nogil
# The switch.
cdef void is_hindered(State* s, int32_t vc, int32_t cause) noexcept nogil
cdef void wins(State* s, int32_t router, int32_t vc, int64_t t, int64_t u) noexcept nogil
cdef void is_first(State* s, int32_t vc, int64_t t) noexcept nogil
cdef void lose_switch(State* s, int32_t router, int64_t u) noexcept nogil
# Links.
cdef void is_queued(State* s, int32_t link, int32_t node) noexcept nogil
cdef void catch_up(State* s, int32_t link, int64_t t) noexcept nogil
cdef void starts(State* s, int32_t link, int32_t packet, int32_t flit, int64_t t, int64_t arrival) noexcept nogil
cdef int8_t blamed(State* s, int32_t vc, int64_t begun, int64_t over) noexcept nogil
