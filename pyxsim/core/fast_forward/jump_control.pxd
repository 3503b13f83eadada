"""Fast-forward as the engine calls it: see jump_control.pyx."""

from libc.stdint cimport int64_t

from pyxsim.core.state.network_state cimport State


cdef int look_for_periods(State* s, dict arrays, dict records, int64_t until, int64_t window) except -1
cdef int64_t end_of_jump(State* s) noexcept
cdef object totals_ahead(State* s, object cycles, int links)
cdef int skip_ahead(State* s) except -1
cdef int64_t skipped_cycles(State* s) noexcept
