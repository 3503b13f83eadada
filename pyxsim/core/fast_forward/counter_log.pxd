"""The counter log: see counter_log.pyx."""

from libc.stdint cimport int64_t, uint64_t

from pyxsim.core.fast_forward.detector_state cimport JumpPlan
from pyxsim.core.state.network_state cimport State


cdef int64_t words_per_cycle(State* s) noexcept nogil
cdef bint log_fits(State* s, int64_t cycles) noexcept nogil
cdef void start_log(State* s) noexcept nogil
cdef void stop_log(State* s) noexcept nogil
cdef void log_cycle(State* s) noexcept nogil
cdef uint64_t* logged_bits(State* s, int64_t cycle) noexcept nogil
cdef void totals_at_cycles(
    State* s, JumpPlan* plan, int64_t* cycles, int64_t* order, int64_t count, int64_t* rows
) noexcept nogil
