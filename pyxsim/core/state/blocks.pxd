"""Copy and clear blocks that may be empty: memcpy and memset must not get NULL, not even for no bytes (C17, 7.24.1)."""

from libc.string cimport memcpy, memset


cdef inline void copy_block(void* target, const void* source, size_t size) noexcept nogil:
    if size:
        memcpy(target, source, size)


cdef inline void clear_block(void* target, size_t size) noexcept nogil:
    if size:
        memset(target, 0, size)
