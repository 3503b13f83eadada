"""Input VC buffers: how many flits are there, and whose."""

from libc.stdint cimport int32_t, uint64_t

from pyxsim.core.state cimport State


cdef inline uint64_t* vcs_of(uint64_t* mask, State* s, int32_t link) noexcept nogil:
    """The words of one link in a mask of VCs."""
    return &mask[s.link_word[link]]


cdef void push_packet(State* s, int32_t vc, int32_t packet) noexcept nogil
cdef int32_t pop_packet(State* s, int32_t vc) noexcept nogil
