"""The period detector: see period_detector.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state.network_state cimport State


cdef bint observe_cycle(State* s) noexcept nogil
cdef void perform_jump(State* s) noexcept nogil
cdef void reset_detector(State* s) noexcept nogil
cdef void forget_periods(State* s) noexcept nogil
cdef bint create_detector(State* s, int32_t compared, int32_t blocks) except -1
cdef object deciding_state(State* s)
cdef void shift_time(State* s, int64_t cycles) noexcept nogil
cdef void free_detector(State* s) noexcept
cdef int64_t arithmetic_sum(int64_t periods, int64_t first, int64_t step) noexcept nogil
