"""Round-robin arbiters of all input ports of a router at once, on bit masks with 2^port_shift bits per port."""

from libc.stdint cimport int32_t, uint64_t

from pyxsim.core.state.network_state cimport State


cdef inline uint64_t bits_from_place(int32_t place) noexcept nogil:
    """All bits from `place` on, which may be negative or beyond the word."""
    return ~(<uint64_t> 0) if place <= 0 else ~(<uint64_t> 0) << place if place < 64 else 0


cdef inline uint64_t ports_with(State* s, uint64_t places) noexcept nogil:
    """The last bit of each port that has any of these bits."""
    return (((places & ~s.masks.port_high) + ~s.masks.port_high) | places) & s.masks.port_high


cdef inline uint64_t all_bits_of(State* s, uint64_t ports) noexcept nogil:
    """All bits of the ports that are given by their last bits."""
    return (ports << 1) - (ports >> ((1 << s.masks.port_shift) - 1))


cdef inline uint64_t arbitrate_inputs(State* s, uint64_t asking, uint64_t turn) noexcept nogil:
    """Select, for each port, the first requesting VC at or after its pointer, cyclically. `turn`: the bits from there
    on.

    Subtracting 1 flips the lowest set bit and all bits below it. The last bit of each port is set first, so that no
    port borrows from the next.
    """
    cdef uint64_t later = asking & turn
    asking = later | (asking & ~all_bits_of(s, ports_with(s, later)))
    return asking & ~((asking | s.masks.port_high) - s.masks.port_low)


cdef inline uint64_t advance_pointers(State* s, uint64_t turn, uint64_t granted, uint64_t places) noexcept nogil:
    """Move the pointers behind the granted VCs; returns the bits from the pointers on."""
    cdef uint64_t ports = ports_with(s, granted)
    return (turn & ~all_bits_of(s, ports)) | (((ports - granted) << 1) & places)


cdef inline uint64_t step_pointers(State* s, uint64_t turn, uint64_t picked, uint64_t places) noexcept nogil:
    """Garnet: move the pointer of each requesting port by one."""
    cdef uint64_t port, left
    while picked:
        port = all_bits_of(s, ports_with(s, picked & (~picked + 1)))
        left = turn & port
        left &= left - 1
        turn = (turn & ~port) | (left if left else places & port)
        picked &= picked - 1
    return turn
