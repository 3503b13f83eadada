"""Where the parts of a latency are written down: see latency_totals.pyx. Call these only if `State.attribution`."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.latency.latency_records cimport Stay
from pyxsim.core.state.network_state cimport State


cdef bint books_fit(State* s) noexcept nogil
cdef void open_books(State* s, int32_t packet, int32_t message) noexcept nogil
cdef Stay* new_stay(State* s, int32_t packet, int32_t link) noexcept nogil
cdef int32_t new_rider(State* s) noexcept nogil
cdef void free_rider(State* s, int32_t rider) noexcept nogil
cdef void settle_packet(State* s, int32_t packet, int64_t t) noexcept nogil
cdef void free_books(State* s) noexcept
