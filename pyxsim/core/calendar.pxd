"""The delay lines of all links, credits and timers, as one wheel of cycles."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state cimport Event, Slot, State


cdef void schedule(State* s, int64_t cycle, int32_t index, Event kind) noexcept nogil
cdef int64_t next_scheduled(State* s) noexcept nogil
