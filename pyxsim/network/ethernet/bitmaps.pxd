"""Bitmaps of a flow: which of its data packets have been received, acknowledged or lost."""

from libc.stdint cimport int32_t, uint64_t

from pyxsim.network.ethernet.pools cimport payload_of
from pyxsim.network.ethernet.records cimport Fabric, Flow

cdef enum:
    RECEIVED = 0
    ACKNOWLEDGED = 1
    LOST = 2


cdef inline uint64_t *bitmap(Fabric *fabric, Flow *flow, int which) noexcept nogil:
    return &fabric.bits[flow.bits + which * ((flow.packets + 63) >> 6)]


cdef inline bint test_bit(uint64_t *bits, int32_t number) noexcept nogil:
    return bits[number >> 6] >> (number & 63) & 1


cdef inline void set_bit(uint64_t *bits, int32_t number) noexcept nogil:
    bits[number >> 6] |= <uint64_t> 1 << (number & 63)


cdef inline bint mark_lost(Fabric *fabric, Flow *flow, int32_t number) noexcept nogil:
    """Take a packet that is not acknowledged for lost: it is to be sent again. Returns whether it was not marked."""
    cdef uint64_t *lost = bitmap(fabric, flow, LOST)
    if test_bit(bitmap(fabric, flow, ACKNOWLEDGED), number) or test_bit(lost, number):
        return False
    set_bit(lost, number)
    flow.lost += 1
    flow.flight -= payload_of(fabric, flow, number)
    return True
