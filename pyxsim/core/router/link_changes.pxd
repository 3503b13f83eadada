"""Links that change between two cycles: see link_changes.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.state.network_state cimport State


cdef void change_link(
    State* s, int32_t link, int64_t num, int32_t delay, int32_t credit_delay, bint down, bint lose
) noexcept nogil
