"""Draws that depend on the packet only: SplitMix64 (Steele, Lea and Flood 2014) of a key and a purpose.

There is no generator state, so no draw depends on the order in which routers are visited.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t


cdef enum Purpose:
    DRAW_WAY = 1
    DRAW_VIA = 2
    DRAW_SELECT = 3
    DRAW_OTHER = 4
    DRAW_TIE = 5


cdef extern from *:
    """
    #define PYXSIM_GOLDEN 0x9E3779B97F4A7C15ULL
    static inline unsigned long long pyxsim_mix(unsigned long long x) {
        x ^= x >> 30; x *= 0xBF58476D1CE4E5B9ULL;
        x ^= x >> 27; x *= 0x94D049BB133111EBULL;
        return x ^ (x >> 31);
    }
    """
    uint64_t GOLDEN "PYXSIM_GOLDEN"
    uint64_t mix "pyxsim_mix" (uint64_t x) noexcept nogil


cdef inline uint64_t packet_key(uint64_t seed, int64_t serial, int32_t number) noexcept nogil:
    return mix(seed + GOLDEN * <uint64_t> (serial + 1)) ^ mix(GOLDEN * <uint64_t> (number + 1))


cdef inline int32_t draw(uint64_t key, int32_t place, Purpose purpose, int64_t choices) noexcept nogil:
    """A number from 0 to `choices` - 1."""
    return <int32_t> ((mix(key + GOLDEN * (<uint64_t> place * 8 + <uint64_t> purpose)) >> 16) % <uint64_t> choices)
