"""Sorting of numbers."""

from libc.stdint cimport int32_t, int64_t


cdef void sort_numbers(int32_t* numbers, int64_t count) noexcept nogil
