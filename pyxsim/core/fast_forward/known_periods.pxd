"""Periods that were proved, and are remembered: see known_periods.pyx."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.fast_forward.detector_state cimport Loop, Picture
from pyxsim.core.state.network_state cimport State


cdef int32_t loops_kept(State* s) noexcept nogil
cdef void note_counts(State* s, Picture* p) noexcept nogil
cdef Loop* keep_loop(State* s, int32_t base, uint64_t* bits) noexcept nogil
cdef bint plan_round(State* s, Loop* loop, int32_t start, int64_t limit) noexcept nogil
cdef void go_round(State* s) noexcept nogil
cdef void free_picture(Picture* p) noexcept
cdef void free_loops(State* s) noexcept
