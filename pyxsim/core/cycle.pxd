"""The cycle loop: see cycle.pyx."""

from libc.stdint cimport int64_t

from pyxsim.core.state.network_state cimport State


cdef enum Reason:
    UNTIL, DELIVERED, WINDOW, NOTHING_LEFT, DEADLOCK, NO_MEMORY, REPEATS


cdef bint process_arrivals(State* s) noexcept nogil
cdef bint evaluate_cycle(State* s) noexcept nogil
cdef Reason run_cycles(State* s, int64_t until, int64_t slack, int64_t window) noexcept nogil
