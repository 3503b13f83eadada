"""Links and their credits: see link.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport State


cdef inline bint available(State* s, int32_t link, int64_t t) noexcept nogil:
    """Can the link start a flit in cycle `t`?"""
    return s.link[link].free < (t + 1) * s.link[link].den


cdef inline int64_t available_at(State* s, int32_t link) noexcept nogil:
    """The first cycle in which it can."""
    return s.link[link].free if s.link[link].den == 1 else s.link[link].free // s.link[link].den


cdef inline bint has_credits(State* s, int32_t vc, int32_t count) noexcept nogil:
    """Are there slots for `count` flits behind the VC: its own, and those left of the link's pool?"""
    cdef int32_t credit = s.out[vc].credit
    if credit >= count:
        return True
    return (credit if credit > 0 else 0) + s.link[s.out[vc].link].pool_left >= count


cdef inline bint told(State* s) noexcept nogil:
    """Does somebody want to know which flit of which packet is launched?"""
    return s.tracing or s.watch_serial >= 0 or s.attribution


cdef inline int32_t needed(State* s, int32_t flits, bint head) noexcept nogil:
    """How many credits a flit takes: a head those of its whole packet where packets are what is buffered."""
    if s.flow == 0:
        return 1
    return flits if head else 0


cdef void hold_vc(State* s, int32_t vc, int32_t packet) noexcept nogil
cdef void release_vc(State* s, int32_t vc) noexcept nogil
cdef void send_flit(
    State* s, int32_t vc, int32_t credits, int32_t packet, int32_t flit, int64_t t, int64_t enter
) noexcept nogil
cdef void launch_queued(State* s, int32_t link, int64_t t) noexcept nogil
cdef void return_credit(State* s, int32_t vc, int64_t t) noexcept nogil
cdef int64_t in_use(State* s, int32_t link) noexcept nogil
cdef void take_credit(State* s, int32_t vc) noexcept nogil
