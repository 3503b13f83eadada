"""Round-robin arbitration: the first requester at or after a pointer, cyclically (Dally and Towles, section 18.3)."""

from libc.stdint cimport int32_t, uint64_t

from pyxsim.core.state.bits cimport next_bit


cdef inline int32_t distance(int32_t requester, int32_t pointer, int32_t count) noexcept nogil:
    """Return how far a requester is behind the pointer; the smallest distance wins."""
    return requester - pointer if requester >= pointer else requester - pointer + count


cdef inline int32_t after(int32_t place, int32_t count) noexcept nogil:
    return place + 1 if place + 1 < count else 0


cdef inline int32_t first_from(uint64_t* mask, int32_t pointer, int32_t low, int32_t high) noexcept nogil:
    """Return the first set bit of [low, high) at or after the pointer, cyclically; or -1."""
    cdef int32_t bit
    if pointer < low or pointer >= high:
        pointer = low
    bit = next_bit(mask, pointer, high)
    return bit if bit >= 0 else next_bit(mask, low, pointer)
