"""The records of a network, copied and put back: see copy.pyx."""

from libc.stdint cimport int32_t, int64_t

from pyxsim.core.orbit cimport Picture
from pyxsim.core.state cimport State


cdef int64_t copy_words(State* s) noexcept nogil
cdef void copy_records(State* s, Picture* p) noexcept nogil
cdef void put_back(State* s, Picture* p) noexcept nogil
