"""The random numbers of the C library that ns-3 uses for PINT: glibc's `rand`, an additive feedback generator."""

from libc.stdint cimport int32_t, int64_t, uint32_t

cdef enum:
    LONG = 31
    SHORT = 3

cdef struct LibcRandom:
    uint32_t word[LONG]
    int32_t last


cdef inline int32_t draw_libc(LibcRandom *random) noexcept nogil:
    """The next number of 31 bits."""
    random.last = (random.last + 1) % LONG
    random.word[random.last] += random.word[(random.last + LONG - SHORT) % LONG]
    return <int32_t> (random.word[random.last] >> 1)


cdef inline void seed_libc(LibcRandom *random, int32_t seed) noexcept nogil:
    """Begin as `srand` does; a program that does not call it has seed 1."""
    cdef int64_t value = seed & 0x7FFFFFFF
    cdef int i, _i
    value = value if value else 1
    random.word[0] = <uint32_t> value
    for i in range(1, LONG):
        value = 16807 * value % 2147483647
        random.word[i] = <uint32_t> value
    random.last = SHORT - 1
    for _i in range(10 * LONG):
        draw_libc(random)
