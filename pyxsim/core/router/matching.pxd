"""Matching of a request matrix: see matching.pyx."""

from libc.stdint cimport int32_t

from pyxsim.core.state.network_state cimport State


cdef int32_t match_requests(
    State* s, int32_t count, int32_t kind, int32_t iterations, int32_t inputs, int32_t outputs,
    int32_t* grant, int32_t* accept, int32_t* wave,
) noexcept nogil
