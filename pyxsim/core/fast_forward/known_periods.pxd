"""Known periods: see known_periods.pyx."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.fast_forward.detector_state cimport KnownPeriod, StateSnapshot
from pyxsim.core.state.network_state cimport State


cdef int32_t periods_kept(State* s) noexcept nogil
cdef void record_counts(State* s, StateSnapshot* p) noexcept nogil
cdef KnownPeriod* remember_period(State* s, int32_t base, uint64_t* bits) noexcept nogil
cdef bint plan_known_period_jump(State* s, KnownPeriod* loop, int32_t start, int64_t limit) noexcept nogil
cdef void jump_along_known_period(State* s) noexcept nogil
cdef void free_snapshot(StateSnapshot* p) noexcept
cdef void free_known_periods(State* s) noexcept
