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


cdef int64_t count_entries(State* s, int32_t first, int32_t last, int32_t number) noexcept nogil:
    """Count the entries with a number, of the kinds from `first` to `last`."""
    cdef int64_t place
    cdef int32_t kind, i
    cdef int64_t count = 0
    for place in range(s.calendar.slot_mask + 1):
        for kind in range(first, last + 1):
            for i in range(s.calendar.slots[place].count[kind]):
                count += s.calendar.slots[place].events[kind][i] == number
    return count


cdef int64_t remove_entries(State* s, int32_t kind, int32_t begin, int32_t end) noexcept nogil:
    """Remove the calendar entries of a kind with a number from `begin` to `end` - 1. Return how many."""
    cdef int64_t place
    cdef int32_t word, i, k, kept
    cdef int64_t removed = 0
    cdef uint64_t bits
    cdef CalendarSlot* slot
    for word in range(s.calendar.words):
        bits = s.calendar.used[word]
        while bits:
            place = <int64_t> word * 64 + lowest(bits)
            bits &= bits - 1
            slot = &s.calendar.slots[place]
            if not slot.count[kind]:
                continue
            kept = 0
            for i in range(slot.count[kind]):
                slot.events[kind][kept] = slot.events[kind][i]
                kept += not begin <= slot.events[kind][i] < end
            removed += slot.count[kind] - kept
            slot.count[kind] = kept
            for k in range(8):
                kept |= slot.count[k]
            if not kept:
                s.calendar.used[word] &= ~(<uint64_t> 1 << (place & 63))
    return removed
