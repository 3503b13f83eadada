"""The cycle loop: see cycle.pyx."""

from libc.stdint cimport INT64_MAX, int64_t

from pyxsim.core.state.network_state cimport State


cdef enum Reason:
    UNTIL, DELIVERED, WINDOW, NOTHING_LEFT, DEADLOCK, NO_MEMORY, REPEATS


cdef bint process_arrivals(State* s) noexcept nogil
cdef bint evaluate_cycle(State* s) noexcept nogil
cdef int64_t still_until(State* s) noexcept nogil
cdef Reason run_cycles(State* s, int64_t until, int64_t slack, int64_t window) noexcept nogil


cdef inline int64_t next_window_end(State* s, int64_t window) noexcept nogil:
    """The next cycle in which to report the end of a window; never, if `window` is 0."""
    # The calls before may not have asked for windows, so some may have ended since the last report.
    cdef int64_t since = max(s.stats.window_reported, s.now if s.arrived else s.now - 1)
    return (since // window + 1) * window if window else INT64_MAX
