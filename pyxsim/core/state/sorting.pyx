"""Sorting of numbers."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport qsort

cdef enum:
    FEW = 32   # numbers up to which insertion sort is faster


cdef int less(const void* a, const void* b) noexcept nogil:
    cdef int32_t x = (<int32_t*> a)[0]
    cdef int32_t y = (<int32_t*> b)[0]
    return (x > y) - (x < y)


cdef void sort_numbers(int32_t* numbers, int64_t count) noexcept nogil:
    cdef int64_t i, place
    cdef int32_t number
    if count > FEW:
        qsort(numbers, count, sizeof(int32_t), less)
        return
    for i in range(1, count):
        number = numbers[i]
        place = i
        while place and numbers[place - 1] > number:
            numbers[place] = numbers[place - 1]
            place -= 1
        numbers[place] = number
