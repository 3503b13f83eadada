"""A flit on the wire is one integer in the slot of the cycle in which it arrives; so is a credit, and so is a timer.

Everything arrives at least one cycle after it was sent and within the wheel's length (the Engine makes the wheel
longer than the longest delay), so a slot never holds two different cycles. Entries of one cycle touch different
VCs or commute, so their order in the slot does not matter.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.bits cimport lowest
from pyxsim.core.state cimport grown


cdef void schedule(State* s, int64_t cycle, int32_t index, Event kind) noexcept nogil:
    cdef int64_t place = cycle & s.slot_mask
    cdef Slot* slot = &s.slots[place]
    cdef int32_t room
    if slot.count == slot.room:
        room = slot.room * 2 if slot.room else 16
        slot.events = <int32_t*> grown(s, slot.events, room, sizeof(int32_t))
        if s.failed:
            return
        slot.room = room
    slot.events[slot.count] = index * 4 + <int32_t> kind
    slot.count += 1
    s.scheduled += 1
    s.slot_used[place >> 6] |= (<uint64_t> 1) << (place & 63)


cdef int64_t next_scheduled(State* s) noexcept nogil:
    """The first cycle from `now` on with an entry; call it only if there is one (`scheduled` > 0)."""
    cdef int64_t place = s.now & s.slot_mask
    cdef int32_t word = <int32_t> (place >> 6)
    cdef int32_t _turn
    cdef uint64_t bits = s.slot_used[word] >> (place & 63) << (place & 63)
    for _turn in range(s.slot_words + 1):
        if bits:
            return s.now + (((<int64_t> word * 64 + lowest(bits)) - place) & s.slot_mask)
        word = word + 1 if word + 1 < s.slot_words else 0
        bits = s.slot_used[word]
    return s.now
