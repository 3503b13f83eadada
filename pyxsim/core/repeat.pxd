"""Periods of a network: see repeat.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport State


cdef bint observe(State* s) noexcept nogil
cdef int64_t periods_until(State* s, int64_t until) noexcept nogil
cdef void pass_period(State* s) noexcept nogil
cdef void stop_sampling(State* s) noexcept nogil
cdef void note_totals(State* s, int64_t* row) noexcept nogil
cdef int64_t* sample_at(State* s, int64_t rest) noexcept nogil
cdef void jump(State* s, int64_t periods) noexcept nogil
cdef bint make_orbit(State* s, int32_t blocks) except -1
cdef void free_orbit(State* s) noexcept
cdef int64_t sum_of(int64_t periods, int64_t late, int64_t first, int64_t step) noexcept nogil
