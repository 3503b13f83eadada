"""The rare operations of the calendar."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.state.bits cimport highest, lowest
from pyxsim.core.state.network_state cimport grow_array
from pyxsim.core.state.records cimport NONE


cdef void enlarge_slot(State* s, CalendarSlot* slot, Event kind) noexcept nogil:
    """Enlarge the list of one kind in a slot."""
    cdef int32_t capacity = slot.capacity[<int32_t> kind] * 2 if slot.capacity[<int32_t> kind] else 16
    slot.events[<int32_t> kind] = <int32_t*> grow_array(s, slot.events[<int32_t> kind], capacity, sizeof(int32_t))
    if not s.failed:
        slot.capacity[<int32_t> kind] = capacity


cdef int64_t next_scheduled(State* s) noexcept nogil:
    """The first cycle from `now` on with an entry, or NONE."""
    cdef int64_t place = s.now & s.calendar.slot_mask
    cdef int32_t word = <int32_t> (place >> 6)
    cdef int32_t _turn
    cdef uint64_t bits = s.calendar.used[word] >> (place & 63) << (place & 63)
    for _turn in range(s.calendar.words + 1):
        if bits:
            return s.now + (((<int64_t> word * 64 + lowest(bits)) - place) & s.calendar.slot_mask)
        word = word + 1 if word + 1 < s.calendar.words else 0
        bits = s.calendar.used[word]
    return NONE


cdef int64_t last_scheduled(State* s) noexcept nogil:
    """The last cycle with an entry, or NONE."""
    cdef int64_t begin = s.now & s.calendar.slot_mask
    cdef int64_t end = (begin - 1) & s.calendar.slot_mask
    cdef int32_t word = <int32_t> (end >> 6)
    cdef int32_t _turn
    cdef uint64_t bits = s.calendar.used[word] << (63 - (end & 63)) >> (63 - (end & 63))
    for _turn in range(s.calendar.words + 1):
        if bits:
            return s.now + (((<int64_t> word * 64 + highest(bits)) - begin) & s.calendar.slot_mask)
        word = word - 1 if word else s.calendar.words - 1
        bits = s.calendar.used[word]
    return NONE
