"""Bit errors of links, and retry at the link: see retry.pyx."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.router.random_draws cimport GOLDEN, mix
from pyxsim.core.state.network_state cimport State
from pyxsim.core.state.records cimport Event


cdef enum:
    FLIT_ERROR = 0   # purposes of draws
    NACK_ERROR = 1


cdef inline uint64_t error_draw(State* s, int32_t link, int64_t launch, int32_t purpose) noexcept nogil:
    """The random number of a launch on a link, which is independent of other launches and of the order of visits."""
    return mix(mix(s.config.seed + GOLDEN * <uint64_t> (link + 1)) + GOLDEN * <uint64_t> (2 * launch + purpose + 1))


cdef inline int64_t replay_slot(State* s, int32_t link, int64_t number) noexcept nogil:
    """The slot of a flit, among those of all replay buffers."""
    return s.links.replay[link].base + number % s.links.replay[link].slots


cdef bint replay_accepts(State* s, int32_t link, int64_t t) noexcept nogil
cdef void count_full_buffer(State* s, int32_t link, int64_t t) noexcept nogil
cdef void send_with_retry(State* s, int32_t vc, Event kind, int32_t packet, int32_t flit, int64_t t) noexcept nogil
cdef int64_t enter_replay(
    State* s, int32_t link, int32_t vc, Event kind, int32_t packet, int32_t flit, int64_t t
) noexcept nogil
cdef void transmit(State* s, int32_t link, int64_t number, int64_t t) noexcept nogil
cdef void send_again(State* s, int32_t link, int64_t t) noexcept nogil
cdef void resume_sending(State* s, int32_t link) noexcept nogil
cdef void lose_unaccepted(State* s, int32_t link) noexcept nogil
cdef void after_launch(State* s, int32_t link, int32_t packet, int64_t t) noexcept nogil
cdef bint steady_replays(State* s) noexcept nogil
cdef int64_t held_until(State* s, int32_t link, int64_t cycle) noexcept nogil
