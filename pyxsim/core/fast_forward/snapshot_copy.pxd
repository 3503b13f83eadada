"""Copies of the records of a network: see snapshot_copy.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.fast_forward.detector_state cimport StateSnapshot
from pyxsim.core.state.network_state cimport State


cdef int64_t copy_cost(State* s) noexcept nogil
cdef void copy_records(State* s, StateSnapshot* p) noexcept nogil
cdef void restore_records(State* s, StateSnapshot* p) noexcept nogil
