"""Periods of a network: see period_detector.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state.network_state cimport State


cdef bint observe(State* s) noexcept nogil
cdef void jump(State* s) noexcept nogil
cdef void forget(State* s) noexcept nogil
cdef bint make_orbit(State* s, int32_t compared, int32_t blocks) except -1
cdef void free_orbit(State* s) noexcept
cdef int64_t sum_of(int64_t periods, int64_t first, int64_t step) noexcept nogil
