"""What was counted in each cycle: see counter_log.pyx."""

from libc.stdint cimport int64_t, uint64_t

from pyxsim.core.fast_forward.detector_state cimport Plan
from pyxsim.core.state.network_state cimport State


cdef int64_t row_words(State* s) noexcept nogil
cdef bint tape_fits(State* s, int64_t cycles) noexcept nogil
cdef void start_tape(State* s) noexcept nogil
cdef void stop_tape(State* s) noexcept nogil
cdef void note_cycle(State* s) noexcept nogil
cdef uint64_t* bits_from(State* s, int64_t cycle) noexcept nogil
cdef void totals_at(State* s, Plan* plan, int64_t* cycles, int64_t* order, int64_t count, int64_t* rows) noexcept nogil
