"""Fast-forward for Python: see skip.pyx."""

from libc.stdint cimport int64_t

from pyxsim.core.state cimport State


cdef int look_for_periods(State* s, dict arrays, int64_t until, int64_t window) except -1
cdef tuple periods_of(State* s)
cdef object sampled(State* s, object cycles, int links)
cdef int skip_periods(State* s, int64_t periods) except -1
cdef int64_t skipped_cycles(State* s) noexcept
