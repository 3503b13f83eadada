"""The arrays of one network: see engine_arrays.pyx."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from pyxsim.core.state.network_state cimport State


cdef class EngineArrays:
    cdef State s
    cdef tuple made_of    # what it was made of, to make it again: positional, and by name
    cdef dict arrays      # name -> array, of all that is fixed in size
    cdef dict deciding    # name -> does it decide?
    cdef dict records     # kind -> structured array
    cdef list memory      # what the records stand in
    cdef object pages     # where it comes from
    cdef object listed    # VCs by link and number
    cdef int64_t most_found
    cdef bint by_masks

    cdef void* _address(self, records) except NULL
    cdef object _own(self, str name, values, dtype, bint deciding)
    cdef int32_t* _ints(self, str name, values, bint deciding=*) except NULL
    cdef int64_t* _longs(self, str name, values, bint deciding=*) except NULL
    cdef int16_t* _shorts(self, str name, values) except NULL
    cdef uint64_t* _mask(self, str name, int64_t words) except NULL
    cdef uint8_t* _bytes(self, str name, int64_t count, bint deciding=*) except NULL
    cdef int _allocate_scratch(self, State* s) except -1
    cdef int64_t size_in_bytes(self)
