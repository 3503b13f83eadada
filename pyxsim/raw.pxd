"""Memory of C as bytes of Python, and back: what a checkpoint has of it (docs/checkpoint.md)."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int32_t, int64_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy


cdef inline bytes saved(const void* memory, int64_t count, size_t each):
    """`count` records of a size. Nothing where there is no memory."""
    if memory == NULL:
        return b""
    return PyBytes_FromStringAndSize(<const char*> memory, count * <int64_t> each)


cdef inline list arrays(list views):
    """The arrays behind memoryviews."""
    from numpy import asarray
    return [asarray(view) for view in views]


cdef extern from "<stdlib.h>" nogil:
    void *aligned_alloc(size_t alignment, size_t size)


cdef inline void* aligned(bytes data) except NULL:
    """Memory of its own at a cache line, with this content."""
    cdef const char* source = data
    cdef void* memory = aligned_alloc(64, <size_t> max(len(data), 64))
    if memory == NULL:
        raise MemoryError
    memcpy(memory, source, len(data))
    return memory


cdef inline void* loaded(bytes data) except NULL:
    """Memory of its own, also for nothing: whoever needs more enlarges it."""
    cdef const char* source = data
    cdef void* memory = malloc(max(len(data), 1))
    if memory == NULL:
        raise MemoryError
    memcpy(memory, source, len(data))
    return memory


cdef inline int32_t* ints(list kept, values) except? NULL:
    """An array of these values, which `kept` keeps alive."""
    from numpy import ascontiguousarray, int32
    array = ascontiguousarray(values, dtype=int32)
    kept.append(array)
    cdef size_t address = array.ctypes.data
    return <int32_t*> address


cdef inline int64_t* longs(list kept, values) except? NULL:
    """An array of these values, which `kept` keeps alive."""
    from numpy import ascontiguousarray, int64
    array = ascontiguousarray(values, dtype=int64)
    kept.append(array)
    cdef size_t address = array.ctypes.data
    return <int64_t*> address


cdef inline int8_t* chars(list kept, values) except? NULL:
    """An array of these values, which `kept` keeps alive."""
    from numpy import ascontiguousarray, int8
    array = ascontiguousarray(values, dtype=int8)
    kept.append(array)
    cdef size_t address = array.ctypes.data
    return <int8_t*> address
