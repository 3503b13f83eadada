"""Input VC buffers: how many flits are there, and whose."""

from libc.stdint cimport int32_t, uint64_t

from pyxsim.core.state cimport State


cdef inline uint64_t* vcs_of(uint64_t* mask, State* s, int32_t link) noexcept nogil:
    """The words of one link in a mask of its VCs."""
    return &mask[s.link[link].word]


cdef inline uint64_t* inputs_of(uint64_t* mask, State* s, int32_t router) noexcept nogil:
    """The words of one router in a mask of its input VCs."""
    return &mask[s.router[router].word]


cdef inline int32_t place_of(State* s, int32_t vc) noexcept nogil:
    """The number of an input VC among those of its router."""
    return vc - s.router[s.vc[vc].router].base


cdef void push_packet(State* s, int32_t vc, int32_t packet) noexcept nogil
cdef int32_t pop_packet(State* s, int32_t vc) noexcept nogil
