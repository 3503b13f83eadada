"""The arrays of one network: see engine_arrays.pyx."""

from libc.stdint cimport int64_t

from pyxsim.core.state.link_layer_arrays cimport LinkLayerArrays
from pyxsim.core.state.network_state cimport State


cdef class EngineArrays(LinkLayerArrays):
    cdef int64_t most_found
    cdef bint bitmask
    cdef object users     # UserAllocators, or None
    cdef object choice    # Choice of router_choice.py

    cdef int _allocate_scratch(self, State* s) except -1
    cdef int64_t size_in_bytes(self)
