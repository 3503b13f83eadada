"""Counting of stalls, also for routers that sleep: see stats.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport State


cdef void begin_look(State* s, int32_t router, int64_t t) noexcept nogil
cdef void next_tick(State* s, int32_t router) noexcept nogil
cdef void end_look(State* s, int32_t router) noexcept nogil
cdef void settle(State* s) noexcept nogil
