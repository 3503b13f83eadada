"""The records of a network, copied and put back: see snapshot_copy.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.fast_forward.detector_state cimport Picture
from pyxsim.core.state.network_state cimport State


cdef int64_t copy_words(State* s) noexcept nogil
cdef void copy_records(State* s, Picture* p) noexcept nogil
cdef void put_back(State* s, Picture* p) noexcept nogil
