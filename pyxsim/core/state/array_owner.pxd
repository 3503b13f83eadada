"""Owner of arrays: see array_owner.pyx."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t


cdef class ArrayOwner:
    cdef dict arrays      # name -> array, of fixed size
    cdef dict deciding    # name -> whether it decides what happens next
    cdef dict records     # kind -> structured array
    cdef list memory      # buffers behind the records
    cdef object pages     # their allocator

    cdef int _begin(self, bint large) except -1
    cdef void* _address(self, records) except NULL
    cdef object _own(self, str name, values, dtype, bint deciding)
    cdef int32_t* _ints(self, str name, values, bint deciding=*) except NULL
    cdef int64_t* _longs(self, str name, values, bint deciding=*) except NULL
    cdef int16_t* _shorts(self, str name, values) except NULL
    cdef uint64_t* _mask(self, str name, int64_t words) except NULL
    cdef uint8_t* _bytes(self, str name, int64_t count, bint deciding=*) except NULL
